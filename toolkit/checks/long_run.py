"""Checks a run of any length: settled records are judged once, and then leave memory.

The whole history is judged whenever enough records have arrived. Violations are kept, and settled records leave:
those of messages, of closed links and of ended sessions (:mod:`toolkit.checks.settled_records`). The invariants
judge the remaining history as before, so a message that never arrives is still found when the run comes to rest.
The number of new records between two checks grows with the number of remaining records, so that the cost per
record does not grow with the run.
"""

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import INVARIANTS
from toolkit.checks.live import frozen_times, judged_so_far
from toolkit.checks.merge import in_order
from toolkit.checks.records import Record
from toolkit.checks.result import CheckResult, Violation
from toolkit.checks.settled_records import foldable

SETTLED_S = 60.0
"""Age in seconds from which records are settled, if no other record depends on them."""
_LOOK_S = 1.0
_JOIN_S = 60.0
_KEYS = "keys and nonces are compared only with those of links in memory"
_WEAKER = {
    "INV-7": "before the last record about links that left, a global_seq may be missing",
    "INV-8": "messages kept for replay are counted only between folded frames",
    "INV-10": _KEYS,
    "acknowledged": "acknowledgements are compared only between folded frames",
    "nonce_unique": _KEYS,
    "redial_pause": "after links that left, pauses are judged once a link has lasted",
    "wire_rules": "cookies are compared only with those of links in memory",
}
"""By invariant, the part that it cannot judge in a folded history."""


class LongRun:
    """Judges a growing history and keeps it short.

    Args:
        history: the history; other threads append to it.
        fold: replaces records of the history, given by their ids, by other records; None removes a record.
        every: number of new records after which to judge and fold; more if more than that remained the last time.
        settled_s: age in seconds from which records may be folded.
    """

    def __init__(
        self,
        history: History,
        fold: Callable[[Mapping[int, Record | None]], None],
        every: int,
        settled_s: float = SETTLED_S,
    ) -> None:
        self._history = history
        self._fold = fold
        self._every = every
        self._settled_s = settled_s
        self._left = 0
        """Number of records after the last fold."""
        self._found: dict[str, dict[str, float]] = defaultdict(dict)
        """Time of each violation so far, by invariant and text."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.judged_until_s: float | None = None
        """Time up to which all records are judged and the settled ones folded; None before the first time."""
        self.results: list[CheckResult] = []
        """The results of the last judgement."""
        self.error = ""
        """The error that ended the judging; empty while it works."""

    def look(self) -> bool:
        """Judge and fold if enough records have arrived; returns False if not."""
        if len(self._history) - self._left < max(self._every, self._left):
            return False
        records = [record for record in in_order(self._history.records[:]) if record.kind != "end"]
        until_s = settled_until_s(records, self._settled_s)
        if self.judged_until_s is not None and until_s <= self.judged_until_s:
            self._left = len(records)
            return False
        index = Index(History(records))
        changes = foldable(index, until_s)
        judged = [judged_so_far(invariant, index) for invariant in INVARIANTS.values()]
        earlier = [record for record in records if record.time_s <= records[-1].time_s - self._settled_s / 2]
        results = _standing(judged, records, {id(records[place]) for place in changes}, earlier)
        for result in results:
            for violation in result.violations:
                if (at_s := records[violation.record].time_s) <= until_s:
                    self._found[result.id].setdefault(violation.text, at_s)
        self._fold({id(records[place]): record for place, record in changes.items()})
        self.judged_until_s = until_s
        self.results = self.completed(
            [_until(result, records, until_s) for result in results], [record.time_s for record in records]
        )
        self._left = len(self._history)
        return True

    def completed(self, results: Iterable[CheckResult], times_s: Sequence[float]) -> list[CheckResult]:
        """Add the violations found before to results on the records in memory.

        Args:
            results: the results.
            times_s: times of the records in memory, in order; a violation whose record was folded moves to the
                next one.
        """
        if self.judged_until_s is None:
            return list(results)
        return [self._completed(result, times_s) for result in results]

    def _completed(self, result: CheckResult, times_s: Sequence[float]) -> CheckResult:
        known = {violation.text for violation in result.violations}
        last = max(0, len(times_s) - 1)
        earlier = [
            Violation(min(bisect_right(times_s, at_s), last), text)
            for text, at_s in self._found.get(result.id, {}).items()
            if text not in known
        ]
        violations = sorted((*earlier, *result.violations), key=lambda violation: violation.record)
        note = "; ".join(filter(None, (result.note, _WEAKER.get(result.id, ""))))
        judged = result.judged or bool(earlier)
        return replace(result, ok=not violations, violations=violations, note=note, judged=judged)

    # ---- in the background

    def start(self) -> None:
        """Judge and fold in a thread whenever enough records have arrived, until :meth:`stop`."""
        self._thread = threading.Thread(target=self._run, name="long run", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the status shows it; the cluster continues
                self.error = f"{type(error).__name__}: {error}"
                return


def settled_until_s(records: Sequence[Record], settled_s: float) -> float:
    """Return the time in seconds up to which records are settled: every node ran for ``settled_s`` since then.

    A frozen node writes no records that could excuse violations, so time in which a node is frozen does not count,
    and the result is never within such a time.

    Args:
        records: the records in order of time; not empty.
        settled_s: age in seconds from which records are settled.
    """
    until_s = records[-1].time_s
    for began_s, ended_s in reversed(frozen_times(records)):
        ran_s = max(0.0, until_s - ended_s)
        if ran_s >= settled_s:
            break
        settled_s -= ran_s
        until_s = min(until_s, began_s)
    return max(0.0, until_s - settled_s)


def _standing(
    results: Iterable[CheckResult], records: Sequence[Record], leaving: set[int], earlier: Sequence[Record]
) -> list[CheckResult]:
    """Remove violations that only the newest records show: the next record may excuse them.

    Args:
        results: the results on all records.
        records: these records.
        leaving: ids of the records that are about to be folded.
        earlier: the records that are old enough to be settled.
    """
    before = Index(History(earlier))
    found = []
    for result in results:
        stood = set(leaving)
        if any(id(records[violation.record]) not in leaving for violation in result.violations):
            stood |= {id(earlier[one.record]) for one in judged_so_far(INVARIANTS[result.id], before).violations}
        violations = [one for one in result.violations if id(records[one.record]) in stood]
        found.append(replace(result, ok=not violations, violations=violations))
    return found


def _until(result: CheckResult, records: Sequence[Record], until_s: float) -> CheckResult:
    """Remove violations after ``until_s``, which later records may excuse."""
    violations = [one for one in result.violations if records[one.record].time_s <= until_s]
    return replace(result, ok=not violations, violations=violations)
