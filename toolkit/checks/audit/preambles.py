"""The layout of v2 frames that are not sealed (docs/protocol.md §4.4, §4.5)."""

from collections.abc import Sequence
from struct import Struct

_PREAMBLE = Struct("<BB" + "IH" * 4 + "BBI")
_MOST_SEGMENTS = 4
_MESSAGE = 17
_CONTROL_ALIGNMENTS, _MESSAGE_ALIGNMENTS = (8,) * 4, (8, 8, 8, 4096)
_COMPRESSED = 1
_COMPLETE, _ABORTED = 0xE, 0x1


def layout_problem(wire: Sequence[int]) -> str:
    """Return the problem of a frame's preamble; empty if it is correct.

    Args:
        wire: the whole frame.
    """
    raw = bytes(wire[: _PREAMBLE.size])
    if len(raw) < _PREAMBLE.size:
        return "it is shorter than a preamble"
    tag, count, *slots, flags, reserved, _ = _PREAMBLE.unpack(raw)
    lengths, alignments = slots[::2], slots[1::2]
    if not 1 <= count <= _MOST_SEGMENTS:
        return f"it has {count} segments"
    if count > 1 and not lengths[count - 1]:
        return f"the last of its {count} segments is empty"
    if any(slots[2 * count :]):
        return f"a slot after its {count} segments is not zero"
    due = _MESSAGE_ALIGNMENTS if tag == _MESSAGE else _CONTROL_ALIGNMENTS
    if tuple(alignments[:count]) != due[:count]:
        return f"its alignments are {alignments[:count]}"
    if flags & ~_COMPRESSED or reserved:
        return f"its flags are {flags:#x}, its reserved byte is {reserved:#x}"
    return ""


def undefined_late_status(wire: Sequence[int], *, revision: int) -> int | None:
    """Return the late status of a frame if it has an undefined value; None if it is complete, aborted or absent.

    No crc covers this byte (docs/protocol.md §4.5), so an undefined value may be damage of the capture.

    Args:
        wire: the whole frame, with a preamble without problems.
        revision: 1 for msgr 2.1, 0 for msgr 2.0.
    """
    _, count, *slots, _, _, _ = _PREAMBLE.unpack(bytes(wire[: _PREAMBLE.size]))
    lengths = slots[::2]
    at = _PREAMBLE.size + sum(lengths)
    known = {0, 1}
    if revision:
        if count == 1:
            return None
        at += 4 if lengths[0] else 0
        known = {_COMPLETE, _ABORTED}
    return None if at >= len(wire) or wire[at] in known else wire[at]
