"""A history that is written to its file while it happens, up to so many records."""

import threading
import time
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.records import dump_record, sharing_words

_FLUSH_S = 0.1
"""What is older than that is in the file when the next record comes."""


class LiveHistory(History):
    """Takes records from several threads.

    Args:
        path: of the file, NDJSON.
        limit: so many records are taken; what comes later is in neither.

    Raises:
        LocalError: it cannot be written.
    """

    __slots__ = ("_changed", "_flushed_s", "_limit", "_out", "full_s", "path")

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__()
        self.path = path
        self.full_s: float | None = None
        """Time of the first record that was not taken; None while there is room."""
        self._limit = limit
        self._changed = threading.Condition()
        self._flushed_s = 0.0
        try:
            self._out = path.open("w", encoding="ascii", newline="\n")
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None

    def put(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """See :meth:`History.put`; from any thread."""
        with self._changed:
            if len(self.records) >= self._limit:
                self.full_s = time_s if self.full_s is None else self.full_s
                return
            super().put(time_s, node, kind, sharing_words(fields))
            if not self._out.closed:
                self._out.write(dump_record(self.records[-1]) + "\n")
                if (now_s := time.monotonic()) - self._flushed_s > _FLUSH_S:
                    self._out.flush()
                    self._flushed_s = now_s
            self._changed.notify_all()

    @property
    def is_whole(self) -> bool:
        """See :attr:`History.is_whole`."""
        return self.full_s is None

    def flush(self) -> None:
        """Have everything in the file."""
        with self._changed:
            if not self._out.closed:
                self._out.flush()

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
            self._out.close()
