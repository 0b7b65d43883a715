"""The record of a decoded frame, on which tables, JSON, charts and analysis are built."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from messenger.denc.codec import Buffer
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import Stream

if TYPE_CHECKING:
    from toolkit.dissect.explorer import FrameExplorer

UNKNOWN = "UNKNOWN"
"""Tag of bytes that are no frame, or of a frame that cannot be read."""
GAP = "GAP"
"""Tag of bytes that the capture lacks."""
CAPTURE_ENDS = "the capture ends"
"""Beginning of the error of a frame that is cut off by the end of the capture."""
IN_PART = "the capture does not have all of this frame"
"""Error of a frame whose header is in the capture, with a gap after it."""
NO_FRAMES = frozenset({UNKNOWN, GAP})
_NANO = 1_000_000_000


def utc(time_ns: int) -> str:
    """Format a Unix time in nanoseconds by ISO 8601.

    >>> utc(1_700_000_000_000_000_001)
    '2023-11-14T22:13:20.000000001Z'
    """
    seconds, rest = divmod(time_ns, _NANO)
    text = _utc_seconds(seconds)
    return f"{text}.{rest:09}Z" if text else f"{seconds}.{rest:09}"


@lru_cache(maxsize=16)  # many frames share a second
def _utc_seconds(seconds: int) -> str:
    """Format a Unix time in seconds; empty if it is no date, as a damaged capture may contain any number."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return ""


class Verdict(StrEnum):
    """The result of verifying a frame."""

    OK = "ok"
    BAD = "bad"
    NONE = "none"
    """There was nothing to verify."""
    NO_KEY = "no-key"
    """The key for the verification is unknown."""


_TEXTS = {verdict: verdict.value for verdict in Verdict}


class MessageInfo(NamedTuple):
    """The header of a message. The lengths are those of its parts in bytes, decompressed."""

    type: int
    name: str
    """Name of the type, as in Ceph's logs."""
    seq: int
    tid: int
    src: str
    """The sender, such as ``client.4112``; empty if the capture does not show it."""
    version: int
    compat_version: int
    priority: int
    front: int
    middle: int
    data: int
    ack_seq: int
    """The seq that the header acknowledges; 0 on v1, which has ACK frames only."""

    def as_fields(self) -> dict[str, object]:
        """Return names and values of the header's fields."""
        return dict(zip(self._fields, self, strict=True))


@dataclass(slots=True, eq=False)
class DecodedFrame:
    """One frame, or a stretch of bytes that is no frame (tag ``UNKNOWN`` or ``GAP``)."""

    frame: int
    """Its number in the capture, from 0, in the order in which frames were complete."""
    time_ns: int
    """Unix time in nanoseconds of the packet that completed it."""
    packet: int
    """Number of that packet in the capture."""
    stream: Stream
    direction: Direction
    protocol: str
    """``v1``, ``v2.0``, ``v2.1``; empty if unknown."""
    mode: str
    """``crc`` or ``secure``, of this frame: frames before a link is encrypted have ``crc``."""
    tag: str
    """``BANNER``, a tag of v2, a piece of v1 (``messenger.v1.wire.Piece``), GAP, or UNKNOWN."""
    offset: int
    """Offset of its first byte in the stream of its direction, counting missing bytes."""
    length: int
    """Length on the wire in bytes."""
    crc: Verdict
    """Verdict on all its crcs together."""
    auth: Verdict
    """Verdict on its authentication tags (secure mode) or its signature (v1; AUTH_SIGNATURE on v2)."""
    error: str | None = None
    """What is wrong with it, in words; None if nothing is."""
    message: MessageInfo | None = None
    compressed: bool = False
    segments: Sequence[Buffer] = ()
    """The content of the frame, decrypted and decompressed: header, front, middle and data of a message, or the
    payload of a control frame. Empty if it could not be opened. Large segments are decompressed anew at each
    use."""
    wire: Buffer = b""
    """The frame as it was on the wire."""
    read_fields: Callable[[], dict[str, object]] = field(default=dict, repr=False)
    """Computes :attr:`fields`; called on demand."""
    features: int = 0
    """Features negotiated on the link of a message; 0 for other frames."""

    @property
    def is_bad(self) -> bool:
        """True if a crc, an authentication tag or a signature is wrong, so that its contents cannot be trusted."""
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
        """The fields of a control frame or of a message's payload, as JSON values."""
        return self.read_fields()

    def explore(self) -> "FrameExplorer":
        """Return the frame's bytes beside its fields; displays itself in a notebook."""
        from toolkit.dissect.explorer import FrameExplorer  # noqa: PLC0415 - for notebooks

        return FrameExplorer(self)

    def as_json(self) -> dict[str, object]:
        """Return the record that ``msgrlab decode --format json`` prints."""
        src, dst = self.stream.ends(self.direction)
        return {
            "frame": self.frame,
            "time": self.time_ns / _NANO,
            "time_ns": self.time_ns,
            "utc": utc(self.time_ns),
            "stream": self.stream.index,
            "src": src,
            "dst": dst,
            "protocol": self.protocol,
            "mode": self.mode,
            "tag": self.tag,
            "offset": self.offset,
            "length": self.length,
            "crc": _TEXTS[self.crc],
            "auth": _TEXTS[self.auth],
            "error": self.error,
            "message": self.message.as_fields() if self.message else None,
            "fields": self.read_fields(),
        }
