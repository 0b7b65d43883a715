"""Frames in crc mode with wrong crcs: which crc is wrong, and the frame's content in spite of it.

See docs/protocol.md §4.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from struct import Struct

from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.errors import PeerError
from messenger.v2.framing import ABORTED, Frame, RawReader
from messenger.v2.preamble import PREAMBLE_SIZE, Layout
from toolkit.dissect.frames import Verdict

_U32 = Struct("<I")
_REV1_EPILOGUE = Struct("<B3I")
_REV0_EPILOGUE = Struct("<B4I")
_SEED = 0xFFFFFFFF
_COMPLETE = 0x0E
_ABORTED = 0x01
_STATUS_MASK = 0x0F


@dataclass(slots=True)
class Broken:
    """A malformed frame whose borders are known."""

    frame: Frame
    crc: Verdict
    auth: Verdict
    error: str | None


def read_crc_frame(view: memoryview, at: int, reader: RawReader, *, rev1: bool) -> Broken | None:
    """Read the frame at ``at`` and verify each of its crcs; None if its length is in doubt.

    Args:
        view: bytes with the whole frame.
        at: offset of the frame.
        reader: reader of its flow.
        rev1: True for msgr 2.1.
    """
    try:
        layout = reader.layout(view[at : at + PREAMBLE_SIZE].tobytes())
    except PeerError:
        return None
    if at + layout[-1] > len(view):
        return None
    return _judge(view, at, layout, [], rev1=rev1)


def with_right_crc(view: memoryview, length: int, reader: RawReader, *, rev1: bool) -> Broken | None:
    """Read the frame at the beginning of ``view`` in spite of its wrong preamble crc, if the length fits.

    Args:
        view: the frame, perhaps followed by more bytes.
        length: the known length of the frame.
        reader: reader of its flow.
        rev1: True for msgr 2.1.
    """
    preamble = view[:PREAMBLE_SIZE].tobytes()
    (stored,) = _U32.unpack_from(preamble, PREAMBLE_SIZE - 4)
    right = crc32c(preamble[: PREAMBLE_SIZE - 4], 0)
    try:
        layout = reader.layout(preamble[: PREAMBLE_SIZE - 4] + _U32.pack(right))
    except PeerError:
        return None
    if layout[-1] != length:
        return None
    return _judge(
        view, 0, layout, [_complaint("the preamble", stored, right)] if stored != right else [], rev1=rev1
    )


def _complaint(what: str, stored: int, right: int) -> str:
    return f"crc of {what}: 0x{stored:08x} should be 0x{right:08x}"


def _judge(view: memoryview, at: int, layout: Layout, complaints: list[str], *, rev1: bool) -> Broken:
    tag, used, *lengths, total = layout
    stop = at + total
    body = at + PREAMBLE_SIZE
    segments: list[Buffer] = []
    stored: list[int] = []
    status = _COMPLETE if rev1 else 0
    for number, length in enumerate(lengths):
        segments.append(view[body : body + length].tobytes())
        body += length
        if rev1 and number == 0 and length:
            stored += _U32.unpack_from(view, body)
            body += _U32.size
    if not rev1:
        status, *stored = _REV0_EPILOGUE.unpack_from(view, stop - _REV0_EPILOGUE.size)
    elif used > 1:
        stored = stored or [_SEED]
        status, *rest = _REV1_EPILOGUE.unpack_from(view, stop - _REV1_EPILOGUE.size)
        stored += rest
    found = _wrong_crcs(segments[:used], stored)
    # A sender with ms_crc_data off writes 0 for all crcs except that of the preamble.
    unsummed = bool(found) and not any(stored[: len(segments)]) and not complaints
    if not unsummed:
        complaints = complaints + found
    crc = Verdict.BAD if complaints else Verdict.NONE if unsummed else Verdict.OK
    tag, late = _late(status, tag, rev1=rev1)
    words = [*complaints, *late]
    s0, s1, s2, s3 = segments
    return Broken((stop, tag, s0, s1, s2, s3), crc, Verdict.NONE, ", ".join(words) or None)


def _wrong_crcs(segments: Sequence[Buffer], stored: Sequence[int]) -> list[str]:
    found = []
    for number, (segment, crc) in enumerate(zip_longest(segments, stored[: len(segments)])):
        right = crc32c(segment, _SEED)
        if crc is not None and crc != right:
            found.append(_complaint(f"segment {number}", crc, right))
    return found


def _late(status: int, tag: int, *, rev1: bool) -> tuple[int, list[str]]:
    """Return the tag as changed by the late status, and complaints about the status."""
    if not rev1:
        return (ABORTED if status & _ABORTED else tag), []
    low = status & _STATUS_MASK
    if low == _COMPLETE:
        return tag, []
    if low == _ABORTED:
        return ABORTED, []
    return tag, [f"late status 0x{status:02x}"]
