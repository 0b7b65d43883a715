"""The bytes of a capture: a file, a pipe, any binary file object; gzip is decompressed."""

import os
import select
import stat
import zlib
from collections.abc import Sequence
from io import UnsupportedOperation
from types import TracebackType
from typing import BinaryIO, Self

from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.files import open_file

CaptureFile = str | os.PathLike[str] | BinaryIO
CaptureFiles = CaptureFile | Sequence[CaptureFile]
"""One file, or a list of several that are read as one capture."""

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PACKED_BYTES = 1 << 18


class Source:
    """Reads bytes in order into the caller's buffer."""

    def __init__(self, file: CaptureFile) -> None:
        if isinstance(file, str | os.PathLike):
            self.name = os.fspath(file)
            self._file: BinaryIO = open_file(self.name)
            self._ours = True
        else:
            self.name = str(getattr(file, "name", "capture"))
            self._file = file
            self._ours = False
        self._into = getattr(self._file, "readinto1", None) or getattr(self._file, "readinto", None)
        self._descriptor = self._find_descriptor()
        self.size_bytes = self._find_size()
        """Size of the file; None if unknown."""
        self.position_bytes = 0
        """Number of bytes read so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._ours:
            self._file.close()

    def _find_descriptor(self) -> int | None:
        try:
            return self._file.fileno()
        except (AttributeError, UnsupportedOperation):
            return None

    def _find_size(self) -> int | None:
        if self._descriptor is not None:
            status = os.fstat(self._descriptor)
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        try:
            here = self._file.tell()
            size = self._file.seek(0, os.SEEK_END)
            self._file.seek(here)
        except (AttributeError, OSError):
            return None
        return size

    def read_into(self, room: memoryview) -> int:
        """Read once into ``room``; returns the number of bytes, 0 at the end.

        Raises:
            LocalError: the file cannot be read.
        """
        try:
            if self._into is not None:
                count = self._into(room) or 0
            else:
                piece = self._file.read(len(room))
                count = len(piece)
                room[:count] = piece
        except OSError as error:
            raise LocalError(f"{self.name}: {error.strerror or error}") from None
        self.position_bytes += count
        return int(count)

    def is_ready(self) -> bool:
        """True if another read returns without waiting for the writer."""
        if self.size_bytes is not None:
            return True
        if self._descriptor is None:
            return False
        return bool(select.select([self._descriptor], [], [], 0)[0])


class Unpacked:
    """The decompressed bytes of a gzip file of one or more members."""

    def __init__(self, source: Source, head: Buffer) -> None:
        self._source = source
        self._packed = bytes(head)
        self._buffer = memoryview(bytearray(_PACKED_BYTES))
        self._inflater = zlib.decompressobj(_GZIP_FORMAT)
        self._step_bytes = _PACKED_BYTES
        self._ended = False
        self.problem: str | None = None
        """The problem at the end of the file; None if there is none."""

    def read_into(self, room: memoryview) -> int:
        """Decompress into ``room``; returns the number of bytes as soon as there are some, 0 at the end."""
        while not self._ended:
            if not self._packed and not self._read_packed():
                self._end(None if self._inflater.eof else "the gzip file ends early")
            elif self._inflater.eof:
                self._next_member()
            else:
                piece = self._unpack(len(room))
                if piece:
                    room[: len(piece)] = piece
                    return len(piece)
        return 0

    def _read_packed(self) -> bool:
        size = self._source.read_into(self._buffer)
        self._packed += bytes(self._buffer[:size])
        return bool(size)

    def _unpack(self, limit_bytes: int) -> bytes:
        """Return the next bytes. In a damaged file, ever smaller steps find the bytes before the damage."""
        before = self._inflater.copy()
        step, rest = self._packed[: self._step_bytes], self._packed[self._step_bytes :]
        try:
            piece = self._inflater.decompress(step, limit_bytes)
        except zlib.error as error:
            if self._step_bytes == 1:
                self._end(f"the gzip file is damaged before byte {self._source.position_bytes}: {error}")
            self._inflater = before
            self._step_bytes = max(min(self._step_bytes, len(step)) // 2, 1)
            return b""
        self._packed = (
            self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
        ) + rest
        return piece

    def _next_member(self) -> None:
        if len(self._packed) < len(GZIP_MAGIC) and self._read_packed():
            return
        if self._packed.startswith(GZIP_MAGIC):
            self._inflater = zlib.decompressobj(_GZIP_FORMAT)
        else:
            self._ended = True  # what follows the last member is padding

    def _end(self, problem: str | None) -> None:
        self._ended = True
        self.problem = problem

    def is_ready(self) -> bool:
        """As :meth:`Source.is_ready`."""
        return bool(self._packed) or self._source.is_ready()
