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


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named rule over histories. Calling it judges one."""

    id: str
    """``INV-1`` and so on."""
    title: str
    judge: Callable[[Index, Findings], None] = field(repr=False)

    def __call__(self, history: History) -> CheckResult:
        """Judge a history."""
        return self.over(Index(history))

    def over(self, index: Index) -> CheckResult:
        """Judge a history that has been indexed."""
        findings = Findings()
        self.judge(index, findings)
        violations = sorted(findings.violations, key=lambda violation: violation.record)
        return CheckResult(self.id, self.title, not violations, violations, "; ".join(findings.notes))
