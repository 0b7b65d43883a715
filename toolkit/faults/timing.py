"""Changes of the time at which frames are delivered, not of their bytes."""

from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.dissect.follow import SeenFrame
from toolkit.faults.mangle import Altered, Change
from toolkit.faults.passage import Gate, Pace

MOST_ASIDE_BYTES = 64 << 20
"""Most memory for frames that one rule holds aside while later frames pass."""
ASIDE_FRAME_BYTES = 4 << 10
"""Memory for a frame that is held aside, in addition to its bytes."""


class Timing(Change):
    """A change that leaves all bytes as they are; histories record it as a fault of the path."""


def is_timing(change: Change) -> bool:
    """True if the change keeps all bytes and their order."""
    return isinstance(change, Timing) and not getattr(change, "alone", False)


class _Shelf:
    """Frames that one rule holds aside, each behind a gate of its own."""

    def __init__(self) -> None:
        self._held_bytes = self._frames = 0
        self._lock = Lock()

    def put(self, frame: SeenFrame, gate: Gate) -> Altered:
        """Hold a frame aside until a gate opens.

        Raises:
            LocalError: too much is held aside already.
        """
        size_bytes = len(frame.raw) + ASIDE_FRAME_BYTES
        with self._lock:
            if self._held_bytes + size_bytes > MOST_ASIDE_BYTES:
                most = f"{MOST_ASIDE_BYTES >> 20} MiB"
                raise LocalError(f"{self._frames} frames are held aside, and a rule holds at most {most}")
            self._held_bytes += size_bytes
            self._frames += 1
        gate.when_open(partial(self._take, size_bytes))
        return Altered(b"", aside=((frame.raw, gate),))

    def _take(self, size_bytes: int) -> None:
        with self._lock:
            self._held_bytes -= size_bytes
            self._frames -= 1


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
    _gates: dict[int, Gate] = field(default_factory=dict, init=False, repr=False, compare=False)
    _shelf: _Shelf = field(default_factory=_Shelf, init=False, repr=False, compare=False)

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        gate = Gate(self.for_s)
        altered = self._shelf.put(frame, gate) if self.alone else Altered(frame.raw, gates=(gate,))
        self._keep(gate)
        return altered

    @property
    def what(self) -> str:
        """``swap`` if it is held alone, because other frames overtake it; else ``hold``."""
        return "swap" if self.alone else "hold"

    def gate(self) -> Gate:
        """Return a gate that :meth:`release` opens."""
        gate = Gate(self.for_s)
        self._keep(gate)
        return gate

    def _keep(self, gate: Gate) -> None:
        self._gates[id(gate)] = gate
        gate.when_open(partial(self._forget, id(gate)))

    def _forget(self, gate: int) -> None:
        self._gates.pop(gate, None)

    def release(self) -> int:
        """Release what is held; returns the number of frames released."""
        held = list(self._gates.values())
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
    _shelf: _Shelf = field(default_factory=_Shelf, init=False, repr=False, compare=False)

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        gate = Gate(self.seconds)
        return self._shelf.put(frame, gate) if self.alone else Altered(frame.raw, gates=(gate,))

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
