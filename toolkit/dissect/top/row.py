"""One session at a moment, and the events before it."""

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a session."""

    time_ns: int
    """Unix time."""
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One session. Out is what the entity sends, in what its peer sends."""

    session: int
    """Counted from 0; stays the same from snapshot to snapshot."""
    entity: str
    """The connector of the first link, as in Ceph's logs; its address if it is not known."""
    global_id: int
    """Of the entity, as AUTH_DONE has it; 0 if it was not seen."""
    peer: str
    address: str
    """Address of the entity, as in the packets of the newest link."""
    peer_address: str
    protocol: str
    mode: str
    """``crc`` or ``secure``."""
    cipher: str
    """What encrypts it; empty in crc mode."""
    state: str
    """``opening``, ``open``, ``sealed`` (encrypted, and no key opens it), ``unread`` (a port of Ceph's, and no
    frame was recognised: such as an encrypted link that was open before) or ``down`` (no link is open)."""
    frames_out_per_s: float
    frames_in_per_s: float
    bytes_out_per_s: float
    bytes_in_per_s: float
    frames: int
    """Since the session was seen first, both ways, as the next two."""
    bytes: int
    messages: int
    in_flight_out: int | None
    """Messages that were sent and not yet acknowledged; None while the peer acknowledged nothing."""
    in_flight_in: int | None
    requests: int
    """Requests that were answered."""
    p50_ms: float | None
    """Latency of the last requests that were answered; None if none was."""
    p99_ms: float | None
    reconnects: int
    """Links after the first."""
    age_s: float
    """Since its first frame."""
    idle_s: float
    """Since its last frame or byte."""
    last: str
    """The last fault, or how the last link ended and who ended it; empty if nothing was."""
    verdict: str
    """``ok``, what is violated, or why nothing is judged."""
    events: tuple[Event, ...] = field(default=(), repr=False)
    """The last ones, the oldest first."""

    def as_json(self) -> dict[str, object]:
        """JSON values, events left out."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "events"}

    @property
    def title(self) -> str:
        """Both names."""
        return f"{self.entity} → {self.peer}"


COLUMNS = tuple(each.name for each in fields(Row) if each.name != "events")
"""What ``--filter`` and JSON call the values of a row."""
