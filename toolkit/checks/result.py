"""What an invariant says about a history."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import KINDS

_CIRCUMSTANCES = {"cut", "path", "mangle", "leak", "clock", "step", "process", "end", "exception"}
"""Kinds of records about what was done to nodes and processes."""
_CONDUCT = KINDS.keys() - _CIRCUMSTANCES
"""Kinds of records about what a messenger did."""


class Outcome(StrEnum):
    """What an invariant says about a history."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not happen."""

    record: int
    """Place in the history of the record that shows it."""
    text: str
    """Node, session, message and why, in one line."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One invariant over one history."""

    id: str
    title: str
    ok: bool
    violations: list[Violation]
    note: str = ""
    """What could not be judged, and why; empty if everything was."""
    name: str = ""
    """What the invariant is called."""
    group: str = ""
    """What it is about: ordering, session, security or resources."""
    judged: bool = True
    """False if nothing of the history could be judged; ``note`` has the reason."""

    @property
    def outcome(self) -> Outcome:
        """Whether the invariant holds, is violated, or could not be judged at all."""
        if not self.ok:
            return Outcome.VIOLATED
        return Outcome.HOLDS if self.judged else Outcome.NOT_JUDGED


def tally(results: Iterable[CheckResult]) -> dict[Outcome, int]:
    """How many results there are of each outcome, in the order of :class:`Outcome`.

    >>> tally([CheckResult("INV-1", "", ok=True, violations=[])])[Outcome.HOLDS]
    1
    """
    found = Counter(result.outcome for result in results)
    return {outcome: found[outcome] for outcome in Outcome}


def words(results: Iterable[CheckResult]) -> str:
    """The tally of results in words: ``29 hold, 1 violated, 7 not judged``, without those that are none."""
    names = {Outcome.HOLDS: "hold"}
    return ", ".join(
        f"{count} {names.get(outcome, outcome)}" for outcome, count in tally(results).items() if count
    )


class Findings:
    """Collects what one check finds."""

    __slots__ = ("notes", "skipped", "violations")

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.notes: list[str] = []
        self.skipped = False
        """True if nothing was judged."""

    def add(self, record: int, text: str) -> None:
        """Something that must not happen, shown by the record at that place."""
        self.violations.append(Violation(record, text))

    def note(self, text: str) -> None:
        """Something that could not be judged."""
        if text not in self.notes:
            self.notes.append(text)

    def skip(self, text: str) -> None:
        """Add the reason why nothing could be judged."""
        self.note(text)
        self.skipped = True


Judge = Callable[[Index, Findings], None]
"""Adds what it finds in a history."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named rule over histories. Calling it judges one."""

    id: str
    """``INV-1`` and so on, or for those without a number the name."""
    name: str
    title: str
    group: str
    """What it is about: ordering, session, security or resources."""
    judges: tuple[Judge, ...] = field(repr=False)
    """Its rules. One that several invariants have is asked once."""
    needs: tuple[str, ...] = ()
    """Kinds of records; without any of them there is nothing to judge by."""

    def __call__(self, history: History) -> CheckResult:
        """Judge a history."""
        return self.over(Index(history))

    def over(self, index: Index) -> CheckResult:
        """Judge a history that has been indexed."""
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
