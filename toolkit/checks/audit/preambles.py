"""The layout of v2 frames that are not sealed (docs/protocol.md §4.4, §4.5)."""

from collections.abc import Sequence
from struct import Struct

_PREAMBLE = Struct("<BB" + "IH" * 4 + "BBI")
_MOST_SEGMENTS = 4
_MESSAGE = 17
_CONTROL_ALIGNMENTS, _MESSAGE_ALIGNMENTS = (8,) * 4, (8, 8, 8, 4096)
_COMPRESSED = 1
_COMPLETE, _ABORTED = 0xE, 0x1


def layout_problem(wire: Sequence[int], *, revision: int) -> str:
    """Return what is wrong with the layout of a frame; empty if nothing is.

    Args:
        wire: the whole frame.
        revision: 1 for msgr 2.1, 0 for msgr 2.0.
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
    return _late_problem(wire, lengths, count, revision)


def _late_problem(wire: Sequence[int], lengths: list[int], count: int, revision: int) -> str:
    """Return what is wrong with the late status, which shows whether the sender aborted the frame."""
    at = _PREAMBLE.size + sum(lengths)
    known = {0, 1}
    if revision:
        if count == 1:
            return ""
        at += 4 if lengths[0] else 0
        known = {_COMPLETE, _ABORTED}
    is_known = at < len(wire) and wire[at] in known
    return "" if is_known else "its late status is neither complete nor aborted"
