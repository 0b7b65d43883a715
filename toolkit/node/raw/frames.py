"""Frames of msgr 2.1 built field by field, valid or not (docs/protocol.md §4.4, §4.5).

The layout is implemented here a second time, apart from the messenger's own writers, so that a frame can be wrong
in one field and right in all others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from messenger.crc import crc32c

COMPLETE = 0x0E
ABORTED = 0x01
FLAG_COMPRESSED = 0x01

_SLOTS = 4
_CRC_SEED = 0xFFFFFFFF
_INLINE_BYTES = 48
_HEAD = Struct("<BB")
_SLOT = Struct("<IH")
_FLAGS = Struct("<BB")
_U32 = Struct("<I")
_EPILOGUE = Struct("<B3I")


@dataclass(slots=True)
class RawFrame:
    """A frame. Fields that are not given have their correct values; masks are XORed with the correct value."""

    tag: int
    segments: tuple[bytes, ...] = (b"",)
    count: int | None = None
    """Number of segments in the preamble."""
    lengths: tuple[int, ...] | None = None
    """Lengths of the segments in the preamble; missing ones are 0."""
    alignments: tuple[int, ...] = (8, 8, 8, 4096)
    flags: int = 0
    reserved: int = 0
    preamble_mask: int = 0
    crc_masks: tuple[int, ...] = (0, 0, 0, 0)
    """Masks for the crcs of the segments, which secure mode does not have."""
    late_status: int = COMPLETE

    def preamble(self) -> bytes:
        """Return the preamble, 32 bytes."""
        count = len(self.segments) if self.count is None else self.count
        lengths = tuple(map(len, self.segments)) if self.lengths is None else self.lengths
        head = _HEAD.pack(self.tag, count)
        for slot in range(_SLOTS):
            length = lengths[slot] if slot < len(lengths) else 0
            used = slot < len(lengths)
            head += _SLOT.pack(length, self.alignments[slot] if used else 0)
        head += _FLAGS.pack(self.flags, self.reserved)
        return head + _U32.pack(crc32c(head, 0) ^ self.preamble_mask)

    def encode(self, seal: Callable[[bytes], bytes] | None = None) -> bytes:
        """Return the bytes of the frame.

        Args:
            seal: encrypts the next part, in secure mode; see :attr:`RawV2Link.seal`.
        """
        return self._plain() if seal is None else self._sealed(seal)

    def _plain(self) -> bytes:
        first, *rest = self.segments
        frame = self.preamble() + first
        if first:
            frame += _U32.pack(crc32c(first, _CRC_SEED) ^ self.crc_masks[0])
        if not rest:
            return frame
        crcs = [crc32c(segment, _CRC_SEED) ^ mask for segment, mask in zip(rest, self.crc_masks[1:], strict=False)]
        crcs += [0] * (_SLOTS - 1 - len(crcs))
        return frame + b"".join(rest) + _EPILOGUE.pack(self.late_status, *crcs)

    def _sealed(self, seal: Callable[[bytes], bytes]) -> bytes:
        first, *rest = map(_padded, self.segments)
        frame = seal(self.preamble() + first[:_INLINE_BYTES].ljust(_INLINE_BYTES, b"\0"))
        if len(first) > _INLINE_BYTES:
            frame += seal(first[_INLINE_BYTES:])
        if rest:
            frame += seal(b"".join(rest) + bytes([self.late_status]) + bytes(15))
        return frame


def _padded(segment: bytes) -> bytes:
    return segment.ljust(-(-len(segment) // 16) * 16, b"\0")
