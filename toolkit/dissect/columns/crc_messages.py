"""Passes over MESSAGE frames of crc mode: the same checks as when each is read, without its segments.

Where most frames are messages of a few hundred bytes, building the segments costs more than checking them.
"""

from collections.abc import Callable, Container, MutableSequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from messenger.crc import standard_crc32c
from messenger.errors import PeerError
from messenger.v2.framing import FrameCaches
from messenger.v2.preamble import MESSAGE_TAG, PREAMBLE_SIZE
from messenger.v2.wire import MESSAGE_HEADER

if TYPE_CHECKING:
    import cython  # types of the compiled form alone (docs/compiled.md)

_HEAD = Struct(f"<{PREAMBLE_SIZE}s{MESSAGE_HEADER.size}sI")
_EPILOGUE = Struct("<BIII")
_unpack_head, _unpack_epilogue = _HEAD.unpack_from, _EPILOGUE.unpack_from
_HEAD_SIZE, _EPILOGUE_SIZE = _HEAD.size, _EPILOGUE.size
_TYPE_AT, _TYPE_END = 16, 18
_COMPLETE = 0x0E
_EMPTY_CRC = 0xFFFFFFFF
"""Crc of no bytes; also a crc of Ceph xor the textbook crc of the same bytes (:mod:`messenger.crc`)."""
_COPIED_BYTES = 8192
"""Up to this length, one call of ``struct`` copies the parts of a frame: slices of a view take more time."""
_PLANS_LIMIT = 4096
"""Number of preambles in the cache, each with less than a KiB."""

Plan = tuple[int, int, int, int, int, Callable[[memoryview, int], tuple[Any, ...]]]
"""Length of the whole frame, number of segments, lengths of front, middle and data, and what takes apart all that
follows the head, or for a long frame the epilogue alone."""
_OTHER: Plan = (0, 0, 0, 0, 0, _unpack_epilogue)


class MessagePlans(dict[bytes, Plan]):
    """How to check the message that a preamble announces; of any other frame, the length is 0."""

    def __init__(self) -> None:
        super().__init__()
        self._layouts = FrameCaches().crc_layouts

    def __missing__(self, preamble: bytes) -> Plan:
        if len(self) >= _PLANS_LIMIT:
            self.clear()
        plan = self[preamble] = self._plan(preamble)
        return plan

    def _plan(self, preamble: bytes) -> Plan:
        try:
            tag, segments, header, front, middle, data, total = self._layouts[preamble]
        except PeerError:
            return _OTHER
        if tag != MESSAGE_TAG or header != MESSAGE_HEADER.size:
            return _OTHER
        unpack = _unpack_epilogue
        if total <= _COPIED_BYTES:
            unpack = Struct(f"<{front}s{middle}s{data}sBIII").unpack_from
        return total, segments, front, middle, data, unpack


def pass_messages(
    plans: MessagePlans,
    view: memoryview,
    start: "cython.Py_ssize_t",
    limit_bytes: "cython.Py_ssize_t",
    special: Container[bytes],
    stops: MutableSequence[int],
) -> "cython.Py_ssize_t":
    """Check consecutive messages from ``view[start:]`` on (docs/protocol.md §4.4), and record their ends.

    Stops before the first frame that is not a whole, valid and uncompressed message; the reader decides about it.

    Args:
        plans: cache for all links.
        view: bytes of the stream.
        start: offset of a frame.
        limit_bytes: longest frame.
        special: types of messages, two bytes as on the wire, before which it stops.
        stops: the end of each message, where the next one begins, is appended to this list.

    Returns:
        The offset at which it stopped.
    """
    end = len(view)
    last = end - _HEAD_SIZE
    while start <= last:
        preamble, header, crc = _unpack_head(view, start)
        total, segments, front_size, middle_size, data_size, unpack = plans[preamble]
        stop = start + total
        if not total or stop > end or total > limit_bytes:
            break
        found = standard_crc32c(header)
        if found ^ crc != _EMPTY_CRC or header[_TYPE_AT:_TYPE_END] in special:
            break
        if segments > 1:
            at = start + _HEAD_SIZE
            if total <= _COPIED_BYTES:
                front, middle, data, status, front_crc, middle_crc, data_crc = unpack(view, at)
            else:
                epilogue = stop - _EPILOGUE_SIZE
                status, front_crc, middle_crc, data_crc = unpack(view, epilogue)
                front = view[at : at + front_size]
                middle = view[at + front_size : at + front_size + middle_size]
                data = view[at + front_size + middle_size : epilogue]
            # An empty segment inside the count has the crc of nothing; slots beyond the count are ignored.
            if front_size:
                found = standard_crc32c(front)
                front_crc ^= found
            if middle_size:
                found = standard_crc32c(middle)
                middle_crc ^= found
            if data_size:
                found = standard_crc32c(data)
                data_crc ^= found
            if (
                status != _COMPLETE
                or front_crc != _EMPTY_CRC
                or (middle_crc != _EMPTY_CRC and segments > 2)
                or (data_crc != _EMPTY_CRC and data_size)
            ):
                break
        stops.append(stop)
        start = stop
    return start
