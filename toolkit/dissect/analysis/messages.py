"""The fate of the messages that one party of a session sent, over all links of the session."""

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

_SENT_NUMBERS, _ACK_NUMBERS = 6, 5
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Transmission:
    """One transmission of a message, or one frame that acknowledged it."""

    stream: int
    frame: int
    time_ns: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Its three numbers without sign, for a row of numbers: a capture may begin before 1970."""
        return self.stream, self.frame, self.time_ns & _MASK

    @classmethod
    def of(cls, stream: int, frame: int, time: int) -> Self:
        """Return the transmission with these :attr:`numbers`."""
        return cls(stream, frame, time - (_MASK + 1) if time > _MASK >> 1 else time)


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
    """The messages that one party sent in a session, and the peer's acknowledgements.

    Both are rows of numbers, because a capture may have millions of them.
    """

    __slots__ = ("_acks", "_names", "_sent")

    def __init__(self) -> None:
        self._names: list[str] = []
        """Names of the messages, one for each transmission."""
        self._sent = array("Q")
        """For each transmission: seq, tid, size in bytes, and its place."""
        self._acks = array("Q")
        """For each acknowledgement of further messages: seq, 1 if it is prompt, else 0, and its place."""

    def sent(self, seq: int, name: str, tid: int, size_bytes: int, where: Transmission) -> None:
        """Add a transmission of a message."""
        self._names.append(name)
        self._sent.extend((seq, tid, size_bytes, *where.numbers))

    def acked(self, seq: int, where: Transmission, *, prompt: bool) -> None:
        """Add an acknowledgement of every message up to ``seq``.

        Args:
            seq: the acknowledged seq.
            where: the frame that acknowledges.
            prompt: True for a frame that is sent to acknowledge; False for a message, whose ack_seq says what had
                been received at some time before.
        """
        if seq > self.acked_seq:
            self._acks.extend((seq, prompt, *where.numbers))

    @property
    def messages(self) -> dict[int, Sent]:
        """The messages by seq, in the order of their first transmissions. Made anew at each use."""
        found: dict[int, Sent] = {}
        numbers = iter(self._sent)
        rows = zip(*[numbers] * _SENT_NUMBERS, strict=True)
        for name, (seq, tid, size_bytes, *place) in zip(self._names, rows, strict=True):
            message = found.get(seq)
            if message is None:
                message = found[seq] = Sent(seq, name, tid, size_bytes)
            message.transmissions.append(Transmission.of(*place))
        return found

    @property
    def seqs(self) -> dict[int, int]:
        """The number of transmissions of each message, by its seq, in the order of the first ones."""
        return Counter(self._sent[::_SENT_NUMBERS])

    @property
    def acked_seq(self) -> int:
        """The highest acknowledged seq; 0 if none was."""
        return self._acks[-_ACK_NUMBERS] if self._acks else 0

    def ack_of(self, seq: int) -> Transmission | None:
        """Return the first frame that acknowledged a message; None if none did."""
        row = self._ack_row(seq)
        return Transmission.of(*row[2:]) if row else None

    def receipt_of(self, seq: int) -> Transmission | None:
        """Return the frame that shows when a message was received; None if a message acknowledged it first."""
        row = self._ack_row(seq)
        return Transmission.of(*row[2:]) if row and row[1] else None

    def _ack_row(self, seq: int) -> "array[int]":
        """Return the row of the first acknowledgement of a message; empty if there is none."""
        acks = self._acks
        rows = range(0, len(acks), _ACK_NUMBERS)
        place = bisect_left(rows, seq, key=acks.__getitem__)
        return acks[rows[place] : rows[place] + _ACK_NUMBERS] if place < len(rows) else acks[:0]

    @property
    def resent(self) -> list[int]:
        """The seqs that were sent more than once."""
        return sorted(seq for seq, count in self.seqs.items() if count > 1)

    @property
    def gaps(self) -> list[range]:
        """Ranges of seqs that the capture lacks between those seen, ascending."""
        return [range(low + 1, high) for low, high in pairwise(sorted(self.seqs)) if high - low > 1]

    @property
    def missing(self) -> int:
        """Number of seqs in :attr:`gaps`."""
        return sum(gap.stop - gap.start for gap in self.gaps)

    @property
    def unacked(self) -> list[int]:
        """The seqs that were sent and never acknowledged as far as the capture shows.

        Empty if nothing was ever acknowledged: lossy sessions of v1 do not acknowledge (docs/protocol.md §3.7).
        """
        return sorted(seq for seq in self.seqs if seq > self.acked_seq) if self._acks else []


@dataclass(slots=True, eq=False)
class Party:
    """One side of a session."""

    address: str
    """The address that it announces, which identifies it whichever side opens the next link."""
    name: str
    """Name as in Ceph's logs; the address if the capture does not show the name."""
    outbox: Outbox = field(default_factory=Outbox)
    """The messages that it sent."""
