"""A history that is written to its file while it happens."""

import threading
import time
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.records import dump_record

_FLUSH_S = 0.1
"""What is older than that is in the file when the next record comes."""


class LiveHistory(History):
    """Takes records from several threads.

    Args:
        path: of the file, NDJSON.

    Raises:
        LocalError: it cannot be written.
    """

    __slots__ = ("_changed", "_flushed_s", "_out", "path")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._changed = threading.Condition()
        self._flushed_s = 0.0
        try:
            self._out = path.open("w", encoding="ascii", newline="\n")
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None

    def put(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """See :meth:`History.put`; from any thread."""
        with self._changed:
            super().put(time_s, node, kind, fields)
            if not self._out.closed:
                self._out.write(dump_record(self.records[-1]) + "\n")
                if (now_s := time.monotonic()) - self._flushed_s > _FLUSH_S:
                    self._out.flush()
                    self._flushed_s = now_s
            self._changed.notify_all()

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
