"""The data of the view, updated incrementally, so that the cost of an update does not grow with the history."""

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.checks.history import SCENARIO, History
from toolkit.checks.records import Record
from toolkit.cluster.nodes import RunningNode
from toolkit.cluster.status import RECENT, Races, is_event, links_of, recent, record_json
from toolkit.faults.language import Fault
from toolkit.report.disturbances import Band, Disturbances
from toolkit.report.rates import Delivered

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster

NUMBERS = ("connect_seq", "in_seq", "out_seq", "queued", "sent")
"""Counters of a session, as in the status."""
_KEPT_EVENTS = 100
_KEPT_STEPS = 200
_KEPT_CHANGES = 6
_WINDOW_S = 2.0
"""Seconds over which rates are averaged."""
RATES_S = 30.0
"""Seconds of deliveries in the chart."""
_MOST_PENDING = 10_000
"""Most sent messages that wait for their delivery records."""
_UNDONE = "not done"
"""Verb of a timeline's step that failed."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A change of a session's state."""

    time_s: float
    state: str
    connect_seq: int
    why: str


@dataclass(slots=True)
class Seen:
    """A session of a node, as the node reports it, or as its last records show it."""

    node: str
    peer: str
    number: int
    state: str
    numbers: dict[str, int | None]
    trail: tuple[Moved, ...]
    """Latest states, the newest last."""
    stale: str = ""
    """Why the data is out of date; empty if it is not."""
    messages_per_s: float = 0.0
    """Rate of messages delivered to the node."""
    bytes_per_s: float = 0.0

    @property
    def key(self) -> str:
        """Identifies it in the view."""
        return f"{self.node}/{self.number}"

    @property
    def name(self) -> str:
        """Node and peer, for display."""
        return f"{self.node} → {self.peer}"


@dataclass(slots=True)
class Facts:
    """State of a cluster at one moment."""

    name: str
    backend: str
    now_s: float
    records: int
    full_s: float | None
    nodes: dict[str, str]
    """State of each node."""
    kinds: dict[str, str]
    """Entity name of each node, or type of the daemon."""
    sessions: list[Seen]
    links: list[dict[str, Any]]
    """Impaired or blocked links, as in the status."""
    faults: tuple[Fault, ...]
    """Faults in force."""
    steps: tuple[Record, ...]
    """Faults so far, the newest last."""
    events: list[dict[str, Any]]
    arrived: tuple[Delivered, ...] = ()
    """Deliveries in the last 30 s."""
    bands: tuple[Band, ...] = ()
    """Faults in the last 30 s."""

    @property
    def state(self) -> str:
        """``up`` if all nodes are up, else ``hurt``."""
        return "up" if all(state == "up" for state in self.nodes.values()) else "hurt"


@dataclass(slots=True)
class Gatherer:
    """Reads new records of a cluster's history, and queries its nodes."""

    cluster: "Cluster"
    _read: int = 0
    _trails: dict[tuple[str, int], deque[Moved]] = field(default_factory=dict)
    _peers: dict[tuple[str, int], str] = field(default_factory=dict)
    _events: deque[Record] = field(default_factory=lambda: deque(maxlen=_KEPT_EVENTS))
    _steps: deque[Record] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))
    _delivered: deque[tuple[float, tuple[str, int], int]] = field(default_factory=deque)
    _arrived: deque[Delivered] = field(default_factory=deque)
    _pending: dict[tuple[str, str, int, str], float] = field(default_factory=dict)
    """Send times of undelivered messages, by sender, receiver, tid and digest."""
    _disturbances: Disturbances = field(default_factory=Disturbances)

    def gather(self) -> Facts:
        """Return the present state of the cluster."""
        cluster = self.cluster
        self._read, fresh = cluster.history.behind(self._read, sys.maxsize)
        self._take(fresh)
        now_s = cluster.now()
        self._forget(now_s)
        states = {name: node.state for name, node in cluster.nodes.items()}
        sessions = [session for node in cluster.nodes.values() for session in self._sessions(node)]
        self._rate(sessions)
        races = Races(History(self._events))
        return Facts(
            name=cluster.name,
            backend=cluster.backend.name,
            now_s=now_s,
            records=self._read,
            full_s=cluster.history.full_s,
            nodes=states,
            kinds={name: _kind(node) for name, node in cluster.nodes.items()},
            sessions=sessions,
            links=links_of(cluster),
            faults=cluster.scene_faults(),
            steps=tuple(self._steps),
            events=[record_json(record, races) for record in recent(list(self._events), RECENT)],
            arrived=tuple(sorted(self._arrived, key=lambda each: each.time_s)),
            bands=tuple(self._disturbances.bands),
        )

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            self._disturbances.take(record)
            if is_event(record):
                self._events.append(record)
            if record.kind == "state":
                self._moved(record)
            elif record.kind == "deliver":
                key = record.node, record.fields["session"]
                self._delivered.append((record.time_s, key, record.fields["size"]))
                self._arrive(record)
            elif record.kind == "send":
                self._send(record)
            elif record.kind == "process" and record.fields["action"] == "start":
                for key in [key for key in self._trails if key[0] == record.node]:
                    del self._trails[key], self._peers[key]
            elif record.kind == "step" and record.node == SCENARIO and record.fields["verb"] != _UNDONE:
                self._steps.append(record)

    def _moved(self, record: Record) -> None:
        about = record.fields
        key = record.node, about["session"]
        trail = self._trails.setdefault(key, deque(maxlen=_KEPT_CHANGES))
        trail.append(Moved(record.time_s, about["state"], about["connect_seq"], about["why"]))
        self._peers[key] = about["peer"]

    def _send(self, record: Record) -> None:
        about = record.fields
        self._pending[record.node, about["peer"], about["tid"], about["digest"]] = record.time_s
        if len(self._pending) > _MOST_PENDING:
            del self._pending[next(iter(self._pending))]

    def _arrive(self, record: Record) -> None:
        about = record.fields
        sent_s = self._pending.pop((about["peer"], record.node, about["tid"], about["digest"]), None)
        latency_s = None if sent_s is None else max(0.0, record.time_s - sent_s)
        self._arrived.append(Delivered(record.time_s, about["size"], latency_s))

    def _forget(self, now_s: float) -> None:
        while self._delivered and self._delivered[0][0] < now_s - _WINDOW_S:
            self._delivered.popleft()
        while self._arrived and self._arrived[0].time_s < now_s - RATES_S:
            self._arrived.popleft()
        bands = self._disturbances.bands
        bands[:] = [band for band in bands if band.end_s is None or band.end_s >= now_s - RATES_S]

    def _sessions(self, node: RunningNode) -> Iterable[Seen]:
        if node.state == "up":
            try:
                answer = node.status().get("sessions") or []
            except LocalError:
                return  # it has just ended
            for about in answer:
                key = node.name, int(about.get("id", 0))
                numbers = {number: about.get(number) for number in NUMBERS}
                yield Seen(node.name, about["peer"], key[1], about["state"], numbers, self._trail(key))
        elif node.state == "frozen":
            for key, trail in self._trails.items():
                if key[0] == node.name and trail and trail[-1].state != "CLOSED":
                    numbers = dict.fromkeys(NUMBERS) | {"connect_seq": trail[-1].connect_seq}
                    seen = Seen(*key[:1], self._peers[key], key[1], trail[-1].state, numbers, self._trail(key))
                    seen.stale = f"{node.name} is frozen: as it was at {trail[-1].time_s:.3f} s"
                    yield seen

    def _trail(self, key: tuple[str, int]) -> tuple[Moved, ...]:
        return tuple(self._trails.get(key, ()))

    def _rate(self, sessions: Iterable[Seen]) -> None:
        counts: dict[tuple[str, int], list[int]] = {}
        for _, key, size_bytes in self._delivered:
            count = counts.setdefault(key, [0, 0])
            count[0] += 1
            count[1] += size_bytes
        for session in sessions:
            messages, size_bytes = counts.get((session.node, session.number), (0, 0))
            session.messages_per_s, session.bytes_per_s = messages / _WINDOW_S, size_bytes / _WINDOW_S


def _kind(node: RunningNode) -> str:
    spec = getattr(node, "spec", None)
    return str(getattr(spec, "entity", "") or node.kind)
