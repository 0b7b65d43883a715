"""The frames of a capture as Arrow batches or as one table."""

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from toolkit.capture.formats import CaptureReader, open_capture
from toolkit.capture.formats.source import CaptureFiles
from toolkit.dissect.columns.bulk import BulkPhase
from toolkit.dissect.columns.gather import Gatherer
from toolkit.dissect.columns.schema import SCHEMA
from toolkit.dissect.columns.subjects import SUBJECT_SCHEMA, SubjectGatherer
from toolkit.dissect.decode import KeysInside, Links, Totals
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import RecordPhase

BATCH_ROWS = 1 << 14


class ColumnDecoder:
    """Decodes a capture into batches of columns, as :class:`CaptureDecoder` does into records.

    A context manager; iterate over it once. Its memory does not grow with the length of the capture.

    Args:
        source: path of the capture, a file open for reading, or a list of several.
        keys: known keys; keys found in the capture are added. Key logs inside it are always used.
        ports: decode only connections with one of these ports at either end; None decodes all.
        batch_rows: minimum number of rows in a batch, the last one excepted.
        payloads: also read the payloads of messages, for the columns of :data:`SUBJECT_SCHEMA`; this creates an
            object per frame.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """

    def __init__(
        self,
        source: CaptureFiles,
        keys: KeyBook | None = None,
        *,
        ports: Collection[int] | None = None,
        batch_rows: int = BATCH_ROWS,
        payloads: bool = False,
    ) -> None:
        self.reader: CaptureReader = open_capture(source)
        keys = keys if keys is not None else KeyBook()
        self._inside = KeysInside(self.reader, keys)
        self._gatherer = SubjectGatherer(batch_rows) if payloads else Gatherer(batch_rows)
        phase = RecordPhase() if payloads else BulkPhase(self._gatherer)
        self._links = Links(keys, self._gatherer.emit, ports, phase)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.reader.close()

    @property
    def totals(self) -> Totals:
        """Totals over the rows that are in batches so far."""
        return self._gatherer.totals

    @property
    def skipped(self) -> str | None:
        """Number of packets that were not read, by reason, in one line; None if all were read."""
        return self._links.skipped

    @property
    def file_problem(self) -> str | None:
        """What is wrong with the file itself, or with keys inside it; None if nothing is."""
        return self.reader.problem or self._inside.problem

    @property
    def problem(self) -> str | None:
        """What could not be read or decoded so far, in one line; None if nothing is wrong."""
        totals = self.totals.problem_of(unfinished=self.reader.unfinished is not None)
        problems = [self.file_problem, totals]
        return "; ".join(problem for problem in problems if problem) or None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches with the columns of :data:`SCHEMA`; of :data:`SUBJECT_SCHEMA` with payloads.

        Raises:
            LocalError: the file cannot be read any further.
        """
        for packets in self.reader:
            self._inside.learn()
            self._links.feed(packets)
            yield from self._made()
        self._links.finish()
        yield from self._made(last=True)

    def _made(self, *, last: bool = False) -> Iterator[pa.RecordBatch]:
        self._gatherer.settle()
        batch = self._gatherer.batch(last=last)
        if batch is not None:
            yield batch


def frame_batches(
    source: CaptureFiles,
    keys: KeyBook | None = None,
    *,
    ports: Collection[int] | None = None,
    batch_rows: int = BATCH_ROWS,
    payloads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a capture of any length in batches. Arguments as for :class:`ColumnDecoder`.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """
    with ColumnDecoder(source, keys, ports=ports, batch_rows=batch_rows, payloads=payloads) as decoder:
        yield from decoder


def frame_table(
    source: CaptureFiles,
    keys: KeyBook | None = None,
    *,
    ports: Collection[int] | None = None,
    payloads: bool = False,
) -> pa.Table:
    """Return all frames of a capture as one table. Raises as :func:`frame_batches`."""
    schema = SUBJECT_SCHEMA if payloads else SCHEMA
    return pa.Table.from_batches(frame_batches(source, keys, ports=ports, payloads=payloads), schema)
