"""Finds messages in a v1 stream by the crcs of their headers (docs/protocol.md §3.7)."""

from collections.abc import Iterator

import numpy as np

from messenger.v1.framing import (
    COMPLETE,
    FOOTER,
    FOOTER_OLD,
    HEADER,
    NOCRC,
    OLD_HEADER_SIZE,
    SIGNED,
    Header,
)
from messenger.v1.wire import Tag
from toolkit.dissect.links.checksums import that_fit
from toolkit.dissect.links.search import Proof

_MSG = int(Tag.MSG)
_STREAM_TAGS = frozenset({Tag.MSG, Tag.ACK, Tag.KEEPALIVE, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK, Tag.CLOSE})
_CHUNK_BYTES = 4 << 20
_FLAGS = COMPLETE | NOCRC | SIGNED
_ENTITIES = np.isin(np.arange(256), (1, 2, 4, 8, 16, 32))
_SRC_TYPE_AT = 37
_LONGEST_PROOF_BYTES = 1 << 20


class V1Search:
    """Searches for messages of an open v1 link by the crcs of their headers.

    Args:
        old_header: True if the sender has no NOSRCADDR.
        footer_known: True if it is known whether footers have signatures; otherwise the first message must show
            it.
    """

    exhausted = False

    def __init__(self, *, old_header: bool = False, footer_known: bool = True) -> None:
        self._old_header = old_header
        self._footer_known = footer_known

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]`` for a frame."""
        size = 1 + (OLD_HEADER_SIZE if self._old_header else HEADER.size)
        for at in header_places(view, start, old_header=self._old_header):
            if not self._footer_known and has_msg_auth(view, at) is None:
                return None, at
            return Proof(at, protocol="v1"), at
        return None, max(start, len(view) - size + 1)


def header_places(view: memoryview, start: int, *, old_header: bool = False) -> Iterator[int]:
    """Yield the offsets where a message with a right header crc may begin."""
    size = 1 + (OLD_HEADER_SIZE if old_header else HEADER.size)
    reserved = size - 8 if old_header else size - 6
    last = len(view) - size + 1
    for begin in range(start, last, _CHUNK_BYTES):
        stop = min(begin + _CHUNK_BYTES, last)
        chunk = np.frombuffer(view[begin : stop + size - 1], np.uint8)
        count = stop - begin
        likely = (chunk[:count] == _MSG) & (chunk[reserved : reserved + count] == 0)
        likely &= chunk[reserved + 1 : reserved + 1 + count] == 0
        likely &= _ENTITIES[chunk[_SRC_TYPE_AT : _SRC_TYPE_AT + count]]
        for place in that_fit(chunk[1:], np.flatnonzero(likely), size - 5).tolist():
            yield begin + place


def has_msg_auth(view: memoryview, at: int) -> bool | None:
    """True if the footer of the message at ``at`` has a signature; None while it is incomplete."""
    header = Header._make(HEADER.unpack_from(view, at + 1))
    body = at + 1 + HEADER.size + header.front_len + header.middle_len + header.data_len
    if body - at > _LONGEST_PROOF_BYTES:
        return True
    if body + FOOTER.size > len(view):
        return None
    return _ends_well(view, body + FOOTER.size) or not _ends_well(view, body + FOOTER_OLD.size)


def _ends_well(view: memoryview, stop: int) -> bool:
    """True if a footer may end here: its flags are valid, and a frame follows."""
    flags = view[stop - 1]
    return bool(flags & COMPLETE) and not flags & ~_FLAGS and (stop == len(view) or view[stop] in _STREAM_TAGS)
