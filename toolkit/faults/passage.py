"""What becomes of bytes that came to a tap: what is delivered, in what steps, and what ends the link.

A tap has neither clock nor sockets; when bytes are to wait it returns a :class:`Gate`, and the mover of the bytes
(the proxy, the simulated wire) keeps what comes behind it until the gate is open.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.faults.tap import Breakpoint

SLOW_STEP_S = 0.02
"""What passes slowly passes in portions of that long."""


class Gate:
    """Keeps what is behind it until it is opened, by whom ever, or until its time is over.

    Args:
        for_s: how long it stays shut at most; None: until it is opened.
    """

    __slots__ = ("_lock", "_waiting", "for_s", "is_open")

    def __init__(self, for_s: float | None = None) -> None:
        self.for_s = for_s
        self.is_open = False
        self._lock = Lock()
        self._waiting: list[Callable[[], None]] = []

    def open(self) -> None:
        """Let pass what waits; a second time changes nothing. May be called in any thread."""
        with self._lock:
            self.is_open = True
            waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def when_open(self, callback: Callable[[], None]) -> None:
        """Have something called when it is opened, in the thread that does; now if it is open."""
        with self._lock:
            if not self.is_open:
                self._waiting.append(callback)
                return
        callback()


@dataclass(frozen=True, slots=True)
class Aside:
    """Bytes that are delivered when a gate is open, while others go on."""

    raw: bytes
    gate: Gate


Step = bytes | Gate | Aside
"""Bytes are delivered, in one piece; what follows a gate waits for it."""


@dataclass(slots=True)
class Passage:
    """What becomes of fed bytes: these get through, and then perhaps the link is cut."""

    forward: bytes
    cut: "Breakpoint | None" = None
    back: bytes = b""
    """To be handed to their sender."""
    pieces: list[bytes] | None = None
    """``forward`` as it is to be delivered; None: as the stream likes."""
    steps: list[Step] | None = None
    """Instead of both, where something is to wait."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast bytes are delivered, and in what pieces."""

    bytes_per_s: float | None = None
    size_bytes: int | None = None

    def steps(self, raw: bytes) -> list[Step]:
        """These bytes, at that pace."""
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
    """Collects what passes, with the waits in between."""

    def __init__(self) -> None:
        self._loose = bytearray()
        self._passed = bytearray()
        self._steps: list[Step] = []
        self._timed = False

    def add(self, raw: bytes, pace: Pace | None = None) -> None:
        """These bytes are next."""
        self._passed += raw
        if pace is None:
            self._loose += raw
        else:
            self._settle()
            self._steps += pace.steps(raw)

    def wait(self, gate: Gate) -> None:
        """What is added from here on waits."""
        self._settle()
        self._steps.append(gate)

    def aside(self, raw: bytes, gate: Gate) -> None:
        """Forward bytes once the gate opens, without delaying others."""
        self._settle()
        self._steps.append(Aside(raw, gate))

    @property
    def forward(self) -> bytes:
        """All of it that stays in order."""
        return bytes(self._passed)

    @property
    def steps(self) -> list[Step] | None:
        """All of it with its waits; None if there are none."""
        if not self._timed:
            return None
        self._settle()
        return self._steps

    def _settle(self) -> None:
        self._timed = True
        if self._loose:
            self._steps.append(bytes(self._loose))
            self._loose.clear()
