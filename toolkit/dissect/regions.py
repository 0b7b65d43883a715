"""The regions of a frame on the wire: which bytes are preamble, segment, padding, tag.

See docs/protocol.md §4.5, §3.7. Faults that change bytes give the position by region, and can have the crcs
recomputed.
"""

from collections.abc import Sequence
from itertools import chain

from messenger.crc import crc32c
from messenger.errors import LocalError
from messenger.v1.framing import HEADER, OLD_HEADER_SIZE, Header, decode_old_header
from messenger.v1.wire import Piece
from messenger.v2.framing import INLINE_SIZE
from messenger.v2.onwire import GCM_TAG_SIZE
from messenger.v2.preamble import PREAMBLE_SIZE, padded
from messenger.v2.wire import BANNER_HEAD_SIZE, BANNER_PREFIX
from toolkit.dissect.follow import Form, SeenFrame

Regions = dict[str, tuple[range, ...]]
"""Byte ranges of a frame by name. A segment that is sealed in two operations has two ranges."""

_SEGMENTS = 4
_SEED = 0xFFFFFFFF
_CRC_SIZE = 4
_REV1_EPILOGUE_CRCS = 3
_SECURE_EPILOGUE_SIZE = 16
_SLOT_SIZE = 6


class _Ruler:
    """Lays regions one after the other."""

    def __init__(self) -> None:
        self.regions: dict[str, list[range]] = {}
        self.at = 0

    def lay(self, name: str, size_bytes: int) -> None:
        if size_bytes:
            self.regions.setdefault(name, []).append(range(self.at, self.at + size_bytes))
            self.at += size_bytes

    def done(self) -> Regions:
        return {name: tuple(ranges) for name, ranges in self.regions.items()}


def regions_of(frame: SeenFrame) -> Regions:
    """Return the regions of a frame, in order.

    On v2: ``preamble``, ``segment 0`` to ``segment 3``, ``crc 0`` (of the first segment), ``padding``,
    ``epilogue`` and ``tag`` (of GCM); of its banner ``prefix``, ``length`` and ``features``. Of a v1 message:
    ``tag``, ``header``, ``front``, ``middle``, ``data`` and ``footer``. All other bytes are ``body``.

    Raises:
        LocalError: the frame is both sealed and compressed, so its borders cannot be found.
    """
    ruler = _Ruler()
    if frame.form is Form.PLAIN:
        _lay_plain(ruler, frame)
    elif frame.form in {Form.CRC, Form.REV0_CRC}:
        _lay_crc(ruler, frame)
    elif frame.form is Form.SECURE:
        _lay_secure(ruler, frame.lengths)
    else:
        _lay_rev0_secure(ruler, frame.lengths)
    if ruler.at != len(frame.raw):
        raise LocalError(f"{frame.tag} of {len(frame.raw)} bytes: its borders add up to {ruler.at}")
    return ruler.done()


def _lay_plain(ruler: _Ruler, frame: SeenFrame) -> None:
    if frame.tag == "BANNER" and frame.raw.startswith(BANNER_PREFIX):
        ruler.lay("prefix", len(BANNER_PREFIX))
        ruler.lay("length", BANNER_HEAD_SIZE - len(BANNER_PREFIX))
        ruler.lay("features", len(frame.raw) - BANNER_HEAD_SIZE)
    elif frame.tag == Piece.MSG:
        ruler.lay("tag", 1)
        ruler.lay("header", _v1_header_size(frame.raw))
        for part, size_bytes in zip(("front", "middle", "data"), _v1_lengths(frame.raw), strict=True):
            ruler.lay(part, size_bytes)
        ruler.lay("footer", len(frame.raw) - ruler.at)
    else:
        ruler.lay("body", len(frame.raw))


def _v1_lengths(raw: bytes) -> tuple[int, int, int]:
    front, middle, data = HEADER.unpack_from(raw, 1)[5:8]
    return front, middle, data


def _v1_header_size(raw: bytes) -> int:
    """Size of the header: that of the old one if the frame has room for it; a footer has 21 bytes at most."""
    return OLD_HEADER_SIZE if len(raw) - sum(_v1_lengths(raw)) > OLD_HEADER_SIZE else HEADER.size


def v1_header(raw: bytes) -> Header:
    """Return the header of a v1 message that begins with its tag."""
    size = _v1_header_size(raw)
    return (
        decode_old_header(raw[1 : 1 + size])
        if size == OLD_HEADER_SIZE
        else Header._make(HEADER.unpack_from(raw, 1))
    )


def crc_lengths(raw: bytes) -> tuple[int, ...]:
    """Return the lengths of the segments in a plain preamble."""
    slots = range(2, 2 + _SLOT_SIZE * raw[1], _SLOT_SIZE)
    return tuple(int.from_bytes(raw[at : at + 4], "little") for at in slots)


def _lay_crc(ruler: _Ruler, frame: SeenFrame) -> None:
    lengths = crc_lengths(frame.raw)
    ruler.lay("preamble", PREAMBLE_SIZE)
    for number, size_bytes in enumerate(lengths):
        ruler.lay(f"segment {number}", size_bytes)
        if number == 0 and size_bytes and frame.form is Form.CRC:
            ruler.lay("crc 0", _CRC_SIZE)
    if len(lengths) > 1 or frame.form is Form.REV0_CRC:
        crcs = _REV1_EPILOGUE_CRCS if frame.form is Form.CRC else _SEGMENTS
        ruler.lay("epilogue", 1 + crcs * _CRC_SIZE)


def _lay_secure(ruler: _Ruler, lengths: Sequence[int]) -> None:
    ruler.lay("preamble", PREAMBLE_SIZE)
    first = min(lengths[0], INLINE_SIZE)
    ruler.lay("segment 0", first)
    ruler.lay("padding", INLINE_SIZE - first)
    ruler.lay("tag", GCM_TAG_SIZE)
    if lengths[0] > INLINE_SIZE:
        ruler.lay("segment 0", lengths[0] - INLINE_SIZE)
        ruler.lay("padding", padded(lengths[0]) - lengths[0])
        ruler.lay("tag", GCM_TAG_SIZE)
    if any(lengths[1:]):
        for number, size_bytes in enumerate(lengths[1:], 1):
            ruler.lay(f"segment {number}", size_bytes)
            ruler.lay("padding", padded(size_bytes) - size_bytes)
        ruler.lay("epilogue", _SECURE_EPILOGUE_SIZE)
        ruler.lay("tag", GCM_TAG_SIZE)


def _lay_rev0_secure(ruler: _Ruler, lengths: Sequence[int]) -> None:
    ruler.lay("preamble", PREAMBLE_SIZE)
    for number, size_bytes in enumerate(lengths):
        ruler.lay(f"segment {number}", size_bytes)
        ruler.lay("padding", padded(size_bytes) - size_bytes)
    ruler.lay("epilogue", _SECURE_EPILOGUE_SIZE)
    ruler.lay("tag", GCM_TAG_SIZE)


def position(frame: SeenFrame, region: str, byte: int) -> int:
    """Return the offset in the frame of the ``byte``-th byte of a region (negative: from its end).

    Args:
        frame: the frame.
        region: name of the region; empty for the whole frame.
        byte: index of the byte.

    Raises:
        LocalError: the frame has no such region, or the region is shorter.
    """
    regions = regions_of(frame) if region else {}
    if region and region not in regions:
        raise LocalError(f"{frame.tag} in {frame.form} has no {region}; it has {', '.join(regions)}")
    places = list(chain(*regions[region])) if region else range(len(frame.raw))
    try:
        return places[byte]
    except IndexError:
        raise LocalError(f"{region or frame.tag} has {len(places)} bytes, there is no byte {byte}") from None


def with_crcs(frame: SeenFrame, raw: bytearray) -> None:
    """Recompute all crcs of a changed frame in place; the regions are those of the frame before the change.

    Raises:
        LocalError: the frame is sealed; its tags cannot be recomputed without the key.
    """
    if frame.form in {Form.SECURE, Form.REV0_SECURE}:
        raise LocalError(f"{frame.tag} is sealed: it has no crcs to recompute")
    if frame.form is Form.PLAIN:
        if frame.tag == Piece.MSG:
            _put_v1_crcs(frame, raw)
        return
    ranges = regions_of(frame)
    segments = [_bytes_in(raw, ranges.get(f"segment {number}", ())) for number in range(_SEGMENTS)]
    crcs = [crc32c(segment, _SEED) for segment in segments[: len(crc_lengths(frame.raw))]]
    crcs += [0] * (_SEGMENTS - len(crcs))
    _put(raw, PREAMBLE_SIZE - _CRC_SIZE, crc32c(bytes(raw[: PREAMBLE_SIZE - _CRC_SIZE]), 0))
    if "crc 0" in ranges:
        _put(raw, ranges["crc 0"][0].start, crcs[0])
    if "epilogue" in ranges:
        at = ranges["epilogue"][0].start + 1
        for number, crc in enumerate(crcs if frame.form is Form.REV0_CRC else crcs[1:]):
            _put(raw, at + number * _CRC_SIZE, crc)


def _put_v1_crcs(frame: SeenFrame, raw: bytearray) -> None:
    ranges = regions_of(frame)
    head = ranges["header"][0]
    _put(raw, head.stop - _CRC_SIZE, crc32c(bytes(raw[head.start : head.stop - _CRC_SIZE]), 0))
    foot = ranges["footer"][0].start
    for number, part in enumerate(("front", "middle", "data")):
        _put(raw, foot + number * _CRC_SIZE, crc32c(_bytes_in(raw, ranges.get(part, ())), 0))


def _bytes_in(raw: bytearray, ranges: Sequence[range]) -> bytes:
    return b"".join(bytes(raw[part.start : part.stop]) for part in ranges)


def _put(raw: bytearray, at: int, value: int) -> None:
    raw[at : at + _CRC_SIZE] = value.to_bytes(_CRC_SIZE, "little")
