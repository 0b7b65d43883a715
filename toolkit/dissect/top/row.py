"""One session at a moment, and its last events."""

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session."""

    time_ns: int
    """Unix time."""
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One session. "Out" is what the entity sends, "in" what its peer sends."""

    session: int
    """Number of the session, from 0; the same in all snapshots."""
    entity: str
    """The connector of the first link, as in Ceph's logs; its address if the name is unknown."""
    global_id: int
    """Global_id of the entity, from AUTH_DONE; 0 if it was not seen."""
    peer: str
    address: str
    """Address of the entity, as in the packets of the newest link."""
    peer_address: str
    protocol: str
    mode: str
    """``crc`` or ``secure``."""
    cipher: str
    """Cipher of secure mode; empty in crc mode."""
    state: str
    """``opening``, ``open``, ``sealed`` (encrypted, without a key that opens it), ``unread`` (on a port of
    Ceph's, without a recognised frame, such as an encrypted link that was open before the capture) or ``down``
    (no link is open)."""
    frames_out_per_s: float
    frames_in_per_s: float
    bytes_out_per_s: float
    bytes_in_per_s: float
    frames: int
    """Total since the session was first seen, both ways, as are ``bytes`` and ``messages``."""
    bytes: int
    messages: int
    in_flight_out: int | None
    """Messages sent and not acknowledged yet; None while the peer has acknowledged none."""
    in_flight_in: int | None
    requests: int
    """Number of answered requests."""
    p50_ms: float | None
    """Latency of the last answered requests in milliseconds; None if none was answered."""
    p99_ms: float | None
    reconnects: int
    """Number of links after the first."""
    age_s: float
    """Seconds since its first frame."""
    idle_s: float
    """Seconds since its last frame or byte."""
    last: str
    """The last fault, or how the last link ended and who ended it; empty if there was neither."""
    verdict: str
    """``ok``, what is violated, or why nothing is judged."""
    events: tuple[Event, ...] = field(default=(), repr=False)
    """The last events, the oldest first."""

    def as_json(self) -> dict[str, object]:
        """Return the row as JSON values, without events."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "events"}

    @property
    def title(self) -> str:
        """The names of both parties."""
        return f"{self.entity} → {self.peer}"


COLUMNS = tuple(each.name for each in fields(Row) if each.name != "events")
"""Names of a row's values in ``--filter`` and JSON."""
