"""The invariants over a history that still grows: each violation is reported once, while the cluster runs.

An unfinished history can be judged for safety only (nothing bad happened), not for liveness (something good
happens in the end). Its end is incomplete: records of several processes do not arrive at the same time, and the
record that excuses a violation may be written a moment later. Therefore ``end`` records are ignored, records are
sorted by time, and a violation is reported only once it has lasted for a while and all nodes have written later
records: on a busy machine the records of one node may arrive seconds after those of another. The wait for a
silent node is bounded.

A check takes time in proportion to the history, so each check is followed by a pause that is several times as
long. That bounds the CPU time spent on checks, however long the run is.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.index import Index
from toolkit.checks.invariants import INVARIANTS, select
from toolkit.checks.merge import in_order
from toolkit.checks.records import Record
from toolkit.checks.result import CheckResult, Invariant, Violation

_OF_WHOLE_RUNS = frozenset({"INV-6", "liveness_after_heal", "quiescence"})
"""Invariants about the end of a run."""
SETTLE_S = 2.0
SILENCE_S = 10.0
_SHARE = 0.2
_LEAST_PAUSE_S = 0.25
_JOIN_S = 60.0


def _live_invariants() -> tuple[Invariant, ...]:
    """Return the invariants that can judge an unfinished history, without those that only repeat others."""
    judges: set[object] = set()
    found = []
    for invariant in INVARIANTS.values():
        if invariant.id not in _OF_WHOLE_RUNS and not judges.issuperset(invariant.judges):
            judges.update(invariant.judges)
            found.append(invariant)
    return tuple(found)


LIVE = _live_invariants()
"""The invariants that are judged while a cluster runs."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A violation found in a running cluster."""

    id: str
    """Id of the invariant."""
    title: str
    text: str
    record: Record
    """The record that shows the violation."""
    step: str
    """The last step of the scenario before it, with its time; empty if there was none."""

    def __str__(self) -> str:
        after = f", after {self.step}" if self.step else ""
        return f"{self.id} at {self.record.time_s:.3f} s: {self.text}{after}"


class LiveChecker:
    """Judges a growing history.

    Args:
        history: the history; other threads append to it.
        found: called once with each violation, in the judging thread.
        now: returns the seconds since the history began; the time of its newest record unless given.
        settle_s: time in seconds for which a violation must last before it is reported.
        silence_s: maximum further wait in seconds for later records of a running node.
        share: upper bound of the share of time that checks take, from 0 to 1.
    """

    def __init__(
        self,
        history: History,
        found: Callable[[Sighting], None] = lambda _sighting: None,
        *,
        now: Callable[[], float] | None = None,
        settle_s: float = SETTLE_S,
        silence_s: float = SILENCE_S,
        share: float = _SHARE,
    ) -> None:
        self._history = history
        self._found = found
        self._now = now
        self._settle_s = settle_s
        self._silence_s = silence_s
        self._share = share
        self._reported: set[tuple[int, str]] = set()
        self._judging = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._settled = 0
        """Number of records at the final check; no further violations can be found in these."""
        self.sightings: list[Sighting] = []
        """All violations found so far."""
        self.judged = 0
        """Number of records that were judged last."""

    # ---- one check

    def look(self, complete_until_s: float | None = None) -> list[Sighting]:
        """Check the records so far, and return the new violations.

        Args:
            complete_until_s: time in seconds up to which the records of all nodes have arrived; unless given, it
                is concluded from the records.
        """
        with self._judging:
            if len(self._history) == self._settled:
                return []
            records = in_order(self._history.records[:])
            self.judged = len(records)
            if not records:
                return []
            ripe_s = self._ripe_s(records)
            if complete_until_s is not None and self._history.is_whole:
                ripe_s = max(ripe_s, complete_until_s)
            seen = [
                one
                for one in _violations(records)
                if one.record.time_s <= ripe_s and self._key(one) not in self._reported
            ]
            self._reported.update(self._key(one) for one in seen)
            new = list({self._key(one): one for one in seen}.values())
            self.sightings += new
            if ripe_s >= records[-1].time_s:
                self._settled = len(records)
        for one in new:
            self._found(one)
        return new

    def _ripe_s(self, records: Sequence[Record]) -> float:
        """Return the time up to which violations have lasted long enough; none have while a node is frozen."""
        frozen = frozen_times(records)
        thawed_s = frozen[-1][1] if frozen else float("-inf")
        newest_s = records[-1].time_s
        if not self._history.is_whole:  # records that excuse violations at its end may be missing
            return newest_s - self._settle_s
        now_s = max(newest_s, self._now() if self._now is not None else 0.0)
        if now_s - self._settle_s < thawed_s:
            return float("-inf")
        ripe_s = now_s - self._settle_s
        return max(min(ripe_s, _complete_until_s(records)), ripe_s - self._silence_s)

    @staticmethod
    def _key(sighting: Sighting) -> tuple[int, str]:
        return id(sighting.record), sighting.text  # records live as long as their history

    # ---- checks in the background

    def start(self) -> None:
        """Check repeatedly in a thread, until :meth:`stop`."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="live checks", daemon=True)
        self._thread.start()

    def stop(self, complete_until_s: float | None = None) -> list[Sighting]:
        """Stop the thread, check for the last time, and return all violations found.

        Args:
            complete_until_s: as for :meth:`look`.

        Raises:
            RuntimeError: a check itself failed.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
            self._thread = None
        if self._error is not None:
            raise RuntimeError(f"live checks ended early: {self._error!r}") from self._error
        self.look(complete_until_s)
        return self.sightings

    def _run(self) -> None:
        pause_s = _LEAST_PAUSE_S
        while not self._ended.wait(pause_s):
            began_s = time.monotonic()
            try:
                self.look()
            except BaseException as error:  # noqa: BLE001 - stop() raises it again
                self._error = error
                return
            pause_s = max(_LEAST_PAUSE_S, (time.monotonic() - began_s) * (1 / self._share - 1))


def frozen_times(records: Iterable[Record]) -> list[tuple[float, float]]:
    """Return begin and end of the periods in which a node was frozen; the end is infinity if one still is."""
    frozen: set[str] = set()
    found: list[tuple[float, float]] = []
    began_s = 0.0
    for record in records:
        if record.kind != "process":
            continue
        if record["action"] == "freeze":
            began_s = began_s if frozen else record.time_s
            frozen.add(record.node)
        elif record.node in frozen:
            frozen.discard(record.node)
            if not frozen:
                found.append((began_s, record.time_s))
    return [*found, (began_s, float("inf"))] if frozen else found


def _complete_until_s(records: Iterable[Record]) -> float:
    """Return the time up to which every running node has written records; infinity if none runs."""
    newest: dict[str, float] = {}
    for record in records:
        if record.kind == "process" and record["action"] in {"kill", "stop"}:
            newest.pop(record.node, None)
        elif record.node not in {SCENARIO, NETWORK}:
            newest[record.node] = record.time_s
    return min(newest.values(), default=float("inf"))


def _violations(records: Sequence[Record]) -> list[Sighting]:
    """Return the violations that an unfinished history shows, without duplicates."""
    history = History(record for record in records if record.kind != "end")
    index = Index(history)
    steps = [(place, record) for place, record in index.by_kind.get("step", ()) if record.node == SCENARIO]
    found: dict[tuple[int, str], Sighting] = {}
    for invariant in LIVE:
        for violation in invariant.over(index).violations:
            record = history[violation.record]
            step = next((step for place, step in reversed(steps) if place < violation.record), None)
            last_step = f"{step['verb']} {step['args']}".strip() + f" at {step.time_s:.3f} s" if step else ""
            sighting = Sighting(invariant.id, invariant.title, violation.text, record, last_step)
            found.setdefault((violation.record, violation.text), sighting)
    return list(found.values())


def check_so_far(
    history: History,
    ends: Mapping[str, dict[str, Any]] | None = None,
    complete_until_s: float | None = None,
    only: Iterable[str] | None = None,
) -> list[CheckResult]:
    """Check a history that may still grow. Positions in the results are those in order of time.

    Args:
        history: the history; it may grow meanwhile.
        ends: the fields of each node's ``end`` record, if the cluster is at rest; without them, or if the history
            is not whole, invariants that must hold only at rest are not judged.
        complete_until_s: time in seconds up to which the records of all nodes have arrived, such as that at which
            the cluster came to rest: violations by later records, save ``end`` records, are not reported. All are
            unless given.
        only: ids or names of the invariants; all unless given.

    Raises:
        LocalError: there is no such invariant.
    """
    asked = select(only)
    records = [record for record in in_order(history.records[:]) if record.kind != "end"]
    newest_s = max((record.time_s for record in records), default=0.0)
    if ends and history.is_whole:
        at_s = max(complete_until_s or 0.0, newest_s)
        records += [Record(at_s, node, "end", fields) for node, fields in ends.items()]
    index = Index(History(records))
    whole = index.at_rest
    results = [judged_so_far(invariant, index, whole=whole) for invariant in asked]
    if not history.is_whole:  # a record that excuses a violation may have been written after recording stopped
        complete_until_s = newest_s - SETTLE_S
    if complete_until_s is None:
        return results
    unripe = {
        place for place, record in enumerate(records) if record.time_s > complete_until_s and record.kind != "end"
    }
    return [_without(result, lambda violation: violation.record in unripe) for result in results]


def check_standing(
    history: History,
    only: Iterable[str] | None = None,
    settle_s: float = SETTLE_S,
    wait: Callable[[float], None] = time.sleep,
) -> list[CheckResult]:
    """Check a running cluster; return only violations that still exist ``settle_s`` later.

    Args:
        history: the history; it grows meanwhile.
        only: as for :func:`check_so_far`.
        settle_s: time in seconds in which all nodes can write further records.
        wait: waits for that time; not called if there is no violation.

    Raises:
        LocalError: there is no such invariant.
    """
    asked = [invariant.id for invariant in select(only)]
    first = check_so_far(history, only=asked)
    stood = {(result.id, violation.text) for result in first for violation in result.violations}
    if not stood:
        return first
    wait(settle_s)
    return [_only_those(stood, result) for result in check_so_far(history, only=asked)]


def _only_those(stood: set[tuple[str, str]], result: CheckResult) -> CheckResult:
    return _without(result, lambda violation: (result.id, violation.text) not in stood)


def _without(result: CheckResult, is_excused: Callable[[Violation], bool]) -> CheckResult:
    violations = [violation for violation in result.violations if not is_excused(violation)]
    return replace(result, ok=result.ok or not violations, violations=violations)


def judged_so_far(invariant: Invariant, index: Index, *, whole: bool = False) -> CheckResult:
    """Check one invariant; one about the end of a run is judged only if the history is ``whole``."""
    if not whole and invariant.id in _OF_WHOLE_RUNS:
        note = "the cluster is not at rest, so this was not judged"
        name, group = invariant.name, invariant.group
        return CheckResult(invariant.id, invariant.title, True, [], note, name, group, judged=False)
    return invariant.over(index)
