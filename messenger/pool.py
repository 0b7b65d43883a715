"""Large buffers that are used again once nobody looks at them any more.

Fresh memory costs a page fault for each of its pages, which for a large frame is more than reading, checking and
decrypting it together.
"""

from collections import deque

from messenger.denc.codec import Buffer

POOL_BYTES = 16 * 1024 * 1024
"""A pool keeps no more than this, in use or not."""
_LARGEST_BYTES = POOL_BYTES // 2
_PAGE_BYTES = 4096
SLICE_BYTES = 64 * 1024
"""Shorter parts are copied even out of an owned buffer, so that whoever keeps one does not keep far more."""


class BufferPool:
    """Memory for the large frames of an endpoint's links.

    Nothing is ever given back to it: a bytearray cannot be resized while a view of it exists, and that is how the
    pool finds out which of its buffers are free.
    """

    __slots__ = ("_buffers", "_held_bytes")

    def __init__(self) -> None:
        self._buffers: dict[int, deque[bytearray]] = {}
        """By size, the one that was handed out longest ago first."""
        self._held_bytes = 0

    def take(self, size_bytes: int) -> memoryview:
        """A view of that many bytes with anything in them; they are free again when no view of them is left."""
        # Sizes in steps of a sixteenth to an eighth: frames of nearly the same size share their buffers.
        step = max(_PAGE_BYTES, 1 << size_bytes.bit_length() >> 4)
        capacity = (size_bytes + step - 1) & -step
        buffers = self._buffers.get(capacity)
        if buffers:
            buffer = buffers[0]
            buffers.rotate(-1)
            try:
                buffer.pop()
                buffer.append(0)
                return memoryview(buffer)[:size_bytes]
            except BufferError:
                pass  # looked at
        buffer = bytearray(capacity)
        if capacity <= _LARGEST_BYTES:
            self._keep(buffer, capacity)
        return memoryview(buffer)[:size_bytes]

    def _keep(self, buffer: bytearray, capacity: int) -> None:
        if self._held_bytes + capacity > POOL_BYTES:
            # Sizes have changed, or the application holds on to what it was given: begin anew.
            self._buffers.clear()
            self._held_bytes = 0
        self._buffers.setdefault(capacity, deque()).append(buffer)
        self._held_bytes += capacity


def owned_part(part: memoryview) -> Buffer:
    """A part of a frame in a buffer that belongs to its link: a view of it if it is large."""
    return part if len(part) >= SLICE_BYTES else part.tobytes()
