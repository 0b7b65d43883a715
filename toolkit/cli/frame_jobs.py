"""The jobs of ``msgrlab decode``: decode a capture frame by frame, or straight into columns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import IO, TYPE_CHECKING, TextIO

from messenger.compat import override
from toolkit.capture.formats import CaptureReader, open_capture
from toolkit.capture.formats.source import CaptureFiles
from toolkit.cli.frame_lines import FrameLines
from toolkit.cli.frame_output import ColumnWriter, JsonLines, batches_of
from toolkit.cli.frame_tally import Tally
from toolkit.dissect.decode import Decoder, KeysInside
from toolkit.dissect.filters import Predicate
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook

if TYPE_CHECKING:
    import pyarrow as pa


class Job(ABC):
    """Decodes a capture once, and counts decoded and undecoded frames.

    Args:
        reader: reader of the capture.
        limit: number of frames after which to stop; None for no limit.
    """

    other_streams = 0
    """TCP connections that are not messenger links; 0 until they have been counted."""

    def __init__(self, reader: CaptureReader, limit: int | None) -> None:
        self.reader = reader
        self.tally = Tally()
        self.shown = 0
        """Frames that were written."""
        self.advance: Callable[[], None] = lambda: None
        """Called after each batch of packets, to show progress."""
        self._limit = limit

    @property
    @abstractmethod
    def skipped(self) -> str | None:
        """Text that counts the packets that were not read, by reason; None if there were none."""

    @property
    def stopped(self) -> bool:
        """True if the limit has been reached."""
        return self.shown == self._limit

    @property
    def problem(self) -> str:
        """The problem of the capture file or of the keys inside it; empty if there is none."""
        return self.reader.problem or ""

    def write_columns(self, writer: ColumnWriter, file: IO[bytes]) -> None:
        """Write the wanted frames as columns."""
        with writer(file) as write:
            for batch in self.batches():
                write(batch)

    @abstractmethod
    def batches(self) -> "Iterator[pa.RecordBatch]":
        """Yield the wanted frames as columns."""


class FrameJob(Job):
    """Decodes frame by frame, into an object for each frame.

    Args:
        source: the capture.
        keys: keys to decrypt and check frames with.
        limit: number of frames after which to stop, as for :class:`Job`.
        wanted: True for the frames to output; None for all frames.
        ports: TCP ports of the links to decode, as for :class:`Decoder`.
        payloads: True to add the columns that describe the payload of OSD messages.
    """

    def __init__(
        self,
        source: CaptureFiles,
        keys: KeyBook,
        limit: int | None,
        wanted: Predicate | None,
        ports: frozenset[int] | None = None,
        *,
        payloads: bool = False,
    ) -> None:
        super().__init__(open_capture(source), limit)
        self._inside = KeysInside(self.reader, keys)
        self._decoder = Decoder(keys, ports=ports)
        self._wanted = wanted
        self._payloads = payloads

    @property
    @override
    def problem(self) -> str:
        return super().problem or self._inside.problem or ""

    @property
    @override
    def skipped(self) -> str | None:
        return self._decoder.skipped

    def write_lines(self, lines: JsonLines | FrameLines, text: TextIO) -> None:
        """Write the frames as lines, flushed after each batch of packets: the capture may be a live pipe."""
        for frames in self._turns():
            if isinstance(lines, JsonLines):
                text.writelines(lines.lines(frames))
            else:
                lines.began_ns = self.reader.began_ns
                for frame in frames:
                    self._write_ends(lines, text, frame.packet)
                    text.writelines(f"{line}\n" for line in lines.lines(frame))
            text.flush()
        if isinstance(lines, FrameLines):
            self._write_ends(lines, text, None)

    def _write_ends(self, lines: FrameLines, text: TextIO, before: int | None) -> None:
        """In the table, write the ends of links before packet number ``before``.

        With None, write all that remain, then the connection attempts that failed.
        """
        if self.stopped:
            return
        for end in self._decoder.ends_before(before):
            text.writelines(f"{line}\n" for line in lines.end(end))
        if before is None and self._wanted is None:
            text.writelines(
                f"failed to connect: {failed.client} to {failed.server}, {failed.count:,} x: {failed.ending}\n"
                for failed in self._decoder.failed_connects()
            )

    @override
    def batches(self) -> "Iterator[pa.RecordBatch]":
        return batches_of(chain.from_iterable(self._turns()), payloads=self._payloads)

    def _turns(self) -> Iterator[Iterator[DecodedFrame]]:
        """Yield the wanted frames of each batch of packets."""
        for batch in self.reader:
            self._inside.learn()
            yield self._chosen(self._decoder.feed(batch))
            if self.stopped:
                return
            self.advance()
        yield self._chosen(self._decoder.finish())
        self.other_streams = self._decoder.other_streams

    def _chosen(self, frames: Sequence[DecodedFrame]) -> Iterator[DecodedFrame]:
        if self._wanted is None and self._limit is None:
            self.tally.add_all(frames)
            self.shown += len(frames)
            yield from frames
            return
        for frame in frames:
            if self.stopped:
                return
            self.tally.add(frame)
            if self._wanted is None or self._wanted(frame):
                self.shown += 1
                yield frame


class ColumnJob(Job):
    """Decodes into columns without an object for each frame; takes the arguments of :class:`FrameJob`."""

    def __init__(
        self,
        source: CaptureFiles,
        keys: KeyBook,
        limit: int | None,
        ports: frozenset[int] | None = None,
        *,
        payloads: bool = False,
    ) -> None:
        from toolkit.dissect.columns import ColumnDecoder

        self._decoder = ColumnDecoder(source, keys, ports=ports, payloads=payloads)
        super().__init__(self._decoder.reader, limit)

    @property
    @override
    def problem(self) -> str:
        return self._decoder.file_problem or ""

    @property
    @override
    def skipped(self) -> str | None:
        return self._decoder.skipped

    @override
    def batches(self) -> "Iterator[pa.RecordBatch]":
        for found in self._decoder:
            batch = found if self._limit is None else found.slice(0, self._limit - self.shown)
            self.tally.add_batch(batch)
            self.shown += batch.num_rows
            yield batch
            if self.stopped:
                return
            self.advance()
