"""Actions of the proxy on connection attempts, before any frame."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.dissect.follow import SeenFrame
from toolkit.faults.mangle import Change, Mangle
from toolkit.faults.passage import Gate
from toolkit.faults.strike import ALL, Strike
from toolkit.faults.timing import Delay, Hold

DIAL = "dial"
"""Stands in the place of a frame's tag."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse the connection with RST."""

    what = "refuse"

    def __str__(self) -> str:
        return ""


@dataclass(slots=True)
class AtDial(Strike):
    """Strikes at connection attempts, not at frames; ``sender`` is the connector."""

    tag: str = DIAL
    action: Refuse | Hold | Delay = field(default_factory=Refuse, kw_only=True)
    _dials: int = field(default=0, init=False, repr=False, compare=False)

    def matches(self, sender: str, frame: SeenFrame) -> bool:  # noqa: ARG002 - no frame is a dial
        """Return False: frames are not matched."""
        return False

    def dialled(self, connector: str) -> bool:
        """Count a connection attempt; returns True if this strike applies to it."""
        if self.sender not in {"", connector}:
            return False
        self._dials += 1
        if self._dials not in (self.passes or ALL):
            return False
        self.number, self.hits = self._dials, self.hits + 1
        return True

    @property
    def spent(self) -> bool:
        """True, so that frames are not parsed for it."""
        return True

    @property
    def change(self) -> Change | Refuse:
        """The action, under the name that :class:`Mangle` uses."""
        return self.action

    def __str__(self) -> str:
        return f"{self.action.what} dial #{self.number}{f' of {self.sender}' if self.sender else ''}"


@dataclass(frozen=True, slots=True)
class Dialled:
    """Decision about a connection attempt."""

    refused: bool
    gates: tuple[Gate, ...]
    """Gates that have to open before the attempt goes on."""
    by: tuple[AtDial, ...]


def dialled(strikes: Iterable[Strike], connector: str) -> Dialled:
    """Decide about a connection attempt."""
    by = tuple(strike for strike in strikes if isinstance(strike, AtDial) and strike.dialled(connector))
    gates = []
    for strike in by:
        if isinstance(strike.action, Hold):
            gates.append(strike.action.gate())
        elif isinstance(strike.action, Delay):
            gates.append(Gate(strike.action.seconds))
    return Dialled(any(isinstance(strike.action, Refuse) for strike in by), tuple(gates), by)


def forget(strikes: list[Strike], removed: Iterable[Strike]) -> None:
    """Remove strikes from a list and release what they hold."""
    for strike in removed:
        if isinstance(strike, AtDial | Mangle) and isinstance(strike.change, Hold):
            strike.change.release()
        strikes[:] = [other for other in strikes if other is not strike]


def release(strikes: Iterable[Strike], name: str) -> int:
    """Release everything held under ``name``; returns the number of frames and connection attempts released."""
    holds = [strike.change for strike in strikes if isinstance(strike, AtDial | Mangle)]
    return sum(hold.release() for hold in holds if isinstance(hold, Hold) and hold.name == name)
