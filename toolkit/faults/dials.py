"""Actions of the proxy on dials, before there is a frame."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.dissect.follow import SeenFrame
from toolkit.faults.mangle import Change, Mangle
from toolkit.faults.passage import Gate
from toolkit.faults.strike import ALL, Strike
from toolkit.faults.timing import Delay, Hold

DIAL = "dial"
"""In the place of a frame's tag."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the dial by a reset."""

    what = "refuse"

    def __str__(self) -> str:
        return ""


@dataclass(slots=True)
class AtDial(Strike):
    """Strikes at dials; ``sender`` is the connector. It does not look at frames."""

    tag: str = DIAL
    action: Refuse | Hold | Delay = field(default_factory=Refuse, kw_only=True)
    _dials: int = field(default=0, init=False, repr=False, compare=False)

    def matches(self, sender: str, frame: SeenFrame) -> bool:  # noqa: ARG002 - no frame is a dial
        """Never."""
        return False

    def dialled(self, connector: str) -> bool:
        """True if it strikes at this dial; counts the ones before it."""
        if self.sender not in {"", connector}:
            return False
        self._dials += 1
        if self._dials not in (self.passes or ALL):
            return False
        self.number, self.hits = self._dials, self.hits + 1
        return True

    @property
    def spent(self) -> bool:
        """Frames need not be looked at for its sake in any case."""
        return True

    @property
    def change(self) -> Change | Refuse:
        """What is done, as manglings have it."""
        return self.action

    def __str__(self) -> str:
        return f"{self.action.what} dial #{self.number}{f' of {self.sender}' if self.sender else ''}"


@dataclass(frozen=True, slots=True)
class Dialled:
    """What becomes of a dial."""

    refused: bool
    gates: tuple[Gate, ...]
    """It waits for these."""
    by: tuple[AtDial, ...]


def dialled(strikes: Iterable[Strike], connector: str) -> Dialled:
    """Decide about a dial."""
    by = tuple(strike for strike in strikes if isinstance(strike, AtDial) and strike.dialled(connector))
    gates = []
    for strike in by:
        if isinstance(strike.action, Hold):
            gates.append(strike.action.gate())
        elif isinstance(strike.action, Delay):
            gates.append(Gate(strike.action.seconds))
    return Dialled(any(isinstance(strike.action, Refuse) for strike in by), tuple(gates), by)


def forget(strikes: list[Strike], gone: Iterable[Strike]) -> None:
    """Remove strikes from a list, and release what they hold."""
    for strike in gone:
        if isinstance(strike, AtDial | Mangle) and isinstance(strike.change, Hold):
            strike.change.release()
        strikes[:] = [other for other in strikes if other is not strike]


def release(strikes: Iterable[Strike], name: str) -> int:
    """Release what is held under a name; returns the number of frames and dials released."""
    holds = [strike.change for strike in strikes if isinstance(strike, AtDial | Mangle)]
    return sum(hold.release() for hold in holds if isinstance(hold, Hold) and hold.name == name)
