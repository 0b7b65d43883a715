"""One direction of a TCP connection: bytes in order, whatever order the segments came in (RFC 9293).

Positions are those of the sequence numbers, counted on without wrapping around.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass
from operator import attrgetter

_SPACE = 1 << 32
_MASK = _SPACE - 1
_HALF = _SPACE >> 1

FARTHEST_AHEAD_BYTES = 1 << 30
"""The largest window there is: nothing farther ahead is of this stream as we know it."""
FARTHEST_BEHIND_BYTES = 1 << 26
"""Larger than any window in use: what is farther behind is no retransmission."""
STRANGERS = 8
"""So many segments in a row too far away mean a gap in the capture of unknown size."""
MOST_WAITING_BYTES = 1 << 22
"""In one direction, behind a hole; then the hole is given up."""
PIECE_COST_BYTES = 256
"""What keeping a piece costs beside its bytes."""

_start_of = attrgetter("start")


@dataclass(slots=True)
class Piece:
    """Consecutive bytes."""

    start: int
    stop: int
    data: memoryview | None
    """None if they are missing."""
    time_ns: int
    """Of their packet; of the one at which they were given up if they are missing."""
    packet: int
    after: int = 0
    """Position in the other direction that its sender had acknowledged: the bytes before it were there first."""
    held: bool = False
    """It waited for those: it counts as brought by the packet that ended the waiting."""


@dataclass(slots=True)
class Proof:
    """The receiver has acknowledged bytes that the capture does not have (yet)."""

    up_to: int
    count: int
    """How many packets the connection had then."""
    time_ns: int


class Lane:
    """One direction. Methods that give pieces give what comes next, in order, without a hole between them."""

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
        """Sequence number of the first byte; -1 if not known yet."""
        self.guessed = False
        """It is what the other side acknowledged; what comes first in the capture may be something else."""
        self.other = self
        """The other direction."""
        self.next = 0
        """Where the next byte has to begin."""
        self.acknowledged = 0
        self.proof: Proof | None = None
        self.waiting: list[Piece] = []
        self.waiting_bytes = 0
        self.strangers = 0
        self.fin: int | None = None
        self.ended = False

    @property
    def steady(self) -> bool:
        """The next bytes in order are all it takes to go on."""
        return (
            self.first >= 0
            and not self.waiting
            and self.proof is None
            and not self.strangers
            and self.fin is None
            and not self.ended
        )

    def begin(self, sequence: int, *, guessed: bool = False) -> None:
        """The first byte will be, or would have been, this one."""
        self.guessed = guessed
        self.first = self.next = self.acknowledged = sequence & _MASK

    def position(self, sequence: int) -> int:
        """The position that is meant by a sequence number: the one nearest to the next byte."""
        return self.next + ((sequence - self.next + _HALF) & _MASK) - _HALF

    def segment(
        self, start: int, size: int, data: memoryview, time_ns: int, packet: int, after: int | None = None
    ) -> list[Piece]:
        """Bytes of a segment.

        Args:
            start: position of the first.
            size: how many there were.
            data: those of them that were captured.
            time_ns: of the packet.
            packet: its number.
            after: wait for the bytes of the other direction before this position; None: for none.
        """
        if after is None:
            after = self.other.next
        ahead = start - self.next
        if ahead > FARTHEST_AHEAD_BYTES or ahead < -FARTHEST_BEHIND_BYTES:
            return self._stranger(start, size, data, time_ns, packet)  # which waits for nothing
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

    # ---- what waits

    @property
    def last(self) -> int:
        """Behind the last byte that is known of."""
        return self.waiting[-1].stop if self.waiting else self.next

    def _keep(self, start: int, stop: int, data: memoryview, time_ns: int, packet: int, after: int) -> None:
        """Keep what is not waiting already: of what comes twice, the first wins."""
        cut = start + len(data)
        for begin, end in self._uncovered(start, stop):
            if begin < cut:
                held = memoryview(bytes(data[begin - start : min(end, cut) - start]))
                self._insert(Piece(begin, min(end, cut), held, time_ns, packet, after))
            if end > cut:
                self._insert(Piece(max(begin, cut), end, None, time_ns, packet, after))

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

    def go_on(self, time_ns: int, packet: int, forced: int = -1) -> list[Piece]:
        """What does not have to wait any more.

        Args:
            time_ns: of the packet that ends the waiting.
            packet: its number.
            forced: pieces that begin before this position do not wait for the other direction.
        """
        done: list[Piece] = []
        for piece in self.waiting:
            late = piece.after > self.other.next
            if piece.start != self.next:
                break
            if late and piece.start >= forced:
                piece.held = True
                break
            self.next = piece.stop
            self.waiting_bytes -= _cost(piece)
            if piece.data is None or piece.held:
                piece.time_ns, piece.packet = time_ns, packet
            done.append(piece)
        del self.waiting[: len(done)]
        if self.proof is not None and self.proof.up_to <= self.next:
            self.proof = None
        return done

    # ---- what is missing

    def acknowledge(self, sequence: int, count: int, time_ns: int) -> None:
        """The receiver has everything before ``sequence``.

        Args:
            sequence: its number.
            count: how many packets the connection had so far.
            time_ns: of the packet.
        """
        position = self.position(sequence)
        if self.fin is not None:
            position = min(position, self.fin)
        self.acknowledged = max(self.acknowledged, position)
        if self.proof is None and self.next < position <= self.next + FARTHEST_AHEAD_BYTES:
            self.proof = Proof(position, count, time_ns)

    def give_up(self, up_to: int, time_ns: int, packet: int) -> list[Piece]:
        """Go on without the bytes before ``up_to`` that are not there."""
        pieces = []
        while self.next < up_to:
            hole = (min(self.waiting[0].start, up_to) if self.waiting else up_to) - self.next
            if hole:
                pieces.append(self._skip(hole, time_ns, packet))
            pieces += self.go_on(time_ns, packet, forced=up_to)
        return pieces

    def give_up_first_hole(self, time_ns: int, packet: int) -> list[Piece]:
        """Go on with what waits."""
        first = self.waiting[0]
        return self.give_up(first.start if first.start > self.next else first.stop, time_ns, packet)

    def give_up_all(self, time_ns: int, packet: int) -> list[Piece]:
        """Nothing more comes that could fill a hole."""
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
