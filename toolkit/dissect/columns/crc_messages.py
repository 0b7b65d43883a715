"""Passes over MESSAGE frames of crc mode: the same checks as when each is read, without its segments.

Where most frames are messages of a few hundred bytes, building the segments costs more than checking them.
"""

from collections.abc import Callable, Container
from struct import Struct
from typing import NamedTuple

from messenger.crc import standard_crc32c
from messenger.errors import PeerError
from messenger.v2.preamble import MESSAGE_TAG, PREAMBLE_SIZE, Layout
from messenger.v2.wire import MESSAGE_HEADER

_HEADER_SIZE = MESSAGE_HEADER.size
_HEAD = Struct(f"<{PREAMBLE_SIZE}s{_HEADER_SIZE}sI")
_EPILOGUE = Struct("<BIII")
_unpack_head, _unpack_epilogue = _HEAD.unpack_from, _EPILOGUE.unpack_from
_HEAD_SIZE, _EPILOGUE_SIZE = _HEAD.size, _EPILOGUE.size
_TYPE = slice(16, 18)
_COMPLETE = 0x0E
_INVERT = 0xFFFFFFFF


class PassedMessages(NamedTuple):
    """Messages that were passed over: an item of each list, and three of ``sizes``, per message."""

    starts: list[int]
    """Offset of the frame."""
    stops: list[int]
    """End of the frame."""
    headers: list[bytes]
    sizes: list[int]
    """Lengths in bytes of front, middle and data."""


def pass_messages(
    layout_of: Callable[[bytes], Layout],
    view: memoryview,
    start: int,
    limit_bytes: int,
    special: Container[bytes],
    passed: PassedMessages,
) -> int:
    """Check consecutive messages from ``view[start:]`` on (docs/protocol.md §4.4), and add them to ``passed``.

    Stops before the first frame that is not a whole, valid and uncompressed message; the reader decides about it.

    Args:
        layout_of: the reader's :meth:`~messenger.v2.framing.RawReader.layout`.
        view: bytes of the stream.
        start: offset of a frame.
        limit_bytes: longest frame.
        special: types of messages, two bytes as on the wire, before which it stops.
        passed: the messages are added to its lists.

    Returns:
        The offset at which it stopped.
    """
    starts, stops, headers, sizes = passed
    end = len(view)
    last = end - _HEAD_SIZE
    while start <= last:
        preamble, header, header_crc = _unpack_head(view, start)
        try:
            tag, segments, header_size, front_size, middle_size, data_size, total = layout_of(preamble)
        except PeerError:
            break
        stop = start + total
        if (
            tag != MESSAGE_TAG
            or header_size != _HEADER_SIZE
            or stop > end
            or total > limit_bytes
            or header[_TYPE] in special
            or standard_crc32c(header) ^ _INVERT != header_crc
        ):
            break
        if segments > 1:
            front = start + _HEAD_SIZE
            middle = front + front_size
            data = middle + middle_size
            status, front_crc, middle_crc, data_crc = _unpack_epilogue(view, epilogue := stop - _EPILOGUE_SIZE)
            # An empty segment inside the count has the crc of nothing; slots beyond the count are ignored.
            if (
                status != _COMPLETE
                or (standard_crc32c(view[front:middle]) if front_size else 0) ^ _INVERT != front_crc
                or (
                    segments > 2
                    and (standard_crc32c(view[middle:data]) if middle_size else 0) ^ _INVERT != middle_crc
                )
                or (data_size and standard_crc32c(view[data:epilogue]) ^ _INVERT != data_crc)
            ):
                break
        starts.append(start)
        stops.append(stop)
        headers.append(header)
        sizes += (front_size, middle_size, data_size)
        start = stop
    return start
