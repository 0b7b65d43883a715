"""What an invariant says about a history."""

from collections.abc import Callable
from dataclasses import dataclass, field

from toolkit.checks.history import History
from toolkit.checks.index import Index


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


class Findings:
    """Collects what one check finds."""

    __slots__ = ("notes", "violations")

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.notes: list[str] = []

    def add(self, record: int, text: str) -> None:
        """Something that must not happen, shown by the record at that place."""
        self.violations.append(Violation(record, text))

    def note(self, text: str) -> None:
        """Something that could not be judged."""
        if text not in self.notes:
            self.notes.append(text)


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
        for judge in self.judges:
            findings = _judged(index, judge)
            violations += findings.violations
            notes.update(dict.fromkeys(findings.notes))
        violations.sort(key=_place)
        if self.needs and not index.has_any(self.needs) and index.history.records:
            notes[f"nothing to judge by: no {' or '.join(self.needs)} records"] = None
        return CheckResult(
            self.id, self.title, not violations, violations, "; ".join(notes), self.name, self.group
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
