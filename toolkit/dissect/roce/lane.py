"""One direction of a queue pair: puts SENDs in the order of their packet sequence numbers.

Positions are sequence numbers that do not wrap around.
"""

from dataclasses import dataclass

from toolkit.dissect.roce.headers import ENDS, FULL, PSN_MASK, STARTS, Opcode

_SPACE = PSN_MASK + 1
_HALF = _SPACE >> 1
FARTHEST_PACKETS = 1 << 16
"""A packet farther from the next one belongs to another queue pair with the same number."""
MOST_WAITING_BYTES = 1 << 22
"""Limit of the bytes of one direction that wait after a hole; then the hole is skipped."""
_PACKET_COST_BYTES = 256
_USUAL_MTU_BYTES = 1024
"""Path MTU of Ceph's queue pairs (docs/protocol.md §8)."""


@dataclass(slots=True)
class Sent:
    """A packet of a SEND."""

    opcode: Opcode
    data: memoryview
    """The captured part of the payload."""
    size_bytes: int
    """Size of the payload on the wire."""
    time_ns: int
    packet: int
    after: int = -1
    """Position of the last packet in the other direction that its sender had acknowledged."""
    held: bool = False
    """True if it waited for that packet: it counts as brought by the one that ended the wait."""


@dataclass(slots=True)
class Hole:
    """Packets that the capture lacks."""

    count: int
    size_bytes: int
    """Size of their payloads; an upper bound unless ``exact``."""
    exact: bool


class PsnLane:
    """One direction of a queue pair."""

    def __init__(self) -> None:
        self.next: int | None = None
        """Position of the next packet; None before the first."""
        self.acknowledged = -1
        """Last position that the receiver acknowledged."""
        self.proof: tuple[int, int] | None = None
        """Number of packets of the link, and time, when the receiver acknowledged packets that the capture
        lacks, at least so far."""
        self.waiting: dict[int, Sent] = {}
        self.waiting_bytes = 0
        self.ended = False
        self.inside = False
        """True if more packets of the current SEND follow the last one."""
        self.mtu_bytes = 0
        """Payload size of full packets; 0 before the first."""

    def position(self, psn: int) -> int:
        """Return the position of a sequence number: the one nearest to the next packet."""
        if self.next is None:
            return psn
        return self.next + ((psn - self.next + _HALF) & PSN_MASK) - _HALF

    def begin(self, psn: int) -> None:
        """Set the sequence number of the first packet."""
        self.next = psn
        self.acknowledged = psn - 1

    def has(self, position: int) -> bool:
        """True if the packet at a position has come already."""
        assert self.next is not None
        return position < self.next or position in self.waiting

    def keep(self, position: int, sent: Sent) -> None:
        """Add a packet at any position."""
        self.waiting[position] = sent
        self.waiting_bytes += _PACKET_COST_BYTES + len(sent.data)

    def take(self) -> Sent:
        """Remove and return the packet at the next position, which must be there."""
        assert self.next is not None
        sent = self.waiting.pop(self.next)
        self.waiting_bytes -= _PACKET_COST_BYTES + len(sent.data)
        self.next += 1
        self.inside = sent.opcode in FULL
        if self.inside:
            self.mtu_bytes = sent.size_bytes
        return sent

    def acknowledge(self, position: int, count: int, time_ns: int) -> None:
        """Process an acknowledgement of every packet up to a position.

        Args:
            position: last acknowledged position.
            count: number of packets of the link so far.
            time_ns: time of the acknowledging packet.
        """
        assert self.next is not None
        if self.acknowledged < position < self.next + FARTHEST_PACKETS:
            self.acknowledged = position
            if self.proof is None and position >= self.next:
                self.proof = count, time_ns

    def skip(self, *, final: bool) -> Hole | None:
        """Skip the packets that are missing next.

        Args:
            final: True if no packet comes any more that could fill the hole.

        Returns:
            The missing packets; None if none is missing.
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
        """Estimate the size of a hole. It is exact for one packet inside a SEND that continues after it."""
        inside = behind is not None and behind.opcode not in STARTS
        mtu_bytes = self.mtu_bytes
        if not mtu_bytes and behind is not None and behind.opcode in FULL:
            mtu_bytes = behind.size_bytes
        exact = count == 1 and inside and mtu_bytes > 0
        return Hole(count, count * (mtu_bytes or _USUAL_MTU_BYTES), exact)


def is_end(sent: Sent) -> bool:
    """True for an empty SEND, which ends a stream."""
    return not sent.size_bytes and sent.opcode in STARTS & ENDS
