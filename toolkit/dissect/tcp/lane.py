"""One direction of a TCP connection: puts bytes in order, whatever the order of segments (RFC 9293).

Positions are sequence numbers that do not wrap around.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass
from operator import attrgetter

_SPACE = 1 << 32
_MASK = _SPACE - 1
_HALF = _SPACE >> 1

FARTHEST_AHEAD_BYTES = 1 << 30
"""The largest window of TCP: bytes farther ahead do not belong to this stream."""
FARTHEST_BEHIND_BYTES = 1 << 26
"""Larger than any window in use: bytes farther behind are no retransmission."""
STRANGERS = 8
"""Number of consecutive segments too far away that prove a gap of unknown size in the capture."""
MOST_WAITING_BYTES = 1 << 22
"""Limit of the bytes of one direction that wait after a hole; then the hole is skipped."""
PIECE_COST_BYTES = 256
"""Memory that a piece takes besides its bytes."""

_start_of = attrgetter("start")


@dataclass(slots=True)
class Piece:
    """Consecutive bytes."""

    start: int
    stop: int
    data: memoryview | None
    """None if they are missing."""
    time_ns: int
    """Time of its packet; for missing bytes, of the packet at which they were skipped."""
    packet: int
    after: int = 0
    """Position in the other direction that its sender had acknowledged: the bytes before it come first."""
    held: bool = False
    """True if it waited for those bytes: it counts as brought by the packet that ended the wait, if later."""


@dataclass(slots=True)
class Proof:
    """The receiver acknowledged bytes that the capture lacks, at least so far."""

    up_to: int
    count: int
    """Number of packets that the connection had then."""
    time_ns: int


class TcpLane:
    """One direction. Methods that return pieces return the next ones, in order and without a hole between them."""

    __slots__ = (
        "acknowledged",
        "ended",
        "fin",
        "first",
        "guessed",
        "next",
        "other",
        "proof",
        "strangers",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self) -> None:
        self.first = -1
        """Sequence number of the first byte; -1 while it is unknown."""
        self.guessed = False
        """True if it is what the other side acknowledged; the first captured byte may be another."""
        self.other = self
        """The other direction."""
        self.next = 0
        """Position of the next byte."""
        self.acknowledged = 0
        self.proof: Proof | None = None
        self.waiting: list[Piece] = []
        self.waiting_bytes = 0
        self.strangers = 0
        self.fin: int | None = None
        self.ended = False

    @property
    def steady(self) -> bool:
        """True if the lane only needs its next bytes in order."""
        return (
            self.first >= 0
            and not self.waiting
            and self.proof is None
            and not self.strangers
            and self.fin is None
            and not self.ended
        )

    def begin(self, sequence: int, *, guessed: bool = False) -> None:
        """Set the sequence number of the first byte."""
        self.guessed = guessed
        self.first = self.next = self.acknowledged = sequence & _MASK

    def position(self, sequence: int) -> int:
        """Return the position of a sequence number: the one nearest to the next byte."""
        return self.next + ((sequence - self.next + _HALF) & _MASK) - _HALF

    def segment(
        self, start: int, size: int, data: memoryview, time_ns: int, packet: int, after: int | None = None
    ) -> list[Piece]:
        """Process the bytes of a segment.

        Args:
            start: position of the first byte.
            size: number of bytes.
            data: the captured ones.
            time_ns: time of the packet.
            packet: number of the packet.
            after: wait for the bytes of the other direction before this position; None: do not wait.
        """
        if after is None:
            after = self.other.next
        ahead = start - self.next
        if ahead > FARTHEST_AHEAD_BYTES or ahead < -FARTHEST_BEHIND_BYTES:
            return self._stranger(start, size, data, time_ns, packet)  # does not wait for the other direction
        self.strangers = 0
        stop = start + size
        if stop <= self.next:
            return []
        if ahead < 0:
            data = data[-ahead:]
            start = self.next
        if start == self.next and not self.waiting and len(data) == stop - start and after <= self.other.next:
            self.next = stop
            if self.proof is not None and self.proof.up_to <= stop:
                self.proof = None
            return [Piece(start, stop, data, time_ns, packet)]
        self._keep(start, stop, data, time_ns, packet, after)
        return self.go_on(time_ns, packet)

    def _stranger(self, start: int, size: int, data: memoryview, time_ns: int, packet: int) -> list[Piece]:
        self.strangers += 1
        if self.strangers < STRANGERS:
            return []
        self.strangers = 0
        pieces = self.give_up(self.last, time_ns, packet)
        pieces.append(self._skip((start - self.next) % _SPACE, time_ns, packet))
        return pieces + self.segment(self.next, size, data, time_ns, packet)

    # ---- bytes that wait

    @property
    def last(self) -> int:
        """Position after the last known byte."""
        return self.waiting[-1].stop if self.waiting else self.next

    def _keep(self, start: int, stop: int, data: memoryview, time_ns: int, packet: int, after: int) -> None:
        """Keep bytes that are not waiting already; of duplicates, the first ones win."""
        cut = start + len(data)
        is_early = after > self.other.next
        for begin, end in self._uncovered(start, stop):
            if begin < cut:
                kept = memoryview(bytes(data[begin - start : min(end, cut) - start]))
                self._insert(Piece(begin, min(end, cut), kept, time_ns, packet, after, is_early))
            if end > cut:
                self._insert(Piece(max(begin, cut), end, None, time_ns, packet, after, is_early))

    def _uncovered(self, start: int, stop: int) -> list[tuple[int, int]]:
        if start >= self.last:
            return [(start, stop)]
        gaps = []
        index = max(bisect_right(self.waiting, start, key=_start_of) - 1, 0)
        while index < len(self.waiting) and start < stop:
            piece = self.waiting[index]
            if piece.start > start:
                gaps.append((start, min(piece.start, stop)))
            start = max(start, piece.stop)
            index += 1
        if start < stop:
            gaps.append((start, stop))
        return gaps

    def _insert(self, piece: Piece) -> None:
        self.waiting_bytes += _cost(piece)
        insort(self.waiting, piece, key=_start_of)

    def go_on(self, time_ns: int, packet: int, *, forced: int = -1, reached: int | None = None) -> list[Piece]:
        """Return the pieces that no longer have to wait.

        Args:
            time_ns: time of the packet that ends the wait.
            packet: number of that packet.
            forced: pieces that begin before this position do not wait for the other direction.
            reached: position up to which the other direction was emitted; all that is in order unless given.
        """
        if reached is None:
            reached = self.other.next
        done: list[Piece] = []
        for piece in self.waiting:
            late = piece.after > reached
            if piece.start != self.next:
                break
            if late and piece.start >= forced:
                piece.held = True
                break
            self.next = piece.stop
            self.waiting_bytes -= _cost(piece)
            if (piece.data is None or piece.held) and packet > piece.packet:
                piece.time_ns, piece.packet = time_ns, packet
            done.append(piece)
        del self.waiting[: len(done)]
        if self.proof is not None and self.proof.up_to <= self.next:
            self.proof = None
        return done

    # ---- missing bytes

    def acknowledge(self, sequence: int, count: int, time_ns: int) -> None:
        """Process an acknowledgement of everything before ``sequence``.

        Args:
            sequence: acknowledged sequence number.
            count: number of packets of the connection so far.
            time_ns: time of the packet.
        """
        position = self.position(sequence)
        if self.fin is not None:
            position = min(position, self.fin)
        self.acknowledged = max(self.acknowledged, position)
        if self.proof is None and self.next < position <= self.next + FARTHEST_AHEAD_BYTES:
            self.proof = Proof(position, count, time_ns)

    def give_up(self, up_to: int, time_ns: int, packet: int) -> list[Piece]:
        """Skip the missing bytes before ``up_to``."""
        pieces = []
        while self.next < up_to:
            hole = (min(self.waiting[0].start, up_to) if self.waiting else up_to) - self.next
            if hole:
                pieces.append(self._skip(hole, time_ns, packet))
            pieces += self.go_on(time_ns, packet, forced=up_to)
        return pieces

    def give_up_first_hole(self, time_ns: int, packet: int) -> list[Piece]:
        """Skip the first hole, or stop waiting for the other direction."""
        first = self.waiting[0]
        return self.give_up(first.start if first.start > self.next else first.stop, time_ns, packet)

    def give_up_all(self, time_ns: int, packet: int) -> list[Piece]:
        """Skip all holes, because no more bytes come."""
        pieces = self.give_up(self.last, time_ns, packet)
        if self.proof is not None:
            pieces += self.give_up(min(self.acknowledged, self.next + FARTHEST_AHEAD_BYTES), time_ns, packet)
        if self.fin is not None:
            pieces += self.give_up(self.fin, time_ns, packet)
        return pieces

    def _skip(self, size: int, time_ns: int, packet: int) -> Piece:
        self.guessed = False
        self.next += size
        return Piece(self.next - size, self.next, None, time_ns, packet)


def _cost(piece: Piece) -> int:
    return PIECE_COST_BYTES + (0 if piece.data is None else len(piece.data))
