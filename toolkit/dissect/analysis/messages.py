"""What became of the messages that one party of a session sent, over all links of the session."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Transmission:
    """One time a message was put on a link, or one frame that acknowledged it."""

    stream: int
    frame: int
    time_ns: int


@dataclass(slots=True, eq=False)
class Sent:
    """One message, by its seq."""

    seq: int
    name: str
    tid: int
    size_bytes: int
    transmissions: list[Transmission] = field(default_factory=list)
    """Every time it was sent; more than one after a reconnect."""

    @property
    def resent(self) -> bool:
        """It went over more than one link."""
        return len(self.transmissions) > 1


class Outbox:
    """What one party sent in a session, and how far the other acknowledged it."""

    def __init__(self) -> None:
        self.messages: dict[int, Sent] = {}
        """By seq."""
        self._acked: list[int] = []
        self._acks: list[Transmission] = []

    def sent(self, seq: int, name: str, tid: int, size_bytes: int, where: Transmission) -> None:
        """A message passed."""
        message = self.messages.get(seq)
        if message is None:
            message = self.messages[seq] = Sent(seq, name, tid, size_bytes)
        message.transmissions.append(where)

    def acked(self, seq: int, where: Transmission) -> None:
        """The other party has acknowledged everything up to ``seq``."""
        if seq and (not self._acked or seq > self._acked[-1]):
            self._acked.append(seq)
            self._acks.append(where)

    @property
    def acked_seq(self) -> int:
        """The highest seq that was acknowledged; 0 if none was."""
        return self._acked[-1] if self._acked else 0

    def ack_of(self, seq: int) -> Transmission | None:
        """The first frame that acknowledged a message."""
        place = bisect_left(self._acked, seq)
        return self._acks[place] if place < len(self._acks) else None

    @property
    def resent(self) -> list[int]:
        """The seqs that were sent more than once."""
        return sorted(seq for seq, message in self.messages.items() if message.resent)

    @property
    def gaps(self) -> list[range]:
        """The seqs between those seen that the capture does not have, in ascending order."""
        return [range(low + 1, high) for low, high in pairwise(sorted(self.messages)) if high - low > 1]

    @property
    def missing(self) -> int:
        """Number of seqs in :attr:`gaps`."""
        return sum(gap.stop - gap.start for gap in self.gaps)

    @property
    def unacked(self) -> list[int]:
        """The seqs that were sent and, as far as the capture goes, never acknowledged.

        None count where nothing ever was: lossy sessions of v1 do without (docs/protocol.md §3.7).
        """
        return sorted(seq for seq in self.messages if seq > self.acked_seq) if self._acked else []
