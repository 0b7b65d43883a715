"""Check the history of a running cluster repeatedly, once it is long."""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolkit.cluster.live_history import LiveHistory

if TYPE_CHECKING:
    from toolkit.checks.long_run import LongRun
    from toolkit.checks.result import CheckResult

_LOOK_S = 1.0


class Judging:
    """Checks a history after every ``every`` records, and drops records from memory that later ones cannot affect.

    Args:
        history: history of the cluster.
        every: number of records between checks; 0 for never.
    """

    def __init__(self, history: LiveHistory, every: int) -> None:
        self._history = history
        self._every = every
        self._ended = threading.Event()
        self.long_run: LongRun | None = None
        """The repeated check; None while the history is short."""

    def start(self) -> None:
        """Start to check in a thread, until :meth:`stop`."""
        if self._every:
            threading.Thread(target=self._begin, name="judging", daemon=True).start()

    def stop(self) -> None:
        """Stop checking."""
        self._ended.set()
        if self.long_run is not None:
            self.long_run.stop()

    def _begin(self) -> None:
        while self._history.count < self._every:
            if self._ended.wait(_LOOK_S):
                return
        from toolkit.checks.long_run import LongRun  # noqa: PLC0415 - a third of a second, and seldom needed

        self.long_run = LongRun(self._history, self._history.fold, self._every)
        self.long_run.start()
        if self._ended.is_set():
            self.long_run.stop()

    def completed(self, results: "list[CheckResult]", times_s: Iterable[float]) -> "list[CheckResult]":
        """Complete the results for the records in memory with earlier findings; see :meth:`LongRun.completed`."""
        return results if self.long_run is None else self.long_run.completed(results, sorted(times_s))

    def status(self) -> dict[str, Any]:
        """Return sizes of the history and the time up to which it was checked, as JSON."""
        history, long_run = self._history, self.long_run
        return {
            "records": history.count,
            "in_memory": len(history),
            "on_disk": history.on_disk,
            "unwritten_s": history.unwritten_s,
            "judged_until_s": long_run.judged_until_s if long_run is not None else None,
            "not_judged_why": (long_run.error if long_run is not None else "") or None,
        }
