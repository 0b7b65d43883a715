"""What a scenario is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.faults.tap import Breakpoint
from toolkit.scenarios.lab import Lab

BACKENDS = ("sim", "local")
MODES = ("crc", "secure")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script over the vocabulary of :class:`toolkit.scenarios.lab.Lab`, and what it shows."""

    id: str
    family: str
    title: str
    description: str
    script: Callable[[Lab, Sequence[Breakpoint]], None]
    """Takes the lab and where to cut."""
    default_cuts: tuple[str, ...] = ()
    """Where it cuts unless told otherwise, as Breakpoint.parse reads it; empty if the place is part of it."""
    backends: tuple[str, ...] = BACKENDS
    modes: tuple[str, ...] = MODES
