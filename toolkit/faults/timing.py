"""Changes of when frames arrive, and of nothing else."""

from dataclasses import dataclass, field

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.dissect.follow import SeenFrame
from toolkit.faults.mangle import Altered, Change
from toolkit.faults.passage import Gate, Pace


class Timing(Change):
    """A change that leaves every byte as it is: histories have it as something of the path."""


def is_timing(change: Change) -> bool:
    """True if bytes and their order stay as they are."""
    return isinstance(change, Timing) and not getattr(change, "alone", False)


@dataclass(slots=True)
class Hold(Timing):
    """Keep it, and all that follows in its direction, until it is released.

    Args:
        name: what it is released by.
        for_s: or after so long.
        alone: what follows passes.
    """

    name: str
    for_s: float | None = None
    alone: bool = False
    _gates: list[Gate] = field(default_factory=list, init=False, repr=False, compare=False)

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return _behind(self.gate(), frame, alone=self.alone)

    @property
    def what(self) -> str:
        """Held alone, it changes places with others."""
        return "swap" if self.alone else "hold"

    def gate(self) -> Gate:
        """A gate that is opened by the release."""
        self._gates = [gate for gate in self._gates if not gate.is_open]
        gate = Gate(self.for_s)
        self._gates.append(gate)
        return gate

    def release(self) -> int:
        """Release what is held; returns the number of frames released."""
        held = [gate for gate in self._gates if not gate.is_open]
        for gate in held:
            gate.open()
        return len(held)

    def __str__(self) -> str:
        until = "" if self.for_s is None else f" or for {self.for_s:g} s"
        return f"until {self.name} is released{until}{', it alone' if self.alone else ''}"


@dataclass(slots=True)
class Delay(Timing):
    """Let it, and all that follows in its direction, arrive later; ``alone``: what follows overtakes it."""

    seconds: float
    alone: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return _behind(Gate(self.seconds), frame, alone=self.alone)

    @property
    def what(self) -> str:
        """Delayed alone, it changes places with others."""
        return "swap" if self.alone else "delay"

    def __str__(self) -> str:
        return f"by {self.seconds:g} s{', it alone' if self.alone else ''}"


@dataclass(slots=True)
class Slow(Timing):
    """Deliver it at that rate; ``rest``: and all that follows in its direction."""

    what = "slow"
    bytes_per_s: float
    rest: bool = False

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise LocalError(f"slow {self.bytes_per_s:g} B/s: a rate is more than nothing")

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, pace=Pace(bytes_per_s=self.bytes_per_s), lasting=self.rest)

    def __str__(self) -> str:
        return f"to {self.bytes_per_s:g} B/s{', and all that follows' if self.rest else ''}"


@dataclass(slots=True)
class Pieces(Timing):
    """Deliver it in pieces of that many bytes; ``rest``: and all that follows in its direction."""

    what = "trickle"
    size_bytes: int = 1
    rest: bool = False

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise LocalError(f"trickle {self.size_bytes}: a piece has at least one byte")

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, pace=Pace(size_bytes=self.size_bytes), lasting=self.rest)

    def __str__(self) -> str:
        return f"in pieces of {self.size_bytes} bytes{', and all that follows' if self.rest else ''}"


@dataclass(slots=True)
class Log(Timing):
    """Only report that it passes."""

    what = "log"
    text: str = ""

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw)

    def __str__(self) -> str:
        return self.text


def _behind(gate: Gate, frame: SeenFrame, *, alone: bool) -> Altered:
    return Altered(b"", aside=((frame.raw, gate),)) if alone else Altered(frame.raw, gates=(gate,))
