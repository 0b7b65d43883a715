"""Captures compressed by zstd or lz4: decompresses them in bounded memory."""

import io
from collections.abc import Callable
from typing import IO

from messenger.compat import override
from messenger.denc.codec import Buffer
from toolkit.capture.formats.source import Source


class _Packed(io.RawIOBase):
    """The compressed file from its first byte on."""

    def __init__(self, source: Source, head: Buffer) -> None:
        self._source = source
        self._head = bytes(head)

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, room: Buffer, /) -> int:  # type: ignore[override]
        view = memoryview(room)
        if not self._head:
            return self._source.read_into(view)
        size = min(len(view), len(self._head))
        view[:size] = self._head[:size]
        self._head = self._head[size:]
        return size


class UnpackedFrames:
    """The decompressed bytes of a file of one or more frames.

    Args:
        source: the file.
        head: the bytes already read.
        magic: its magic number, one of :data:`FRAME_MAGICS`.
    """

    def __init__(self, source: Source, head: Buffer, magic: bytes) -> None:
        self._source = source
        self._name, opened, self._errors = FRAME_MAGICS[magic]()
        self._file = opened(_Packed(source, head))
        self.problem: str | None = None
        """The problem at the end of the file; None if there is none."""

    def read_into(self, room: memoryview) -> int:
        """Decompress into ``room``; returns the number of bytes, 0 at the end."""
        if self.problem is not None:
            return 0
        try:
            piece = self._file.read(len(room))
        except self._errors as error:
            place = self._source.position_bytes
            early = isinstance(error, EOFError)
            wrong = "ends early" if early else f"is damaged before byte {place}: {error}"
            self.problem = f"the {self._name} file {wrong}"
            return 0
        room[: len(piece)] = piece
        return len(piece)

    def is_ready(self) -> bool:
        """As :meth:`Source.is_ready`."""
        return self._source.is_ready()


_Opened = tuple[str, Callable[[io.RawIOBase], IO[bytes]], tuple[type[Exception], ...]]


def _zstd() -> _Opened:
    import zstandard  # noqa: PLC0415 - loaded for the files that need it

    def opened(packed: io.RawIOBase) -> IO[bytes]:
        reader: IO[bytes] = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)  # type: ignore[arg-type]
        return reader

    return "zstd", opened, (zstandard.ZstdError,)


def _lz4() -> _Opened:
    import lz4.frame  # noqa: PLC0415 - loaded for the files that need it

    def opened(packed: io.RawIOBase) -> IO[bytes]:
        file: IO[bytes] = lz4.frame.LZ4FrameFile(io.BufferedReader(packed))
        return file

    return "lz4", opened, (RuntimeError, EOFError)


FRAME_MAGICS: dict[bytes, Callable[[], _Opened]] = {b"\x28\xb5\x2f\xfd": _zstd, b"\x04\x22\x4d\x18": _lz4}
"""Decompressors by magic number."""
