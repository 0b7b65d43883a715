"""A history that is written to its file while it happens: up to so many records, as long as the disk has room."""

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.records import Record, dump_record, sharing_words
from toolkit.machine.private import FILE_MODE

_FLUSH_S = 0.1
"""What is older than that is in the file when the next record comes."""
_LATEST_S = 10.0
"""Records of a node come so much later than those of others at most, on a busy machine."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class LiveHistory(History):
    """Takes records from several threads.

    If the file cannot be written any more, the history ends: at a moment up to which the records of all nodes are
    in the file, since a verdict on half of them would be wrong.

    Args:
        path: of the file, NDJSON.
        limit: so many records are taken; later ones are neither in the history nor in the file.

    Raises:
        LocalError: it cannot be written.
    """

    __slots__ = (
        "_changed",
        "_flushed_s",
        "_limit",
        "_out",
        "_pending",
        "_written_bytes",
        "full_s",
        "path",
        "trouble",
    )

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__()
        self.path = path
        self.full_s: float | None = None
        """Time of the first record that was not taken; None while there is room."""
        self.trouble = ""
        """Why the file could not be written any more; empty while it can be."""
        self._limit = limit
        self._changed = threading.Condition()
        self._flushed_s = 0.0
        self._pending: list[bytes] = []
        """Lines that are not in the file yet: of the last records."""
        self._written_bytes = 0
        try:
            self._out: int | None = os.open(path, _NEW_FILE, FILE_MODE)
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None

    def put(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """See :meth:`History.put`; from any thread."""
        with self._changed:
            if self.full_s is not None or len(self.records) >= self._limit:
                self.full_s = time_s if self.full_s is None else self.full_s
                return
            super().put(time_s, node, kind, sharing_words(fields))
            if self._out is not None:
                self._pending.append(_line(self.records[-1]))
                if time.monotonic() - self._flushed_s > _FLUSH_S:
                    self._write_pending()
            self._changed.notify_all()

    @property
    def is_whole(self) -> bool:
        """See :attr:`History.is_whole`."""
        return self.full_s is None

    def flush(self) -> None:
        """Have everything in the file."""
        with self._changed:
            self._write_pending()

    def so_far(self) -> History:
        """What is there now, as a history of its own."""
        with self._changed:
            return History(self.records)

    def wait_beyond(self, count: int, timeout_s: float) -> bool:
        """Wait until there are more records than that; False if there are not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.records) > count, timeout_s)

    def close(self) -> None:
        """Nothing more is written to the file."""
        with self._changed:
            self._write_pending()
            if self._out is not None:
                os.close(self._out)
                self._out = None

    # ---- the file

    def _write_pending(self) -> None:
        if self._out is None or not self._pending:
            return
        try:
            self._write(self._pending)
        except OSError as error:
            self._cut(error)
        self._pending.clear()
        self._flushed_s = time.monotonic()

    def _write(self, lines: Iterable[bytes]) -> None:
        """Write lines; in the end all of them are in the file, or none.

        Raises:
            OSError: none are.
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
        """End the history at a moment up to which the records of all nodes are there and can be in the file."""
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
        left = {id(record) for record in kept}
        self.full_s = min((record.time_s for record in dropped if id(record) not in left), default=last_s)


def _line(record: Record) -> bytes:
    return dump_record(record).encode("ascii") + b"\n"


def _complete_until_s(records: Iterable[Record]) -> float:
    """Up to when the records of all nodes that run are there."""
    newest: dict[str, float] = {}
    last_s = 0.0
    for record in records:
        last_s = max(last_s, record.time_s)
        if record.kind == "process" and record["action"] in {"kill", "stop"}:
            newest.pop(record.node, None)
        elif record.node not in {SCENARIO, NETWORK}:
            newest[record.node] = record.time_s
    return max(min(newest.values(), default=last_s), last_s - _LATEST_S)
