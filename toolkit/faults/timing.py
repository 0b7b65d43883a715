"""Changes of the time at which frames are delivered, not of their bytes."""

from dataclasses import dataclass, field

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.dissect.follow import SeenFrame
from toolkit.faults.mangle import Altered, Change
from toolkit.faults.passage import Gate, Pace


class Timing(Change):
    """A change that leaves all bytes as they are; histories record it as a fault of the path."""


def is_timing(change: Change) -> bool:
    """True if the change keeps all bytes and their order."""
    return isinstance(change, Timing) and not getattr(change, "alone", False)


@dataclass(slots=True)
class Hold(Timing):
    """Hold the frame, and all that follows in its direction, until it is released.

    Args:
        name: name to release it by.
        for_s: seconds after which it is released anyway; None for no limit.
        alone: True to deliver what follows.
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
        """``swap`` if it is held alone, because other frames overtake it; else ``hold``."""
        return "swap" if self.alone else "hold"

    def gate(self) -> Gate:
        """Return a gate that :meth:`release` opens."""
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
    """Delay the frame and all that follows in its direction; with ``alone`` later frames overtake it."""

    seconds: float
    alone: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return _behind(Gate(self.seconds), frame, alone=self.alone)

    @property
    def what(self) -> str:
        """``swap`` if it is delayed alone, because other frames overtake it; else ``delay``."""
        return "swap" if self.alone else "delay"

    def __str__(self) -> str:
        return f"by {self.seconds:g} s{', it alone' if self.alone else ''}"


@dataclass(slots=True)
class Slow(Timing):
    """Deliver the frame at a limited rate; with ``rest`` also all that follows in its direction."""

    what = "slow"
    bytes_per_s: float
    rest: bool = False

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise LocalError(f"slow {self.bytes_per_s:g} B/s: the rate must be above 0")

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw, pace=Pace(bytes_per_s=self.bytes_per_s), lasting=self.rest)

    def __str__(self) -> str:
        return f"to {self.bytes_per_s:g} B/s{', and all that follows' if self.rest else ''}"


@dataclass(slots=True)
class Pieces(Timing):
    """Deliver the frame in pieces of that size; with ``rest`` also all that follows in its direction."""

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
    """Record that the frame passes; change nothing."""

    what = "log"
    text: str = ""

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        return Altered(frame.raw)

    def __str__(self) -> str:
        return self.text


def _behind(gate: Gate, frame: SeenFrame, *, alone: bool) -> Altered:
    return Altered(b"", aside=((frame.raw, gate),)) if alone else Altered(frame.raw, gates=(gate,))
