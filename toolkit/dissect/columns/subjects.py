"""Columns with the subjects of messages, after those of :data:`SCHEMA`, for tables with ``payloads=True``."""

from dataclasses import fields

import pyarrow as pa

from messenger.compat import override
from toolkit.capture.formats.packets import Integers
from toolkit.dissect.columns.gather import Gatherer
from toolkit.dissect.columns.schema import SCHEMA, Rows
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.payloads import Subject, subject_of

_TYPES = {
    "object": pa.string(),
    "pool": pa.int64(),
    "pg": pa.string(),
    "snap": pa.uint64(),
    "op": pa.string(),
    "result": pa.int32(),
    "flags": pa.string(),
}
_COLUMNS = [pa.field(item.name, _TYPES[item.name]) for item in fields(Subject)]
SUBJECT_SCHEMA = pa.schema([*SCHEMA, *_COLUMNS])
""":data:`SCHEMA` with the columns of :class:`Subject` added."""


class SubjectGatherer(Gatherer):
    """Collects rows and also reads the payload of each message; it accepts records only, no runs of rows."""

    def __init__(self, batch_rows: int) -> None:
        super().__init__(batch_rows)
        self._subjects: list[Subject] = []
        """In the order of the rows."""

    @override
    def emit(self, frame: DecodedFrame) -> None:
        super().emit(frame)
        self._subjects.append(subject_of(frame))

    @override
    def _record_batch(self, rows: Rows, order: Integers) -> pa.RecordBatch:
        batch = super()._record_batch(rows, order)
        subjects = [self._subjects[place] for place in order.tolist()]
        self._subjects = []
        found = ([_plain(getattr(subject, column.name)) for subject in subjects] for column in _COLUMNS)
        columns = [pa.array(values, column.type) for values, column in zip(found, _COLUMNS, strict=True)]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=SUBJECT_SCHEMA)


def _plain(value: str | int | None) -> str | int | None:
    """Escape names of objects, which may be any bytes, as UTF-8 for Arrow."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
