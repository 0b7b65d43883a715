"""Collects rows for Arrow, from records and from whole runs of messages, and sorts them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from toolkit.capture.formats.packets import Integers
from toolkit.dissect.columns.schema import NULL, ROW, Rows, Vocabulary, new_vocabularies, record_batch
from toolkit.dissect.decode import Totals
from toolkit.dissect.frames import CAPTURE_ENDS, UNKNOWN, DecodedFrame, MessageInfo

_NO_MESSAGE = MessageInfo(0, "", 0, 0, "", 0, 0, 0, 0, 0, 0, 0)
_BYTES = np.dtype((np.void, ROW.itemsize))
"""A row as plain bytes, which are copied twenty times as fast as field by field."""


class Gatherer:
    """Collects the rows of a capture and makes batches of them.

    Rows are not moved once they are written; only their indexes are sorted.

    Args:
        batch_rows: minimum number of rows in a batch; the last one may be shorter.
    """

    def __init__(self, batch_rows: int) -> None:
        self.vocabularies: Mapping[str, Vocabulary] = new_vocabularies()
        self.totals = Totals()
        self._number = {name: vocabulary.number for name, vocabulary in self.vocabularies.items()}
        self._batch_rows = batch_rows
        self._rows = np.empty(2 * batch_rows, ROW)
        self._used = 0
        self._records: list[tuple[int, ...]] = []
        """Records to be written after the rows in use."""
        self._run = 0
        self._in_run = False
        self._orders: list[Integers] = []
        """Sorted indexes of the settled rows, one array per call of :meth:`settle`."""
        self._settled = 0

    def emit(self, frame: DecodedFrame) -> None:
        """Add a record."""
        number = self._number
        info = frame.message or _NO_MESSAGE
        self._run += not self._in_run
        self._records.append(
            (
                frame.packet,
                self._run,
                frame.message is not None,
                frame.time_ns,
                frame.stream.index,
                number["src"](frame.src),
                number["dst"](frame.dst),
                number["protocol"](frame.protocol),
                number["mode"](frame.mode),
                number["tag"](frame.tag),
                frame.offset,
                frame.length,
                number["crc"](frame.crc),
                number["auth"](frame.auth),
                number["error"](frame.error),
                info.type,
                number["name"](info.name),
                info.seq,
                info.tid,
                number["message_src"](info.src),
                info.version,
                info.compat_version,
                info.priority,
                info.front,
                info.middle,
                info.data,
                info.ack_seq,
            )
        )

    @contextmanager
    def run(self) -> Iterator[None]:
        """Collect rows of one direction, which are sorted by stream offset, not by arrival."""
        self._run += 1
        self._in_run = True
        yield
        self._in_run = False

    def rows(self, count: int, same: Mapping[str, str | int | None]) -> Rows:
        """Return new rows of :data:`ROW`. Fill them in before any other call of the gatherer.

        Args:
            count: number of rows.
            same: columns that are the same in all rows; the other columns are 0.
        """
        self._write_records()
        row = np.zeros((), ROW)
        for name, value in same.items():
            row[name] = value if isinstance(value, int) else self._number[name](value)
        row["run"] = self._run
        rows = self._room(count)
        rows.view(_BYTES)[...] = row.view(_BYTES)
        return rows

    def _room(self, count: int) -> Rows:
        start, self._used = self._used, self._used + count
        if self._used > len(self._rows):
            larger = np.empty(2 * self._used, ROW)
            larger.view(_BYTES)[:start] = self._rows.view(_BYTES)[:start]
            self._rows = larger
        return self._rows[start : self._used]

    def _write_records(self) -> None:
        if self._records:
            records = np.array(self._records, ROW)
            self._room(len(records)).view(_BYTES)[...] = records.view(_BYTES)
            self._records = []

    def settle(self) -> None:
        """Sort the rows so far: all later ones were complete later."""
        self._write_records()
        new = self._rows[self._settled : self._used]
        if len(new):
            self._orders.append(self._settled + np.lexsort((new["offset"], new["run"], new["packet"])))
            self._settled = self._used

    def batch(self, *, last: bool = False) -> pa.RecordBatch | None:
        """Return the next batch if there are enough rows for one, or any rows and it is the last; else None."""
        if not self._settled or (self._settled < self._batch_rows and not last):
            return None
        rows, order = self._rows[: self._settled], np.concatenate(self._orders)
        batch = self._record_batch(rows, order)
        self._count(rows, order)
        self._orders, self._used, self._settled = [], 0, 0
        return batch

    def _record_batch(self, rows: Rows, order: Integers) -> pa.RecordBatch:
        return record_batch(rows, order, self.totals.frames, self.vocabularies)

    def _count(self, rows: Rows, order: Integers) -> None:
        self.totals.frames += len(rows)
        wrong = rows[order[rows["error"][order] != NULL]]
        if not len(wrong):
            return
        tags, crcs, auths, errors = (self.vocabularies[name] for name in ("tag", "crc", "auth", "error"))
        kinds, firsts, which = np.unique(wrong[["tag", "crc", "auth"]], return_index=True, return_inverse=True)
        for number in np.argsort(firsts).tolist():
            tag, crc, auth = kinds[number].tolist()
            error = wrong["error"][firsts[number]].item()
            sizes = wrong["length"][which == number]
            self.totals.count_wrong(
                tags.text(tag), crcs.text(crc), auths.text(auth), errors.text(error), len(sizes), int(sizes.sum())
            )
        for number in np.unique(wrong["error"]).tolist():
            if errors.text(number).startswith(CAPTURE_ENDS):
                cut = wrong[(wrong["error"] == number) & (wrong["tag"] == tags.number(UNKNOWN))]
                self.totals.cut_off += len(cut)
                self.totals.cut_off_bytes += int(cut["length"].sum())
