"""Large buffers that are reused once no view of them is left.

Fresh memory costs a page fault for each of its pages, which for a large frame is more than reading, checking and
decrypting it together.
"""

from collections import deque
from mmap import mmap

from messenger.denc.codec import Buffer

POOL_BYTES = 16 * 1024 * 1024
"""A pool keeps no more than this, in use or not."""
_LARGEST_BYTES = POOL_BYTES // 2
_PAGE_BYTES = 4096
SLICE_BYTES = 64 * 1024
"""Shorter parts are copied even out of an owned buffer, so that they do not keep the whole buffer."""


class BufferPool:
    """Memory for the large frames of an endpoint's links.

    Nothing is ever given back to it: a bytearray cannot be resized while a view of it exists, and that is how the
    pool finds out which of its buffers are free.
    """

    __slots__ = ("_buffers", "_held_bytes")

    def __init__(self) -> None:
        self._buffers: dict[int, deque[bytearray]] = {}
        """Buffers by size, least recently taken first."""
        self._held_bytes = 0

    def take(self, size_bytes: int, most_new_bytes: int | None = None) -> memoryview:
        """A view of that many bytes with anything in them; they are free again when no view of them is left.

        Where no buffer of that size is free, a new one may be shorter, so that a peer that only announces a frame
        costs little: memory grows with what arrives.

        Args:
            size_bytes: what is needed in the end.
            most_new_bytes: size of a new buffer at most; None = as long as is needed.

        Raises:
            MemoryError: there is none.
        """
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
                pass  # a view of it is in use
        if capacity > _LARGEST_BYTES:
            return memoryview(untouched(capacity))[:size_bytes]
        if most_new_bytes is not None and capacity > most_new_bytes:
            return memoryview(bytearray(most_new_bytes))
        buffer = bytearray(capacity)
        self._keep(buffer, capacity)
        return memoryview(buffer)[:size_bytes]

    def _keep(self, buffer: bytearray, capacity: int) -> None:
        if self._held_bytes + capacity > POOL_BYTES:
            # Sizes have changed, or the application keeps many buffers in use: start with an empty pool.
            self._buffers.clear()
            self._held_bytes = 0
        self._buffers.setdefault(capacity, deque()).append(buffer)
        self._held_bytes += capacity


def untouched(size_bytes: int) -> mmap:
    """Memory whose pages the kernel provides as they are written to, and gets back once no view of it is left.

    Raises:
        MemoryError: there is none.
    """
    try:
        return mmap(-1, size_bytes)
    except OSError as error:
        raise MemoryError(str(error)) from None


def owned_part(part: memoryview) -> Buffer:
    """A part of a frame in a buffer that belongs to its link: a view of it if it is large."""
    return part if len(part) >= SLICE_BYTES else part.tobytes()
