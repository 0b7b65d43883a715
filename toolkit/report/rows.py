"""What a sequence chart shows, row by row, as values: the history without the pixels."""

from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """What became of a frame."""

    ARRIVED = "arrived"
    LOST = "lost"
    """Sent, and the other end, whose history we have, never got it."""
    UNKNOWN = "unknown"
    """Only one end has a history."""


@dataclass(slots=True)
class Arrow:
    """One frame, or several of a kind folded into one row."""

    time_s: float
    source: str
    target: str
    tag: str
    detail: str
    fate: Fate
    tip: str
    """The whole story, for a tooltip."""
    seqs: tuple[int, int] | None = None
    """The lowest and the highest seq of the messages or acks in this row."""
    count: int = 1
    """Frames in this row."""
    frame: int | None = None
    """Its number in the capture that the history was read from."""


@dataclass(slots=True)
class Chip:
    """A small label on a lifeline."""

    style: str
    """Names its look: a state in lower case, an event, fault, decision, mark_down, started or ended."""
    text: str
    note: str
    """What stands beside it."""
    tip: str
    session: int | None = None
    """Whose state it is, if it is one."""


@dataclass(slots=True)
class Marks:
    """What happened at one node at one moment."""

    time_s: float
    node: str
    chips: list[Chip] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What there is to say beside the chips."""
        return "; ".join(dict.fromkeys(chip.note for chip in self.chips if chip.note))


@dataclass(slots=True)
class Cut:
    """The links between two nodes were broken by the runner."""

    time_s: float
    a: str
    b: str
    text: str


@dataclass(slots=True)
class Steps:
    """Lines of the scenario's script."""

    time_s: float
    lines: list[str]


@dataclass(slots=True)
class Gap:
    """Rows left out: silence, or too much of everything."""

    time_s: float
    text: str


Row = Arrow | Marks | Cut | Steps | Gap
