"""Reads several capture files as one, such as the ring that a capture program writes."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from toolkit.capture.formats.packets import PacketBatch
from toolkit.capture.formats.reader import CaptureReader
from toolkit.capture.formats.source import CaptureFile, CaptureFiles, Source
from toolkit.capture.formats.window import WINDOW_BYTES

_NEVER = 1 << 63
_DISORDER_NS = 100_000_000
"""Largest disorder of packets of several queues within a file."""


class CaptureRing(CaptureReader):
    """The packets of several files, each file after those that begin before it.

    Args:
        files: paths, in any order.
        window_bytes: size of the part of a file that is in memory.

    Raises:
        LocalError: a file cannot be read, or is no capture.
    """

    def __init__(self, files: Sequence[CaptureFile], window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._sizes = 0
        begins: list[tuple[int, int, CaptureFile]] = []
        for number, file in enumerate(files):
            with opened(file, self._window_bytes) as reader:
                next(iter(reader), None)
                began_ns = _NEVER if reader.began_ns is None else reader.began_ns
                begins.append((began_ns, number, file))
                self._sizes += reader.size_bytes or 0
        self._files = [file for _, _, file in sorted(begins, key=lambda each: each[:2])]
        self._passed_bytes = 0
        self._notes: list[str] = []
        self._secrets: list[str] = []
        self._problem: str | None = None
        self._now: CaptureReader | None = None
        self.packets = 0
        self.began_ns: int | None = None
        self.ended_ns = 0
        self.unfinished: str | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close the current file."""
        if self._now is not None:
            self._now.close()

    @property
    def notes(self) -> list[str]:
        """The comments of all files so far."""
        return self._notes + (self._now.notes if self._now else [])

    @property
    def secrets(self) -> list[str]:
        """The key logs of all files so far."""
        return self._secrets + (self._now.secrets if self._now else [])

    @property
    def problem(self) -> str | None:
        """The problem of the first file that is damaged or out of order; None if there is none."""
        return self._problem or (self._now.problem if self._now else None)

    @property
    def size_bytes(self) -> int | None:
        """Size of all files."""
        return self._sizes

    @property
    def position_bytes(self) -> int:
        """Number of bytes read of all files."""
        return self._passed_bytes + (self._now.position_bytes if self._now else 0)

    def __iter__(self) -> Iterator[PacketBatch]:
        """Yield the batches of all files.

        Raises:
            LocalError: a file cannot be read any further.
        """
        for file in self._files:
            with opened(file, self._window_bytes) as reader:
                self._now = reader
                before, ended_ns = self.packets, self.ended_ns
                for batch in reader:
                    began_ns = reader.began_ns or 0
                    if self.began_ns is None:
                        self.began_ns = began_ns
                    if began_ns < ended_ns - _DISORDER_NS:
                        late = f"{file} begins before the file before it ends: packets are not in order"
                        self._problem = self._problem or late
                    batch.first += before
                    self.packets, self.ended_ns = before + reader.packets, max(ended_ns, reader.ended_ns)
                    yield batch
                self._leave(file, reader)

    def _leave(self, file: CaptureFile, reader: CaptureReader) -> None:
        self._problem = self._problem or (f"{file}: {reader.problem}" if reader.problem else None)
        self.unfinished = f"{file}: {reader.unfinished}" if reader.unfinished else self.unfinished
        self._notes += reader.notes
        self._secrets += reader.secrets
        self._passed_bytes += reader.position_bytes
        self._now = None


def open_capture(file: CaptureFiles, window_bytes: int = WINDOW_BYTES) -> CaptureReader:
    """Open a capture: pcap or pcapng, plain or compressed by gzip, zstd or lz4.

    Args:
        file: a path, a binary file object (also a pipe), or a list of several, which are read in order of time.
        window_bytes: size of the part of a file that is in memory.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """
    if isinstance(file, list | tuple):
        return CaptureRing(file, window_bytes) if len(file) > 1 else opened(file[0], window_bytes)
    return opened(file, window_bytes)  # type: ignore[arg-type]


def opened(file: CaptureFile, window_bytes: int) -> CaptureReader:
    """Open one file. Raises as :func:`open_capture`."""
    source = Source(file)
    try:
        return CaptureReader(source, window_bytes)
    except BaseException:
        source.close()
        raise
