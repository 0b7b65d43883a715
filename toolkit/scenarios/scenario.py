"""What a scenario is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from messenger.link import Protocol
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
    v1_cuts: tuple[str, ...] = ()
    """The same places by the names of msgr v1."""
    backends: tuple[str, ...] = BACKENDS
    modes: tuple[str, ...] = MODES

    def cuts_on(self, protocol: Protocol) -> tuple[str, ...]:
        """Where it cuts unless told otherwise, when that protocol is spoken."""
        return self.v1_cuts if protocol is Protocol.V1 else self.default_cuts
