"""The result of checking a history against an invariant."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import KINDS

_CIRCUMSTANCES = {"cut", "path", "mangle", "leak", "clock", "step", "process", "end", "exception"}
"""Kinds of records about faults and steps of the runner, and about nodes and processes."""
_CONDUCT = KINDS.keys() - _CIRCUMSTANCES
"""Kinds of records that a messenger writes."""


class Outcome(StrEnum):
    """The outcome of checking a history against an invariant."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of an invariant."""

    record: int
    """Position in the history of the record that shows the violation."""
    text: str
    """Node, session, message and reason, in one line."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking one history against one invariant."""

    id: str
    title: str
    ok: bool
    violations: list[Violation]
    note: str = ""
    """The part that could not be judged, and why; empty if everything was judged."""
    name: str = ""
    """Name of the invariant, such as ``event_grammar``."""
    group: str = ""
    """ordering, session, security or resources."""
    judged: bool = True
    """False if nothing in the history could be judged; ``note`` holds the reason."""

    @property
    def outcome(self) -> Outcome:
        """Outcome.VIOLATED, HOLDS or NOT_JUDGED, from ``ok`` and ``judged``."""
        if not self.ok:
            return Outcome.VIOLATED
        return Outcome.HOLDS if self.judged else Outcome.NOT_JUDGED


def tally(results: Iterable[CheckResult]) -> dict[Outcome, int]:
    """Count results by outcome, in the order of :class:`Outcome`.

    >>> tally([CheckResult("INV-1", "", ok=True, violations=[])])[Outcome.HOLDS]
    1
    """
    found = Counter(result.outcome for result in results)
    return {outcome: found[outcome] for outcome in Outcome}


def words(results: Iterable[CheckResult]) -> str:
    """Return the tally of results in words, without zeros: ``29 hold, 1 violated, 7 not judged``."""
    names = {Outcome.HOLDS: "hold"}
    return ", ".join(
        f"{count} {names.get(outcome, outcome)}" for outcome, count in tally(results).items() if count
    )


class Findings:
    """Collects the violations and notes of one check."""

    __slots__ = ("notes", "skipped", "violations")

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.notes: list[str] = []
        self.skipped = False
        """True if nothing was judged."""

    def add(self, record: int, text: str) -> None:
        """Add a violation that the record at position ``record`` shows."""
        self.violations.append(Violation(record, text))

    def note(self, text: str) -> None:
        """Note something that could not be judged; equal notes are kept once."""
        if text not in self.notes:
            self.notes.append(text)

    def skip(self, text: str) -> None:
        """Record the reason why the check could judge nothing."""
        self.note(text)
        self.skipped = True


Judge = Callable[[Index, Findings], None]
"""One rule of an invariant: adds its violations and notes to the findings."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named rule over histories. Calling it with a history checks the history."""

    id: str
    """``INV-1`` to ``INV-12``; the name if the invariant has no number."""
    name: str
    title: str
    group: str
    """ordering, session, security or resources."""
    judges: tuple[Judge, ...] = field(repr=False)
    """Its rules. A rule that several invariants share runs once per history."""
    needs: tuple[str, ...] = ()
    """Kinds of records; a history that has none of them is not judged."""

    def __call__(self, history: History) -> CheckResult:
        """Check a history."""
        return self.over(Index(history))

    def over(self, index: Index) -> CheckResult:
        """Check a history that has been indexed."""
        violations: list[Violation] = []
        notes: dict[str, None] = {}
        skipped = True
        for judge in self.judges:
            findings = _judged(index, judge)
            skipped = skipped and findings.skipped
            violations += findings.violations
            notes.update(dict.fromkeys(findings.notes))
        violations.sort(key=_place)
        if not index.has_any(_CONDUCT):
            notes["the history has no record of a messenger"] = None
            skipped = True
        elif self.needs and not index.has_any(self.needs):
            notes[f"nothing to judge by: no {' or '.join(self.needs)} records"] = None
            skipped = True
        note = "; ".join(notes)
        return CheckResult(
            self.id, self.title, not violations, violations, note, self.name, self.group, not skipped
        )


def _place(violation: Violation) -> int:
    return violation.record


def _judged(index: Index, judge: Judge) -> Findings:
    findings = index.judged.get(judge)
    if findings is None:
        findings = index.judged[judge] = Findings()
        judge(index, findings)
    assert isinstance(findings, Findings)
    return findings
