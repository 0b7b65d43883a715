"""The rows of a sequence chart as values: the history without pixels."""

from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """The fate of a frame."""

    ARRIVED = "arrived"
    LOST = "lost"
    """Sent but never received, although the history of the receiver is known."""
    UNKNOWN = "unknown"
    """Only one end has a history."""


@dataclass(slots=True)
class Arrow:
    """One frame, or several similar ones folded into one row."""

    time_s: float
    source: str
    target: str
    tag: str
    detail: str
    fate: Fate
    tip: str
    """All details, for a tooltip."""
    seqs: tuple[int, int] | None = None
    """The lowest and the highest seq of the messages or acks in this row."""
    count: int = 1
    """Number of frames in this row."""
    frame: int | None = None
    """Its number in the capture that the history comes from; None for other histories."""


@dataclass(slots=True)
class Chip:
    """A small label on a lifeline."""

    style: str
    """Style of the chip: a state in lower case, an event, fault, decision, mark_down, started or ended."""
    text: str
    note: str
    """Text beside the chip."""
    tip: str
    session: int | None = None
    """Number of the session whose state it is; None otherwise."""


@dataclass(slots=True)
class Marks:
    """The events at one node at one moment."""

    time_s: float
    node: str
    chips: list[Chip] = field(default_factory=list)

    @property
    def note(self) -> str:
        """The texts beside the chips."""
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
    """Omitted rows: a silence, or too many rows."""

    time_s: float
    text: str


Row = Arrow | Marks | Cut | Steps | Gap
