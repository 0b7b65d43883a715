"""A rule about what is on the wire, and the book of what came of judging it."""

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.checks.wires import LinkLog


class Side(StrEnum):
    """Whose frames a rule is about."""

    DIALLER = "dialler"
    ACCEPTOR = "acceptor"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule of docs/protocol.md."""

    id: str
    section: str
    """Of docs/protocol.md, as in ``4.9``; two are separated by a blank."""
    side: Side
    text: str
    """The rule, in one line."""
    needs: str = "no frame of it has passed"
    """Why it was not judged where nothing was."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A frame that breaks a rule."""

    rule: Rule
    record: int
    """Place in the history of the record that shows it."""
    link: str
    """As the history names it; ``NODE/STREAM`` of a capture."""
    text: str
    """What is wrong, in one line."""
    frame: int | None = None
    """Number of the frame in its capture; None in the history of a run."""

    def __str__(self) -> str:
        return f"{self.link}: {self.text} ({self.rule.id})"


@dataclass(slots=True)
class Book:
    """How often each rule was judged, and what broke it."""

    counts: dict[Rule, int] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    def judge(self, rule: Rule, link: LinkLog, position: int, *, holds: bool, text: str, values: object) -> None:
        """Note a frame judged by a rule.

        Args:
            rule: by which.
            link: of the frame.
            position: of its record.
            holds: whether the frame keeps the rule.
            text: what is wrong if it does not, in the form of ``str.format``.
            values: for ``text``, one or a tuple.
        """
        self.counts[rule] = self.counts.get(rule, 0) + 1
        if not holds:
            sentence = text.format(*values) if isinstance(values, tuple) else text.format(values)
            self.broken.append(Broken(rule, position, link.key.link, sentence))
