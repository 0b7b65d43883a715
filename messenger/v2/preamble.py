"""The preamble of every frame of msgr v2: building, parsing, caching (docs/protocol.md §4.4).

Peers send the same few preambles again and again, so readers and writers cache them.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError

PREAMBLE_SIZE = 32
MAX_SEGMENTS = 4
MESSAGE_TAG = 17
COMPRESSED = 0x100
"""Added to the tag of a frame whose segments are compressed; tags on the wire have only eight bits."""

PREAMBLE = Struct("<BBIHIHIHIHBB")
"""Fields without the crc: tag, number of segments, length and alignment of each of the four, flags, reserved."""
_U32 = Struct("<I")
_FLAG_COMPRESSED = 0x01
_ALIGN = 8
_DATA_ALIGN = 4096
_LAYOUTS_LIMIT = 4096
"""Preambles in a cache, a quarter of a KiB each; a smaller cache is emptied again and again by mixed sizes."""
_FRAMES_LIMIT = 256
"""Templates in a cache, more than a KiB each."""

Segments = tuple[Buffer, Buffer, Buffer, Buffer]
Lengths = tuple[int, int, int, int]
"""Lengths of a frame's segments, as they are on the wire, without padding."""
Layout = tuple[int, int, int, int, int, int, int]
"""Contents of a preamble: tag, number of segments, their four lengths, length of the whole frame."""


class PreambleLimits(NamedTuple):
    """Limits for what a preamble may announce."""

    check_alignment: bool = False
    """True refuses alignments that are not a power of two."""
    control_bytes: int = (1 << 64) - 1
    """Longest control frame, on the wire and decompressed."""


UNLIMITED = PreambleLimits()


def check_size(total: int, limit: int) -> None:
    """Refuse a frame that is too long before anything is allocated for it.

    Raises:
        PeerError: OVERSIZE.
    """
    if total > limit:
        raise PeerError(FaultReason.OVERSIZE, f"{total} bytes, the limit is {limit}")


class Layouts(dict[bytes, Layout]):
    """Layouts by preamble, each parsed once. An invalid preamble raises PeerError.

    Args:
        frame_bytes: returns the length of a frame from the number and lengths of its segments.
        limits: limits for what a preamble may announce.
        allow_compressed: True if compression was negotiated; compressed frames have :data:`COMPRESSED` added to
            their tag.
    """

    def __init__(
        self,
        frame_bytes: Callable[[int, Lengths], int],
        limits: PreambleLimits = UNLIMITED,
        *,
        allow_compressed: bool = False,
    ) -> None:
        super().__init__()
        self._frame_bytes = frame_bytes
        self._limits = limits
        self._allow_compressed = allow_compressed
        self._with_compressed: Layouts | None = None

    def with_compressed(self) -> "Layouts":
        """The same for all links with negotiated compression."""
        if self._with_compressed is None:
            self._with_compressed = Layouts(self._frame_bytes, self._limits, allow_compressed=True)
        return self._with_compressed

    def __missing__(self, preamble: bytes) -> Layout:
        limits = self._limits
        tag, segments, lengths = _parse(preamble, check_alignment=limits.check_alignment)
        if tag & COMPRESSED and not self._allow_compressed:
            raise PeerError(FaultReason.FRAME, "compressed, but compression was not negotiated")
        total = self._frame_bytes(segments, lengths)
        if tag & ~COMPRESSED != MESSAGE_TAG:
            check_size(total, limits.control_bytes)
        if len(self) >= _LAYOUTS_LIMIT:
            self.clear()
        layout = self[preamble] = (tag, segments, *lengths, total)
        return layout


class MessageFrame(NamedTuple):
    """What MESSAGE frames whose segments have the same lengths have in common."""

    preamble: bytes
    pack: Callable[..., bytes]
    """Builds a whole frame of crc mode: preamble, header, its crc, three segments, late status, their crcs."""
    unpack: Callable[[memoryview, int], tuple[Any, ...]]
    """Takes such a frame apart, at an offset of a buffer."""


class MessageFrames(dict[Lengths, MessageFrame]):
    """MESSAGE frames by the lengths of their segments."""

    def __missing__(self, lengths: Lengths) -> MessageFrame:
        if len(self) >= _FRAMES_LIMIT:
            self.clear()
        l0, l1, l2, l3 = lengths
        whole = Struct(f"<{PREAMBLE_SIZE}s{l0}sI{l1}s{l2}s{l3}sBIII")
        frame = self[lengths] = MessageFrame(build_preamble(MESSAGE_TAG, lengths), whole.pack, whole.unpack_from)
        return frame


def _parse(preamble: bytes, *, check_alignment: bool) -> tuple[int, int, Lengths]:
    """Check a preamble, and return its tag, number of segments and their lengths."""
    tag, segments, l0, a0, l1, a1, l2, a2, l3, a3, flags, _ = PREAMBLE.unpack_from(preamble)
    (crc,) = _U32.unpack_from(preamble, PREAMBLE_SIZE - 4)
    if crc != crc32c(preamble[:28], 0):
        raise PeerError(FaultReason.PREAMBLE_CRC, f"tag {tag}, crc 0x{crc:08x}")
    if not 1 <= segments <= MAX_SEGMENTS:
        raise PeerError(FaultReason.FRAME, f"{segments} segments")
    # The contents of the slots beyond the count are ignored.
    lengths = (l0, l1 if segments > 1 else 0, l2 if segments > 2 else 0, l3 if segments > 3 else 0)
    if segments > 1 and not lengths[segments - 1]:
        raise PeerError(FaultReason.FRAME, f"last of {segments} segments is empty")
    if check_alignment:
        for length, alignment in zip(lengths, (a0, a1, a2, a3), strict=True):
            # Kernels with pages of 64 KiB send 0, because their page size does not fit into the field.
            if length and alignment & (alignment - 1):
                raise PeerError(FaultReason.FRAME, f"alignment of {alignment} bytes")
    return tag | COMPRESSED if flags & _FLAG_COMPRESSED else tag, segments, lengths


def segment_lengths(segments: Segments) -> Lengths:
    """The lengths of a frame's segments."""
    s0, s1, s2, s3 = segments
    return len(s0), len(s1), len(s2), len(s3)


def used_segments(lengths: Lengths) -> int:
    """Number of segments that the preamble counts: trailing empty ones are dropped, never below one."""
    _, l1, l2, l3 = lengths
    return 4 if l3 else 3 if l2 else 2 if l1 else 1


def build_preamble(tag: int, lengths: Lengths, *, compressed: bool = False) -> bytes:
    """The preamble of a frame with segments of these lengths."""
    l0, l1, l2, l3 = lengths
    segments = used_segments(lengths)
    head = PREAMBLE.pack(
        tag,
        segments,
        l0,
        _ALIGN,
        l1,
        _ALIGN if segments > 1 else 0,
        l2,
        _ALIGN if segments > 2 else 0,
        l3,
        _DATA_ALIGN if segments == MAX_SEGMENTS else 0,
        _FLAG_COMPRESSED if compressed else 0,
        0,
    )
    return head + _U32.pack(crc32c(head, 0))


def padded(length: int) -> int:
    """Length of a segment in secure mode: a multiple of 16 bytes."""
    return (length + 15) & ~15


def zero_padded(segment: Buffer) -> bytes:
    """A segment with the zero padding of secure mode."""
    return bytes(segment).ljust(padded(len(segment)), b"\0")
