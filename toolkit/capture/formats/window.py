"""The part of a capture that is in memory: one buffer, used again and again."""

from toolkit.capture.formats.source import GZIP_MAGIC, Source, Unpacked
from toolkit.capture.formats.unpacking import FRAME_MAGICS, UnpackedFrames

WINDOW_BYTES = 1 << 21
"""Small enough that what has been read is still in the processor's cache when it is checked."""
_MAGIC_BYTES = 4
_FIRST_BYTES = 1 << 17
"""It begins smaller, and grows with each batch: handshakes are at the beginning, and are read soon this way."""


class Window:
    """A stretch of the capture's bytes that moves forward."""

    def __init__(self, source: Source, size_bytes: int = WINDOW_BYTES) -> None:
        self._source = source
        self._size_bytes = size_bytes
        self._bytes: Source | Unpacked | UnpackedFrames = source
        self._buffer = memoryview(bytearray(size_bytes))
        self._start = 0
        self._stop = 0
        self._wanted_bytes = min(_FIRST_BYTES, size_bytes)
        self.passed_bytes = 0
        """Where in the capture, unpacked, the window begins."""
        self.at_end = False
        """There is nothing behind it."""
        self.fill(_MAGIC_BYTES)
        magic = bytes(self.data[:_MAGIC_BYTES])
        if magic.startswith(GZIP_MAGIC):
            self._bytes = Unpacked(source, self.data)
        elif magic in FRAME_MAGICS:
            self._bytes = UnpackedFrames(source, self.data, magic)
        if self._bytes is not source:
            self._stop = 0
            self.at_end = False

    @property
    def data(self) -> memoryview:
        """What is there."""
        return self._buffer[self._start : self._stop]

    @property
    def problem(self) -> str | None:
        """Why the capture ended before its end."""
        return None if isinstance(self._bytes, Source) else self._bytes.problem

    def drop(self, size_bytes: int) -> None:
        """Move on; may be more than is there, which is skipped then when it is read."""
        self._start += size_bytes
        self.passed_bytes += size_bytes
        while self._start > self._stop and not self.at_end:
            self._start -= self._stop
            self._stop = 0
            self._read()
        self._start = min(self._start, self._stop)

    def fill(self, needed_bytes: int = 1) -> None:
        """Read on until ``needed_bytes`` are there, and as much more as can be had without waiting.

        What is left is moved, and more is read, only when half of the window has been used up: a file may be made
        of any number of small parts.
        """
        left_bytes = self._stop - self._start
        if left_bytes >= max(needed_bytes, self._wanted_bytes // 2):
            return
        self._move_to_front()
        wanted_bytes = max(needed_bytes, self._wanted_bytes)
        while not self.at_end and self._stop < wanted_bytes:
            if self._stop >= needed_bytes and not self._bytes.is_ready():
                return
            if self._stop == len(self._buffer):
                self._double()
            self._read(wanted_bytes)

    def _move_to_front(self) -> None:
        left = self._stop - self._start
        if self._start:
            self._buffer[:left] = bytes(self.data)
        self._start, self._stop = 0, left

    def _double(self) -> None:
        """Only once there is that much: lengths may be made up."""
        larger = memoryview(bytearray(2 * len(self._buffer)))
        larger[: self._stop] = self._buffer
        self._buffer = larger

    def grow(self) -> None:
        """Look at more at a time from now on, up to the size it was made for."""
        self._wanted_bytes = min(2 * self._wanted_bytes, self._size_bytes)

    def _read(self, up_to: int | None = None) -> None:
        size = self._bytes.read_into(self._buffer[self._stop : up_to])
        self._stop += size
        self.at_end = not size
