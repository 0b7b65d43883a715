"""A rule about frames on the wire, and the result of judging frames by it."""

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.checks.wires import LinkLog


class Side(StrEnum):
    """The side whose frames a rule judges."""

    DIALLER = "dialler"
    ACCEPTOR = "acceptor"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule of docs/protocol.md."""

    id: str
    section: str
    """Section of docs/protocol.md, such as ``4.9``; several are separated by blanks."""
    side: Side
    text: str
    """The rule, in one line."""
    needs: str = "no frame of it has passed"
    """Reason why the rule was not judged, if it judged no frame."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A frame that breaks a rule."""

    rule: Rule
    record: int
    """Position in the history of the record that shows it."""
    link: str
    """Name of the link in the history; ``NODE/STREAM`` in a capture."""
    text: str
    """The violation, in one line."""
    frame: int | None = None
    """Number of the frame in its capture; None in the history of a run."""

    def __str__(self) -> str:
        return f"{self.link}: {self.text} ({self.rule.id})"


@dataclass(slots=True)
class Book:
    """Counts how often each rule was judged, and collects the frames that broke one."""

    judged: range
    """Positions of the records that are judged; other parts of the history judge the others."""
    counts: dict[Rule, int] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    def judge(self, rule: Rule, link: LinkLog, position: int, *, holds: bool, text: str, values: object) -> None:
        """Count a frame as judged by a rule, and record it unless the rule holds.

        Args:
            rule: the rule.
            link: the link of the frame.
            position: position of the frame's record.
            holds: True if the frame keeps the rule.
            text: the violation if the frame breaks the rule, a format for ``str.format``.
            values: value for ``text``, or a tuple of values.
        """
        if position not in self.judged:
            return
        self.counts[rule] = self.counts.get(rule, 0) + 1
        if not holds:
            sentence = text.format(*values) if isinstance(values, tuple) else text.format(values)
            self.broken.append(Broken(rule, position, link.key.link, sentence))
