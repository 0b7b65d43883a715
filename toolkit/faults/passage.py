"""Bytes that a tap lets through: what is delivered, in which steps, and whether the link is cut.

A tap has neither clock nor sockets. Where bytes have to wait it returns a :class:`Gate`; its caller (the proxy,
the simulated wire) keeps all that follows until the gate opens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.faults.tap import Breakpoint

SLOW_STEP_S = 0.02
"""Seconds between the portions of a rate-limited delivery."""


class Gate:
    """Delays bytes until it is opened, or until its time is over.

    Args:
        for_s: most seconds that it stays shut; None until it is opened.
    """

    __slots__ = ("_lock", "_waiting", "for_s", "is_open")

    def __init__(self, for_s: float | None = None) -> None:
        self.for_s = for_s
        self.is_open = False
        self._lock = Lock()
        self._waiting: list[Callable[[], None]] = []

    def open(self) -> None:
        """Open the gate; further calls have no effect. May be called from any thread."""
        with self._lock:
            self.is_open = True
            waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def when_open(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the gate opens, in the thread that opens it; at once if it is open."""
        with self._lock:
            if not self.is_open:
                self._waiting.append(callback)
                return
        callback()


@dataclass(frozen=True, slots=True)
class Aside:
    """Bytes that are delivered when a gate opens, while the following ones pass."""

    raw: bytes
    gate: Gate


Step = bytes | Gate | Aside
"""Bytes are delivered in one write; what follows a gate waits until it opens."""


@dataclass(slots=True)
class Passage:
    """What the tap makes of the bytes it was fed: bytes to deliver, and possibly a cut after them."""

    forward: bytes
    cut: "Breakpoint | None" = None
    back: bytes = b""
    """Bytes for their sender."""
    pieces: list[bytes] | None = None
    """``forward`` split into the writes to make; None if their sizes do not matter."""
    steps: list[Step] | None = None
    """Replaces ``forward`` and ``pieces`` if something has to wait; None otherwise."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate and piece size of a delivery; None for no limit."""

    bytes_per_s: float | None = None
    size_bytes: int | None = None

    def steps(self, raw: bytes) -> list[Step]:
        """Return the steps that deliver these bytes at this pace."""
        size_bytes = self.size_bytes or len(raw) or 1
        if self.bytes_per_s is not None and self.size_bytes is None:
            size_bytes = max(1, int(self.bytes_per_s * SLOW_STEP_S))
        steps: list[Step] = []
        for at in range(0, len(raw), size_bytes):
            steps.append(raw[at : at + size_bytes])
            if self.bytes_per_s is not None:
                steps.append(Gate(len(raw[at : at + size_bytes]) / self.bytes_per_s))
        return steps


class Delivery:
    """Collects the bytes and waits of a passage."""

    def __init__(self) -> None:
        self._loose = bytearray()
        self._passed = bytearray()
        self._steps: list[Step] = []
        self._timed = False

    def add(self, raw: bytes, pace: Pace | None = None) -> None:
        """Append bytes."""
        self._passed += raw
        if pace is None:
            self._loose += raw
        else:
            self._settle()
            self._steps += pace.steps(raw)

    def wait(self, gate: Gate) -> None:
        """Append a gate: bytes added later wait for it."""
        self._settle()
        self._steps.append(gate)

    def aside(self, raw: bytes, gate: Gate) -> None:
        """Append bytes that are delivered when the gate opens, without delaying others."""
        self._settle()
        self._steps.append(Aside(raw, gate))

    @property
    def forward(self) -> bytes:
        """All bytes that are delivered in order."""
        return bytes(self._passed)

    @property
    def steps(self) -> list[Step] | None:
        """All bytes and gates; None if there are no gates."""
        if not self._timed:
            return None
        self._settle()
        return self._steps

    def _settle(self) -> None:
        self._timed = True
        if self._loose:
            self._steps.append(bytes(self._loose))
            self._loose.clear()
