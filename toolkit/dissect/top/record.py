"""The record of one session: totals, and the last events and latencies. Its size is bounded."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toolkit.capture.ports import CEPH_PORTS, parse_ports
from toolkit.dissect.analysis.links import SECURE_CIPHER, LinkView
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import Ending
from toolkit.dissect.top.row import Event, Row
from toolkit.dissect.top.verdict import NO_KEY, Judge, LinkSeqs

EVENTS = 24
LATENCIES = 512
LINKS = 4
"""Number of links of a session at the same time: those of a connection race, and one that is being replaced."""
_NANO = 1e9
_PORTS = parse_ports(CEPH_PORTS)
_SECURE = 2
"""The con_mode of AUTH_DONE that announces encryption (docs/protocol.md §4.7)."""


@dataclass(slots=True, eq=False)
class OpenLink:
    """A link that may still carry frames."""

    view: LinkView
    seqs: LinkSeqs = field(default_factory=LinkSeqs)
    ends: int = 0
    """Number of ended directions; 2 after a RST."""
    announced_secure: bool = False
    """True if AUTH_DONE announced encryption and no frame after it was decrypted."""

    def end(self, how: Ending) -> bool:
        """Note the end of a direction; True if it is the first end of the link."""
        first = not self.ends
        self.ends = 2 if how is Ending.RESET else self.ends + 1
        return first


@dataclass(slots=True)
class Counts:
    """Totals of what one party sent."""

    bytes: int = 0
    frames: int = 0
    messages: int = 0
    bytes_before: int = 0
    """Value at the last snapshot, as ``frames_before``."""
    frames_before: int = 0

    def add(self, other: "Counts") -> None:
        """Add the totals of a link."""
        self.bytes += other.bytes
        self.frames += other.frames
        self.messages += other.messages


@dataclass(slots=True, eq=False)
class Record:
    """A session, or a link that has not identified its session."""

    number: int
    began_ns: int
    newest: LinkView
    """The link of the last frame."""
    session: SessionView | None = None
    links: dict[int, OpenLink] = field(default_factory=dict)
    """Links by stream, the oldest first."""
    counts: tuple[Counts, Counts] = field(default_factory=lambda: (Counts(), Counts()))
    """Totals of both parties, first those of the connector of the first link."""
    judge: Judge = field(default_factory=Judge)
    latencies_ns: deque[int] = field(default_factory=lambda: deque(maxlen=LATENCIES))
    requests: int = 0
    reconnects: int = 0
    last_ns: int = 0
    down_ns: int | None = None
    """Time since which no link is open; None while one is."""
    fault: Event | None = None
    """The last event that is a fault, but not the end of a link."""
    ended: tuple[int, LinkView] | None = None
    """Time of the end of the last link, and the link."""
    events: deque[tuple[int, str | LinkView]] = field(default_factory=lambda: deque(maxlen=EVENTS))
    """Time and text of each event; of an ended link the link itself, because more may become known of it."""

    def party(self, view: LinkView, direction: Direction) -> int:
        """Return the index of the party that sends in a direction of a link."""
        return view.dialler if direction is Direction.TO_SERVER else 1 - view.dialler

    def note(self, time_ns: int, text: str, *, fault: bool = False) -> None:
        """Record an event."""
        self.events.append((time_ns, text))
        if fault:
            self.fault = Event(time_ns, text)

    def absorb(self, other: "Record", *, swapped: bool) -> None:
        """Add a link that proves to be another one of this session.

        Args:
            other: the record of this link.
            swapped: True if the link was opened by the second party.
        """
        for party, counts in enumerate(self.counts):
            counts.add(other.counts[1 - party if swapped else party])
        self.judge.absorb(other.judge, swapped=swapped)
        self.links |= other.links
        self.events.extend(other.events)
        self.began_ns = min(self.began_ns, other.began_ns)
        self.last_ns = max(self.last_ns, other.last_ns)

    @property
    def frames(self) -> int:
        """Frames so far, both ways."""
        return sum(counts.frames for counts in self.counts)

    @property
    def is_shown(self) -> bool:
        """True if it is a messenger's session: it has frames, or a port of Ceph's. Second hops are not shown."""
        if self.newest.hop_of is not None:
            return False
        port = int(self.newest.stream.server.rpartition(":")[2])
        return bool(self.frames) or any(port in known for known in _PORTS)

    @property
    def state(self) -> str:
        """The state as in :class:`Row`."""
        open_links = [link for link in self.links.values() if not link.ends]
        if not open_links:
            return "down"
        if any(link.view.ready_ns is not None for link in open_links):
            return "open"
        if open_links[-1].announced_secure:
            return "sealed"
        seen = open_links[-1].view
        if not self.frames:
            return "unread"
        return "opening" if seen.stream.opening_seen and not seen.messages else "open"

    def _names(self) -> tuple[str, str]:
        if self.session is not None:
            return self.session.parties[0].name, self.session.parties[1].name
        return self.newest.name(Direction.TO_SERVER), self.newest.name(Direction.TO_CLIENT)

    def _event_text(self, what: str | LinkView, now_ns: int) -> str:
        if isinstance(what, str):
            return what
        return f"stream {what.stream.index} ended: {what.ending(now_ns)}"

    def _last(self, now_ns: int) -> str:
        if self.ended is not None and (self.fault is None or self.fault.time_ns <= self.ended[0]):
            return self.ended[1].ending(now_ns)
        return self.fault.text if self.fault else ""

    def row(self, now_ns: int, interval_s: float) -> Row:
        """Return the session as a row.

        Args:
            now_ns: Unix time.
            interval_s: seconds since the last snapshot, above 0.
        """
        out, back = self.counts
        entity, peer = self._names()
        sends = Direction.TO_CLIENT if self.newest.dialler else Direction.TO_SERVER
        state = self.state
        secure = self.newest.mode == "secure" or any(link.announced_secure for link in self.links.values())
        p50_ms, p99_ms = _percentiles(self.latencies_ns)
        return Row(
            session=self.number,
            entity=entity,
            global_id=self.newest.global_id,
            peer=peer,
            address=self.newest.stream.source(sends),
            peer_address=self.newest.stream.source(sends.other),
            protocol=self.newest.protocol,
            mode="secure" if secure else self.newest.mode,
            cipher=SECURE_CIPHER if secure else "",
            state=state,
            frames_out_per_s=(out.frames - out.frames_before) / interval_s,
            frames_in_per_s=(back.frames - back.frames_before) / interval_s,
            bytes_out_per_s=(out.bytes - out.bytes_before) / interval_s,
            bytes_in_per_s=(back.bytes - back.bytes_before) / interval_s,
            frames=self.frames,
            bytes=out.bytes + back.bytes,
            messages=out.messages + back.messages,
            in_flight_out=self.judge.in_flight(0),
            in_flight_in=self.judge.in_flight(1),
            requests=self.requests,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            reconnects=self.reconnects,
            age_s=max(now_ns - self.began_ns, 0) / _NANO,
            idle_s=max(now_ns - self.last_ns, 0) / _NANO,
            last=self._last(now_ns),
            verdict=NO_KEY if state == "sealed" else self.judge.text,
            events=tuple(Event(time_ns, self._event_text(what, now_ns)) for time_ns, what in self.events),
        )

    def mark(self) -> None:
        """Begin a new interval."""
        for counts in self.counts:
            counts.bytes_before, counts.frames_before = counts.bytes, counts.frames


def announces_secure(tag: str, fields: dict[str, object]) -> bool:
    """True for an AUTH_DONE after which all frames are encrypted."""
    return tag == "AUTH_DONE" and fields.get("con_mode") == _SECURE


def _percentiles(latencies_ns: Sequence[int]) -> tuple[float | None, float | None]:
    if not latencies_ns:
        return None, None
    p50, p99 = np.percentile(np.fromiter(latencies_ns, np.int64, len(latencies_ns)), (50, 99)) / 1e6
    return float(p50), float(p99)
