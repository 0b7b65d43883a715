"""Judges a long history in parts, so that only one part is in memory at a time."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from toolkit.checks.audit.compared import Compared
from toolkit.checks.audit.rule import Broken, Rule
from toolkit.checks.audit.table import Audit, audit, wire_rules
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import INVARIANTS
from toolkit.checks.result import CheckResult, Violation

_SMALL = 1 << 14
"""Records of a part that need not leave memory at once."""
T = TypeVar("T", Violation, Broken)


def check_parts(parts: Iterable[History]) -> list[CheckResult]:
    """Check every part against every invariant, and join the results of each invariant.

    The result on a single part is that of :func:`toolkit.checks.invariants.check`. Violations of several parts
    come in order of time. Their positions count the records of all parts, one part after the other.

    Args:
        parts: the parts, which are not kept. A session is in one of them, or in several that follow each other and
            begin with what is :func:`.carried` over.
    """
    results: dict[str, list[CheckResult]] = {name: [] for name in INVARIANTS}
    found: dict[str, _Found[Violation]] = {name: _Found() for name in INVARIANTS}

    compared = Compared()

    def judge(part: History) -> None:
        index = Index(part)
        audit(index, compared)
        for name, invariant in INVARIANTS.items():
            result = invariant.over(index)
            found[name].add(part, result.violations)
            results[name].append(replace(result, violations=[]))

    _each(parts, judge)
    _, broken = compared.judge()
    between = [(time_s, Violation(each.record, str(each))) for time_s, each in broken]
    found[wire_rules.__name__].add_compared(between)
    return [_joined(results[name], found[name].all()) for name in INVARIANTS if results[name]]


def audit_parts(parts: Iterable[History]) -> Audit:
    """Judge every part by every wire rule, and join the verdicts as :func:`check_parts` does."""
    counts: Counter[Rule] = Counter()
    found: _Found[Broken] = _Found()
    compared = Compared()

    def judge(part: History) -> None:
        one = audit(Index(part), compared)
        counts.update(one.counts)
        found.add(part, one.broken)

    _each(parts, judge)
    more, broken = compared.judge()
    counts.update(more)
    found.add_compared(broken)
    return Audit(counts, found.all())


class _Found(Generic[T]):
    """What the parts violate."""

    def __init__(self) -> None:
        self._found: list[tuple[float, T]] = []
        """With the times of the records that show it."""
        self._parts = 0
        self._records = 0
        self._known: set[str] = set()
        """What earlier parts of the same session violate."""

    def add(self, part: History, violations: Iterable[T]) -> None:
        """Add the violations of the next part."""
        judged = part.judged
        if not judged.start:
            self._known.clear()
        for each in violations:
            if each.record in judged or (each.record < judged.start and each.text not in self._known):
                place = self._records + max(0, each.record - judged.start)
                self._found.append((part[each.record].time_s, replace(each, record=place)))
                if judged.stop < len(part):
                    self._known.add(each.text)
        self._parts += 1
        self._records += len(judged)

    def add_compared(self, found: Iterable[tuple[float, T]]) -> None:
        """Add violations that sessions of all parts show, with their times and positions over all parts."""
        self._found += found

    def all(self) -> list[T]:
        """Return all violations, those of several parts in order of time."""
        in_time = self._parts > 1
        self._found.sort(key=lambda timed: (timed[0] if in_time else 0.0, timed[1].record))
        return [each for _, each in self._found]


def _each(parts: Iterable[History], judge: Callable[[History], None]) -> None:
    """Judge each part, and remove it from memory before the next one is made."""
    remaining = iter(parts)
    part = next(remaining, None)
    while part is not None:
        judge(part)
        is_small, part = len(part) < _SMALL, None
        if not is_small:
            gc.collect()  # an index refers to itself, so it does not leave memory by itself
        part = next(remaining, None)


def _joined(results: Sequence[CheckResult], violations: list[Violation]) -> CheckResult:
    """Join the results of one invariant. The reasons of parts that were not judged count if none was."""
    judged = [result for result in results if result.judged]
    notes = dict.fromkeys(result.note for result in judged or results if result.note)
    return replace(
        results[0], ok=not violations, violations=violations, note="; ".join(notes), judged=bool(judged)
    )
