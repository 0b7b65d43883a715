"""A history that is written to a file as records arrive, with limits on memory and on the file."""

import os
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.records import Record, dump_record, sharing_words
from toolkit.machine.private import FILE_MODE

_FLUSH_S = 0.1
"""Records older than this are written to the file when the next record arrives."""
_LATEST_S = 10.0
"""Most seconds that one node's records arrive later than those of others, on a busy machine."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class LiveHistory(History):
    """A history that several threads append to.

    If the file cannot be written any more, the history ends at a time up to which the file has the records of all
    nodes, because a verdict on incomplete records would be wrong.

    Args:
        path: path of the file, NDJSON.
        limit: most records in memory; later ones are neither in the history nor in the file.
        disk_bytes: most bytes of the file; later records are only in memory.

    Raises:
        LocalError: the file cannot be created.
    """

    __slots__ = (
        "_changed",
        "_disk_bytes",
        "_flushed_s",
        "_limit",
        "_out",
        "_pending",
        "_written_bytes",
        "count",
        "full_s",
        "numbers",
        "on_disk",
        "path",
        "trouble",
        "unwritten_s",
    )

    def __init__(self, path: Path, limit: int, disk_bytes: int = 1 << 62) -> None:
        super().__init__()
        self.path = path
        self.full_s: float | None = None
        """Time of the first record that was dropped; None if none was."""
        self.trouble = ""
        """Why the file cannot be written any more; empty while it can."""
        self.count = 0
        """Number of records appended, including those removed by :meth:`fold`."""
        self.on_disk = 0
        """Number of records in the file."""
        self.unwritten_s: float | None = None
        """Time of the first record that did not fit in the file; None if all did."""
        self.numbers = array("Q")
        """For each record in memory, the number of records that were appended before it."""
        self._disk_bytes = disk_bytes
        self._limit = limit
        self._changed = threading.Condition()
        self._flushed_s = 0.0
        self._pending: list[bytes] = []
        """Lines of the last records, which are not in the file yet."""
        self._written_bytes = 0
        try:
            self._out: int | None = os.open(path, _NEW_FILE, FILE_MODE)
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None

    @override
    def put(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """Append a record; from any thread."""
        with self._changed:
            if self.full_s is not None or len(self.records) >= self._limit:
                self.full_s = time_s if self.full_s is None else self.full_s
                return
            super().put(time_s, node, kind, sharing_words(fields))
            self.numbers.append(self.count)
            self.count += 1
            if self._out is not None and self.unwritten_s is None:
                self._pending.append(_line(self.records[-1]))
                if time.monotonic() - self._flushed_s > _FLUSH_S:
                    self._write_pending()
            self._changed.notify_all()

    @property
    @override
    def is_whole(self) -> bool:
        return self.full_s is None

    def flush(self) -> None:
        """Write all pending records to the file."""
        with self._changed:
            self._write_pending()

    def so_far(self) -> History:
        """Return a copy of the records in memory."""
        with self._changed:
            return History(self.records)

    def behind(self, count: int, most: int) -> tuple[int, list[Record]]:
        """Return records after the first ``count``, and how many records have been read with them.

        Args:
            count: number of records that the caller has read.
            most: most records to return; records removed by :meth:`fold` are skipped.
        """
        with self._changed:
            first = bisect_left(self.numbers, count)
            records = self.records[first : first + most]
            return (self.numbers[first + len(records) - 1] + 1 if records else count), records

    def wait_beyond(self, count: int, timeout_s: float) -> bool:
        """Wait until more than ``count`` records were appended; returns False at the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count > count, timeout_s)

    def fold(self, changes: Mapping[int, Record | None]) -> None:
        """Replace or remove records in memory, but not in the file.

        Args:
            changes: by ``id`` of the record, its replacement or None.
        """
        with self._changed:
            kept = [
                (number, changed)
                for number, record in zip(self.numbers, self.records, strict=True)
                if (changed := changes.get(id(record), record)) is not None
            ]
            self.numbers = array("Q", (number for number, _ in kept))
            self.records[:] = [record for _, record in kept]

    def close(self) -> None:
        """Write the pending records and close the file."""
        with self._changed:
            self._write_pending()
            if self._out is not None:
                os.close(self._out)
                self._out = None

    # ---- the file

    def _write_pending(self) -> None:
        if self._out is None or not self._pending:
            return
        if self._written_bytes >= self._disk_bytes:
            self.unwritten_s = self.records[-len(self._pending)].time_s
        else:
            try:
                self._write(self._pending)
                self.on_disk += len(self._pending)
            except OSError as error:
                self._cut(error)
        self._pending.clear()
        self._flushed_s = time.monotonic()

    def _write(self, lines: Iterable[bytes]) -> None:
        """Write all lines, or none if it fails.

        Raises:
            OSError: none are written.
        """
        assert self._out is not None
        content = b"".join(lines)
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(self._out, view) :]
        except OSError:
            os.ftruncate(self._out, self._written_bytes)
            os.lseek(self._out, self._written_bytes, os.SEEK_SET)
            raise
        self._written_bytes += len(content)

    def _cut(self, error: OSError) -> None:
        """End the history at a time up to which the records of all nodes are complete and fit in the file."""
        assert self._out is not None
        self.trouble = f"{self.path}: {error.strerror}"
        last_s = _complete_until_s(self.records)
        later = [place for place, record in enumerate(self.records) if record.time_s > last_s]
        first = min([*later, len(self.records) - len(self._pending)])
        written = self.records[first : len(self.records) - len(self._pending)]
        kept = [record for record in self.records[first:] if record.time_s <= last_s]
        self._written_bytes -= sum(len(_line(record)) for record in written)
        os.ftruncate(self._out, self._written_bytes)
        os.lseek(self._out, self._written_bytes, os.SEEK_SET)
        dropped = self.records[first:]
        try:
            self._write(map(_line, kept))
        except OSError:
            kept = []
        self.records[first:] = kept
        del self.numbers[len(self.records) :]
        self.on_disk += len(kept) - len(written)
        left = {id(record) for record in kept}
        self.full_s = min((record.time_s for record in dropped if id(record) not in left), default=last_s)


def _line(record: Record) -> bytes:
    return dump_record(record).encode("ascii") + b"\n"


def _complete_until_s(records: Iterable[Record]) -> float:
    """Return the time up to which the records of all running nodes have arrived."""
    newest: dict[str, float] = {}
    last_s = 0.0
    for record in records:
        last_s = max(last_s, record.time_s)
        if record.kind == "process" and record["action"] in {"kill", "stop"}:
            newest.pop(record.node, None)
        elif record.node not in {SCENARIO, NETWORK}:
            newest[record.node] = record.time_s
    return max(min(newest.values(), default=last_s), last_s - _LATEST_S)
