"""The fate of the messages that one party of a session sent, over all links of the session."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from toolkit.dissect.analysis.rows import RowStore, signed, unsigned

if TYPE_CHECKING:
    from toolkit.dissect.analysis.rows import Column

_SENT_NUMBERS, _ACK_NUMBERS, _PLACE_NUMBERS = 7, 5, 3


@dataclass(frozen=True, slots=True)
class Transmission:
    """One transmission of a message, or one frame that acknowledged it."""

    stream: int
    frame: int
    time_ns: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Its three numbers without sign, for a row of numbers: a capture may begin before 1970."""
        return self.stream, self.frame, unsigned(self.time_ns)

    @classmethod
    def of(cls, stream: int, frame: int, time: int) -> Self:
        """Return the transmission with these :attr:`numbers`."""
        return cls(stream, frame, signed(time))


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

    Args:
        store: holds the rows of both.
    """

    __slots__ = ("_acks", "_sent", "_store", "acked_seq")

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._sent = store.table(_SENT_NUMBERS)
        """For each transmission: seq, place of the message's name, tid, size in bytes, and the transmission."""
        self._acks = store.table(_ACK_NUMBERS)
        """For each acknowledgement of further messages: seq, 1 if it is prompt, else 0, and the transmission."""
        self.acked_seq = 0
        """The highest acknowledged seq; 0 if none was."""

    def sent(self, seq: int, name: str, tid: int, size_bytes: int, where: Transmission) -> None:
        """Add a transmission of a message."""
        self._sent.add((seq, self._store.place(name), tid, size_bytes, *where.numbers))

    def acked(self, seq: int, where: Transmission, *, prompt: bool) -> None:
        """Add an acknowledgement of every message up to ``seq``.

        Args:
            seq: the acknowledged seq.
            where: the frame that acknowledges.
            prompt: True for a frame that is sent to acknowledge; False for a message, whose ack_seq says what had
                been received at some time before.
        """
        if seq > self.acked_seq:
            self._acks.add((seq, prompt, *where.numbers))
            self.acked_seq = seq

    @property
    def messages(self) -> dict[int, Sent]:
        """The messages by seq, in the order of their first transmissions. Made anew at each use."""
        return self._messages()

    def message(self, seq: int) -> Sent | None:
        """Return one message; None if the capture does not have it."""
        return self._messages(seq).get(seq)

    def kinds(self) -> Counter[str]:
        """Return the number of messages of each type, by its name."""
        _, first = np.unique(self._sent.column(0), return_index=True)
        places, counts = np.unique(self._sent.column(1)[first], return_counts=True)
        names = (self._store.names[place] for place in places)
        return Counter(dict(zip(names, counts.tolist(), strict=True)))

    def _messages(self, only: int | None = None) -> dict[int, Sent]:
        found: dict[int, Sent] = {}
        names = self._store.names
        for seq, name, tid, size_bytes, *place in self._sent:
            if only is not None and seq != only:
                continue
            message = found.get(seq)
            if message is None:
                message = found[seq] = Sent(seq, names[name], tid, size_bytes)
            message.transmissions.append(Transmission.of(*place))
        return found

    def ack_of(self, seq: int) -> Transmission | None:
        """Return the first frame that acknowledged a message; None if none did."""
        row = self._acks.at_least(seq)
        return Transmission.of(*row[2:]) if row else None

    def receipt_of(self, seq: int) -> Transmission | None:
        """Return the frame that shows when a message was received; None if a message acknowledged it first."""
        row = self._acks.at_least(seq)
        return Transmission.of(*row[2:]) if row and row[1] else None

    def _seqs(self) -> "Column":
        """Return the seqs of all transmissions, ascending."""
        seqs = self._sent.column(0)
        seqs.sort()
        return seqs

    @property
    def count(self) -> int:
        """Number of messages, however often they were sent."""
        seqs = self._seqs()
        return int(np.count_nonzero(seqs[1:] != seqs[:-1])) + 1 if len(seqs) else 0

    @property
    def resent(self) -> list[int]:
        """The seqs that were sent more than once."""
        seqs = self._seqs()
        return [int(seq) for seq in np.unique(seqs[1:][seqs[1:] == seqs[:-1]])]

    @property
    def resent_frames(self) -> list[int]:
        """The number of the last frame of each message that was sent more than once, ascending."""
        resent = set(self.resent)
        frames = {row[0]: Transmission.of(*row[-_PLACE_NUMBERS:]).frame for row in self._sent if row[0] in resent}
        return sorted(frames.values())

    @property
    def gaps(self) -> list[range]:
        """Ranges of seqs that the capture lacks between those seen, ascending."""
        seqs = self._seqs()
        before = np.flatnonzero(seqs[1:] - seqs[:-1] > 1)
        return [range(int(seqs[place]) + 1, int(seqs[place + 1])) for place in before]

    @property
    def missing(self) -> int:
        """Number of seqs in :attr:`gaps`."""
        return sum(gap.stop - gap.start for gap in self.gaps)

    @property
    def unacked(self) -> list[int]:
        """The seqs that were sent and never acknowledged as far as the capture shows.

        Empty if nothing was ever acknowledged: lossy sessions of v1 do not acknowledge (docs/protocol.md §3.7).
        """
        if not self.acked_seq:
            return []
        seqs = self._seqs()
        return [int(seq) for seq in np.unique(seqs[seqs > np.uint64(self.acked_seq)])]


@dataclass(slots=True, eq=False)
class Party:
    """One side of a session."""

    address: str
    """The address that it announces, which identifies it whichever side opens the next link."""
    name: str
    """Name as in Ceph's logs; the address if the capture does not show the name."""
    outbox: Outbox
    """The messages that it sent."""
