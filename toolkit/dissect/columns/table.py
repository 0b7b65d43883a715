"""The frames of a capture as Arrow batches or as a table."""

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

    A context manager; iterate over it once. What it takes of memory does not depend on the capture's length.

    Args:
        source: path of the capture, or a binary file object.
        keys: keys known so far; those found in the capture are added. Key logs inside it are used in any case.
        ports: look at connections only that have one of these at either end; None: at all.
        batch_rows: how many rows a batch has at least, the last one excepted.
        payloads: read those of messages, too, for the columns of :data:`SUBJECT_SCHEMA`: that takes an object for
            each frame.

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
        """What became of the bytes, as far as they are in batches."""
        return self._gatherer.totals

    @property
    def skipped(self) -> str | None:
        """Packets that were not read, by reason, in one line; None if there were none."""
        return self._links.skipped

    @property
    def file_problem(self) -> str | None:
        """What is wrong with the file itself, or with keys inside it; None if nothing is."""
        return self.reader.problem or self._inside.problem

    @property
    def problem(self) -> str | None:
        """What could not be read or decoded so far, in one line; None if everything was."""
        totals = self.totals.problem_of(unfinished=self.reader.unfinished is not None)
        problems = [self.file_problem, totals]
        return "; ".join(problem for problem in problems if problem) or None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, with the columns of :data:`SCHEMA` or, with payloads, :data:`SUBJECT_SCHEMA`.

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
    """The frames of a capture, batch by batch, whatever its length; arguments are those of :class:`ColumnDecoder`.

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
    """All frames of a capture; raises as :func:`frame_batches`."""
    schema = SUBJECT_SCHEMA if payloads else SCHEMA
    return pa.Table.from_batches(frame_batches(source, keys, ports=ports, payloads=payloads), schema)
