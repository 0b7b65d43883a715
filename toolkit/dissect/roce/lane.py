"""One direction of a queue pair: SENDs in the order of their packet sequence numbers.

Positions are sequence numbers, counted on without wrapping around.
"""

from dataclasses import dataclass

from toolkit.dissect.roce.headers import ENDS, FULL, PSN_MASK, STARTS, Opcode

_SPACE = PSN_MASK + 1
_HALF = _SPACE >> 1
FARTHEST_PACKETS = 1 << 16
"""A packet farther from the next one is of another queue pair with the same number."""
MOST_WAITING_BYTES = 1 << 22
"""In one direction, behind a hole; then the hole is given up."""
_PACKET_COST_BYTES = 256
_USUAL_MTU_BYTES = 1024
"""Path MTU of Ceph's queue pairs (docs/protocol.md §8)."""


@dataclass(slots=True)
class Sent:
    """A packet of a SEND."""

    opcode: Opcode
    data: memoryview
    """As much of the payload as was captured."""
    size_bytes: int
    """Of the payload on the wire."""
    time_ns: int
    packet: int
    after: int = -1
    """Position of the last packet in the other direction that its sender had acknowledged."""
    held: bool = False
    """It waited for that packet: it counts as brought by the one that ended the waiting."""


@dataclass(slots=True)
class Hole:
    """Packets that the capture does not have."""

    count: int
    size_bytes: int
    """Of their payloads: what they held at most, unless ``exact``."""
    exact: bool


class PsnLane:
    """One direction."""

    def __init__(self) -> None:
        self.next: int | None = None
        """Position of the next packet; None before the first."""
        self.acknowledged = -1
        """Last position that the receiver has acknowledged."""
        self.proof: tuple[int, int] | None = None
        """Packets of the link, and time, when the receiver acknowledged what the capture does not have (yet)."""
        self.waiting: dict[int, Sent] = {}
        self.waiting_bytes = 0
        self.ended = False
        self.inside = False
        """The last packet began or went on with a SEND that others end."""
        self.mtu_bytes = 0
        """Length of full packets; 0 before the first."""

    def position(self, psn: int) -> int:
        """The position meant by a sequence number: the one nearest to the next packet."""
        if self.next is None:
            return psn
        return self.next + ((psn - self.next + _HALF) & PSN_MASK) - _HALF

    def begin(self, psn: int) -> None:
        """The first packet has this number."""
        self.next = psn
        self.acknowledged = psn - 1

    def has(self, position: int) -> bool:
        """True if the packet at a position is known already."""
        assert self.next is not None
        return position < self.next or position in self.waiting

    def keep(self, position: int, sent: Sent) -> None:
        """Take a packet in, wherever it is."""
        self.waiting[position] = sent
        self.waiting_bytes += _PACKET_COST_BYTES + len(sent.data)

    def take(self) -> Sent:
        """The packet at the next position, which is there."""
        assert self.next is not None
        sent = self.waiting.pop(self.next)
        self.waiting_bytes -= _PACKET_COST_BYTES + len(sent.data)
        self.next += 1
        self.inside = sent.opcode in FULL
        if self.inside:
            self.mtu_bytes = sent.size_bytes
        return sent

    def acknowledge(self, position: int, count: int, time_ns: int) -> None:
        """The receiver has every packet up to a position.

        Args:
            position: the last one.
            count: packets of the link so far.
            time_ns: of the packet that says so.
        """
        assert self.next is not None
        if self.acknowledged < position < self.next + FARTHEST_PACKETS:
            self.acknowledged = position
            if self.proof is None and position >= self.next:
                self.proof = count, time_ns

    def skip(self, *, final: bool) -> Hole | None:
        """Go on without the packets that are missing next.

        Args:
            final: nothing more comes that could fill the hole.

        Returns:
            What is missing; None if nothing is.
        """
        assert self.next is not None
        first = min(self.waiting, default=None)
        stop = first if first is not None else self.acknowledged + 1
        if not final:
            stop = min(stop, self.acknowledged + 1)
        count = stop - self.next
        if count <= 0:
            return None
        hole = self._hole(count, self.waiting.get(stop))
        self.next = stop
        behind = self.waiting.get(stop)
        self.inside = behind is not None and behind.opcode not in STARTS
        return hole

    def _hole(self, count: int, behind: Sent | None) -> Hole:
        """How much a hole held: known where it is one packet inside a SEND that goes on behind it."""
        inside = behind is not None and behind.opcode not in STARTS
        mtu_bytes = self.mtu_bytes
        if not mtu_bytes and behind is not None and behind.opcode in FULL:
            mtu_bytes = behind.size_bytes
        exact = count == 1 and inside and mtu_bytes > 0
        return Hole(count, count * (mtu_bytes or _USUAL_MTU_BYTES), exact)


def is_end(sent: Sent) -> bool:
    """True for an empty SEND, which is the end of a stream."""
    return not sent.size_bytes and sent.opcode in STARTS & ENDS
