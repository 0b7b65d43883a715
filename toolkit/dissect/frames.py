"""What a decoder says of each frame: one record behind tables, JSON, charts and analysis."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from messenger.denc.codec import Buffer
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import Stream

_NANO = 1_000_000_000


class Verdict(StrEnum):
    """What became of a check."""

    OK = "ok"
    BAD = "bad"
    NONE = "none"
    """There was nothing to check."""
    NO_KEY = "no-key"
    """The key that would tell is not known."""


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """The header of a message; the lengths are those of its parts, decompressed."""

    type: int
    name: str
    """As Ceph's own logs have it."""
    seq: int
    tid: int
    src: str
    """The sender (``client.4112``), empty where the capture does not tell."""
    version: int
    compat_version: int
    priority: int
    front: int
    middle: int
    data: int
    ack_seq: int
    """What the header acknowledges on the way; 0 on v1, which has ACK frames for it."""


@dataclass(slots=True, eq=False)
class DecodedFrame:
    """One frame, or a stretch of bytes that is none (tag ``UNKNOWN``)."""

    frame: int
    """Counted from 0 over the whole capture, in the order in which frames were complete."""
    time_ns: int
    """Unix time of the packet that completed it."""
    packet: int
    """The number of that packet in the capture."""
    stream: Stream
    direction: Direction
    protocol: str
    """``v1``, ``v2.0``, ``v2.1``; empty where it cannot be told."""
    mode: str
    """``crc`` or ``secure``: of this frame, so what comes before a link is encrypted is ``crc``."""
    tag: str
    """``BANNER``, a tag of v2, a piece of v1 (``messenger.v1.wire.Piece``), GAP, or UNKNOWN."""
    offset: int
    """Of its first byte in the bytes of its direction, missing ones included."""
    length: int
    """On the wire."""
    crc: Verdict
    """Of all its crcs together."""
    auth: Verdict
    """Of its authentication tags (secure mode) or its signature (v1; AUTH_SIGNATURE on v2)."""
    error: str | None = None
    """What is wrong with it, in words; None if nothing is."""
    message: MessageInfo | None = None
    compressed: bool = False
    segments: Sequence[Buffer] = ()
    """What the frame carries, decrypted and decompressed: header, front, middle and data of a message, the payload
    of a control frame. Empty where it could not be opened. What is large is decompressed anew at each use."""
    wire: Buffer = b""
    """The frame as it was on the wire."""
    read_fields: Callable[[], dict[str, object]] = field(default=dict, repr=False)
    """Makes :attr:`fields`; called when somebody asks."""

    @property
    def is_bad(self) -> bool:
        """True if a crc, an authentication tag or a signature is wrong: its contents are not to be believed."""
        return self.crc is Verdict.BAD or self.auth is Verdict.BAD

    @property
    def src(self) -> str:
        """The address of its sender."""
        return self.stream.source(self.direction)

    @property
    def dst(self) -> str:
        """The address of its receiver."""
        return self.stream.source(self.direction.other)

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a control frame, or those of a message's payload, as JSON values."""
        return self.read_fields()

    def as_json(self) -> dict[str, object]:
        """The record that ``msgrlab decode --format json`` prints."""
        return {
            "frame": self.frame,
            "time": self.time_ns / _NANO,
            "stream": self.stream.index,
            "src": self.src,
            "dst": self.dst,
            "protocol": self.protocol,
            "mode": self.mode,
            "tag": self.tag,
            "offset": self.offset,
            "length": self.length,
            "crc": self.crc.value,
            "auth": self.auth.value,
            "error": self.error,
            "message": asdict(self.message) if self.message else None,
            "fields": self.fields,
        }
