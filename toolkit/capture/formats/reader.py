"""Opens capture files of any format."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from messenger.errors import LocalError
from toolkit.capture.formats.blocks import SECTION_HEADER
from toolkit.capture.formats.packets import PacketBatch
from toolkit.capture.formats.pcap import FILE_HEADER_SIZE, MAGICS, PcapFormat
from toolkit.capture.formats.pcapng import PcapngFormat
from toolkit.capture.formats.source import Source
from toolkit.capture.formats.window import WINDOW_BYTES, Window


class CaptureReader:
    """A capture, batch by batch. A context manager; iterate over it once."""

    def __init__(self, source: Source, window_bytes: int = WINDOW_BYTES) -> None:
        self._source = source
        self._window = Window(source, window_bytes)
        self._window.fill(FILE_HEADER_SIZE)
        self._format = _format_of(source.name, self._window.data)
        self.packets = 0
        """Number of packets so far."""
        self.began_ns: int | None = None
        """Unix time of the first packet; None before it was read."""
        self.ended_ns = 0
        """Unix time of the last packet so far."""
        self.unfinished: str | None = None
        """Where the file ends within a packet or block, as while it is still being written; None if it does
        not."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, unless it was given as a file object."""
        self._source.close()

    @property
    def notes(self) -> list[str]:
        """The comments so far: of the file, of its interfaces, of packets."""
        return self._format.notes

    @property
    def secrets(self) -> list[str]:
        """The key logs so far, without those of other protocols."""
        return self._format.secrets

    @property
    def problem(self) -> str | None:
        """The problem of the file, as far as it was read; None if there is none."""
        return self._format.problem or self._window.problem

    @property
    def size_bytes(self) -> int | None:
        """Size of the file on disk; None for a pipe."""
        return self._source.size_bytes

    @property
    def position_bytes(self) -> int:
        """Number of bytes of the file on disk that were read."""
        return self._source.position_bytes

    def __iter__(self) -> Iterator[PacketBatch]:
        """Yield the batches.

        Raises:
            LocalError: the file cannot be read any further.
        """
        window, format_ = self._window, self._format
        while not format_.ended:
            batch, used = format_.take(window.data, self.packets)
            if batch is not None:
                if self.began_ns is None:
                    self.began_ns = int(batch.times_ns[0])
                self.ended_ns = int(batch.times_ns[-1])
                self.packets += len(batch)
                yield batch
            window.drop(used)
            if used:
                window.grow()
                window.fill()
            elif not format_.ended:
                if window.at_end:
                    self._note_cut(len(window.data))
                    return
                window.fill(max(len(window.data) + 1, format_.needed_bytes))
        if format_.problem:
            format_.problem += f", at byte {window.passed_bytes} of the capture; what follows is not read"

    def _note_cut(self, left_bytes: int) -> None:
        if left_bytes and not self.problem:
            where = f"{left_bytes} bytes into packet {self.packets}"
            self.unfinished = f"the file ends {where}, as while it is still being written; it was read up to there"


def _format_of(name: str, head: memoryview) -> PcapFormat | PcapngFormat:
    magic = bytes(head[:4])
    if magic in MAGICS and len(head) >= FILE_HEADER_SIZE:
        try:
            return PcapFormat(bytes(head[:FILE_HEADER_SIZE]))
        except LocalError as error:
            raise LocalError(f"{name}: {error}") from None
    if magic == SECTION_HEADER.to_bytes(4) and len(head) >= FILE_HEADER_SIZE:
        return PcapngFormat()
    if not magic:
        raise LocalError(f"{name}: is empty; a capture in pcap or pcapng format is expected")
    if magic in MAGICS or magic == SECTION_HEADER.to_bytes(4):
        raise LocalError(f"{name}: ends within its header, after {len(head)} bytes")
    raise LocalError(f"{name}: is neither pcap nor pcapng, it begins with {magic.hex(' ')}")
