"""The part of a capture that is in memory: one buffer that is reused."""

from toolkit.capture.formats.compressed import FRAME_MAGICS, UnpackedFrames
from toolkit.capture.formats.source import GZIP_MAGIC, Source, Unpacked

WINDOW_BYTES = 1 << 21
"""Small enough that the bytes read are still in the processor's cache when they are verified."""
_MAGIC_BYTES = 4
_FIRST_BYTES = 1 << 17
"""The window starts smaller and grows with each batch, so that the handshakes at the beginning are decoded
soon."""


class Window:
    """A part of the capture's bytes that moves forward."""

    def __init__(self, source: Source, size_bytes: int = WINDOW_BYTES) -> None:
        self._source = source
        self._size_bytes = size_bytes
        self._bytes: Source | Unpacked | UnpackedFrames = source
        self._buffer = memoryview(bytearray(size_bytes))
        self._start = 0
        self._stop = 0
        self._wanted_bytes = min(_FIRST_BYTES, size_bytes)
        self.passed_bytes = 0
        """Offset of the window in the decompressed capture."""
        self.at_end = False
        """True if nothing follows the window."""
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
        """The bytes in the window."""
        return self._buffer[self._start : self._stop]

    @property
    def problem(self) -> str | None:
        """Why the capture ended early; None if it did not."""
        return None if isinstance(self._bytes, Source) else self._bytes.problem

    def drop(self, size_bytes: int) -> None:
        """Move forward; by more than the window has, if later bytes are to be skipped."""
        self._start += size_bytes
        self.passed_bytes += size_bytes
        while self._start > self._stop and not self.at_end:
            self._start -= self._stop
            self._stop = 0
            self._read()
        self._start = min(self._start, self._stop)

    def fill(self, needed_bytes: int = 1) -> None:
        """Read until ``needed_bytes`` are there, and as many more as can be read without waiting.

        The rest is moved to the front, and more is read, only when half of the window is used up: a file may
        consist of any number of small parts.
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
        """Double the buffer, only once it is full: lengths in the file may be false."""
        larger = memoryview(bytearray(2 * len(self._buffer)))
        larger[: self._stop] = self._buffer
        self._buffer = larger

    def grow(self) -> None:
        """Read more at a time from now on, up to the size of the window."""
        self._wanted_bytes = min(2 * self._wanted_bytes, self._size_bytes)

    def _read(self, up_to: int | None = None) -> None:
        size = self._bytes.read_into(self._buffer[self._stop : up_to])
        self._stop += size
        self.at_end = not size
