"""The fate of the messages that one party of a session sent, over all links of the session."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Transmission:
    """One transmission of a message, or one frame that acknowledged it."""

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
    """All its transmissions; more than one after a reconnect."""

    @property
    def resent(self) -> bool:
        """True if it was sent on more than one link."""
        return len(self.transmissions) > 1


class Outbox:
    """The messages that one party sent in a session, and the peer's acknowledgements."""

    __slots__ = ("_acked", "_acks", "_prompt", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, Sent] = {}
        """The messages by seq."""
        self._acked: list[int] = []
        self._acks: list[Transmission] = []
        self._prompt: list[bool] = []

    def sent(self, seq: int, name: str, tid: int, size_bytes: int, where: Transmission) -> None:
        """Add a transmission of a message."""
        message = self.messages.get(seq)
        if message is None:
            message = self.messages[seq] = Sent(seq, name, tid, size_bytes)
        message.transmissions.append(where)

    def acked(self, seq: int, where: Transmission, *, prompt: bool) -> None:
        """Add an acknowledgement of every message up to ``seq``.

        Args:
            seq: the acknowledged seq.
            where: the frame that acknowledges.
            prompt: True for a frame that is sent to acknowledge; False for a message, whose ack_seq says what had
                been received at some time before.
        """
        if seq and (not self._acked or seq > self._acked[-1]):
            self._acked.append(seq)
            self._acks.append(where)
            self._prompt.append(prompt)

    @property
    def acked_seq(self) -> int:
        """The highest acknowledged seq; 0 if none was."""
        return self._acked[-1] if self._acked else 0

    def ack_of(self, seq: int) -> Transmission | None:
        """Return the first frame that acknowledged a message; None if none did."""
        place = bisect_left(self._acked, seq)
        return self._acks[place] if place < len(self._acks) else None

    def receipt_of(self, seq: int) -> Transmission | None:
        """Return the frame that shows when a message was received; None if a message acknowledged it first."""
        place = bisect_left(self._acked, seq)
        return self._acks[place] if place < len(self._acks) and self._prompt[place] else None

    @property
    def resent(self) -> list[int]:
        """The seqs that were sent more than once."""
        return sorted(seq for seq, message in self.messages.items() if message.resent)

    @property
    def gaps(self) -> list[range]:
        """Ranges of seqs that the capture lacks between those seen, ascending."""
        return [range(low + 1, high) for low, high in pairwise(sorted(self.messages)) if high - low > 1]

    @property
    def missing(self) -> int:
        """Number of seqs in :attr:`gaps`."""
        return sum(gap.stop - gap.start for gap in self.gaps)

    @property
    def unacked(self) -> list[int]:
        """The seqs that were sent and never acknowledged as far as the capture shows.

        Empty if nothing was ever acknowledged: lossy sessions of v1 do not acknowledge (docs/protocol.md §3.7).
        """
        return sorted(seq for seq in self.messages if seq > self.acked_seq) if self._acked else []


@dataclass(slots=True, eq=False)
class Party:
    """One side of a session."""

    address: str
    """The address that it announces, which identifies it whichever side opens the next link."""
    name: str
    """Name as in Ceph's logs; the address if the capture does not show the name."""
    outbox: Outbox = field(default_factory=Outbox)
    """The messages that it sent."""
