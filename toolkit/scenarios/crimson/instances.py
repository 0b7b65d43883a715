"""Connection instances of a node, with crimson's counters, derived from a history.

Crimson makes a connection object for every socket that it accepts and for every peer that it connects to. Here an
accepted link has no session until the handshake decides. The instances correspond as follows:

* a session that this side dialled, or that was opened on an accepted link, is one instance for all its life;
* an accepted link that never got a session of its own is an instance as well: ``replaced`` if an existing session
  took it over, ``closed`` if it broke before.

Attempts are counted where crimson counts them, at the points of the interception grid: a frame that was stopped
there counts, whether it was written or not. On msgr v1, where CONNECT stands for both CLIENT_IDENT and
SESSION_RECONNECT, a link's CONNECTs count once as ident, with connect_seq 0, and once as reconnect, with a higher
one.
"""

from collections import Counter
from dataclasses import dataclass, field

from messenger.interception import Action
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.history import History
from toolkit.checks.records import Record

_TAKEOVERS = frozenset({"REUSE", "REUSE_RESET", "REPLACE", "REPLACE_FRESH", "REPLACE_RESET"})
"""Verdicts that give an accepted link to an existing session."""
_FRESH = frozenset({"OPEN", "STOP_EXISTING"})
_IDENT, _RECONNECT, _CONNECT = "CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT"
_HELD = frozenset({Action.BLOCK.value, Action.STALL.value})


@dataclass(slots=True)
class Side:
    """Counters of one instance as connector, or as acceptor."""

    attempts: int = 0
    """Number of dials, or of accepted sockets."""
    idents: int = 0
    """Number of CLIENT_IDENTs written, or read."""
    reconnects: int = 0
    """Number of SESSION_RECONNECTs written, or read."""
    events: int = 0
    """Number of connect or accept events dispatched."""

    def as_tuple(self) -> tuple[int, int, int, int]:
        """The counters in crimson's order."""
        return (self.attempts, self.idents, self.reconnects, self.events)


@dataclass(slots=True)
class Instance:
    """One connection of a node, as crimson counts it."""

    state: str = "connecting"
    """``established``, ``closed`` or ``replaced``; before the end also ``accepting`` and states of sessions."""
    connect: Side = field(default_factory=Side)
    accept: Side = field(default_factory=Side)
    resets: int = 0
    remote_resets: int = 0

    def __str__(self) -> str:
        words = [self.state]
        for label, side in (("connect", self.connect), ("accept", self.accept)):
            if any(counts := side.as_tuple()):
                words.append(f"{label} {counts}")
        if self.resets or self.remote_resets:
            words.append(f"reset ({self.resets}, {self.remote_resets})")
        return " ".join(words)


class Instances:
    """The connection instances of one node, updated as its history grows.

    Args:
        history: the history with the node's records.
        node: name of the node.
    """

    def __init__(self, history: History, node: str) -> None:
        self._history = history
        self._node = node
        self._read = 0
        self._ledger = _Ledger()

    def now(self) -> list[Instance]:
        """The instances since the node's last start, in the order in which they appeared."""
        records = self._history.records
        for record in records[self._read :]:
            if record.node != self._node:
                continue
            if record.kind == "process" and record["action"] == "start":
                self._ledger = _Ledger()
            self._ledger.add(record)
        self._read = len(records)
        return self._ledger.instances

    def __str__(self) -> str:
        return " | ".join(map(str, self.now()))


class _Ledger:
    """Builds the instances from the records of one node."""

    def __init__(self) -> None:
        self.instances: list[Instance] = []
        self._by_session: dict[int, Instance] = {}
        self._by_link: dict[str, Instance] = {}
        self._sides: dict[str, Side] = {}
        """Where what happens on a link counts."""
        self._opening: Instance | None = None
        """The accepted link on which a fresh session is about to open."""
        self._held: Counter[tuple[str, str]] = Counter()
        """Frames that were counted when they were stopped, and that may still come: by link and point."""
        self._connects: set[tuple[str, bool]] = set()
        """v1: links whose CONNECT has been counted, and whether it was with a connect_seq."""
        self._seqs: dict[int, int] = {}
        """connect_seq of each session."""
        self._dialled_by: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Update the model from one history record."""
        handle = getattr(self, f"_add_{record.kind}", None)
        if handle is not None:
            handle(record)

    # ---- sessions and links

    def _instance(self, session: int) -> Instance:
        """The instance of a session; a new one if the session has none."""
        instance = self._by_session.get(session)
        if instance is None:
            instance = self._opening or self._new()
            self._opening = None
            self._by_session[session] = instance
        return instance

    def _new(self) -> Instance:
        self.instances.append(Instance())
        return self.instances[-1]

    def _add_state(self, record: Record) -> None:
        state = record["state"]
        self._seqs[record["session"]] = record["connect_seq"]
        ends = {SessionState.READY.value: "established", SessionState.CLOSED.value: "closed"}
        self._instance(record["session"]).state = ends.get(state, state.lower())

    def _add_event(self, record: Record) -> None:
        instance = self._instance(record["session"])
        kind = record["event"]
        if kind == EventKind.CONNECT:
            instance.connect.events += 1
        elif kind == EventKind.ACCEPT:
            instance.accept.events += 1
        elif kind == EventKind.RESET:
            instance.resets += 1
        elif kind == EventKind.REMOTE_RESET:
            instance.remote_resets += 1

    def _add_link(self, record: Record) -> None:
        link, action = record["link"], record["action"]
        if action == "dial":
            instance = self._instance(record["session"])
            instance.connect.attempts += 1
            self._by_link[link], self._sides[link] = instance, instance.connect
            self._dialled_by[link] = record["session"]
        elif action == "accept":
            instance = self._by_link[link] = self._new()
            instance.state = "accepting"
            instance.accept.attempts = 1
            self._sides[link] = instance.accept
        elif action == "close":
            if record["session"] is not None:
                self._instance(record["session"])
            instance = self._by_link[link]
            if instance.state == "accepting":
                instance.state = "closed"
            if self._opening is instance:
                self._opening = None

    def _add_decision(self, record: Record) -> None:
        instance = self._by_link[record["link"]]
        if record["verdict"] in _TAKEOVERS:
            instance.state = "replaced"
        elif record["verdict"] in _FRESH and instance.state == "accepting":
            self._opening = instance

    # ---- attempts

    def _add_frame(self, record: Record) -> None:
        if record["session"] is not None:
            self._instance(record["session"])
        tag, link = record["tag"], record["link"]
        if tag not in {_IDENT, _RECONNECT, _CONNECT}:
            return
        if tag == _CONNECT:
            self._count_connect(link, record["fields"]["connect_seq"])
            return
        point = f"{tag} {'WRITE' if record['direction'] == 'tx' else 'READ'}"
        if self._held[link, point]:
            self._held[link, point] -= 1
        else:
            self._count(link, tag)

    def _add_intercept(self, record: Record) -> None:
        link, action = record["link"], record["action"]
        tag, _, way = record["point"].partition(" ")
        if tag == _CONNECT and way == "WRITE":
            self._count_connect(link, self._seqs.get(self._dialled_by.get(link, 0), 0))
        elif tag in {_IDENT, _RECONNECT} and not (action == Action.STALL and way == "WRITE"):
            # A stalled frame is written at once; the others may come later, or never.
            self._count(link, tag)
            self._held[link, record["point"]] += action in _HELD

    def _count(self, link: str, tag: str) -> None:
        side = self._sides[link]
        if tag == _IDENT:
            side.idents += 1
        else:
            side.reconnects += 1

    def _count_connect(self, link: str, connect_seq: int) -> None:
        key = link, connect_seq > 0
        if key not in self._connects:
            self._connects.add(key)
            self._count(link, _RECONNECT if connect_seq else _IDENT)
