"""One TCP connection, packet by packet: its begin, its end, and when a hole in it is skipped."""

from collections import deque
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from toolkit.dissect.conduct import Conduct
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Ending, Gap, Stream
from toolkit.dissect.tcp.lane import FARTHEST_AHEAD_BYTES, FARTHEST_BEHIND_BYTES, Piece, Proof, TcpLane

FIN = 0x01
SYN = 0x02
RST = 0x04
ACK = 0x10

MOST_WAITING_BYTES = 1 << 25
"""Limit of the bytes that wait after holes, all connections together."""

_MASK = (1 << 32) - 1
PATIENCE_PACKETS = 32
PATIENCE_NS = 100_000_000
"""A hole is skipped that many packets of the connection, or that long, after its bytes were acknowledged.
Packets of different queues and interfaces are not always captured in the order of the wire."""
_MOST_SYN_BYTES = 1 << 16
_MOST_RESET_BEHIND_BYTES = 1 << 20
_MOST_RESET_AHEAD_BYTES = 1 << 30
_MOST_HELD_BYTES = 1 << 22
"""Largest distance from its SYN of a packet that waits for one."""

_SERVICES = (range(3300, 3301), range(6789, 6790), range(6800, 7569))
"""Default ports of monitors and of other daemons."""

Key = tuple[tuple[int, ...], tuple[int, ...]]
"""The two endpoints: address and port as one number for IPv4, as three for IPv6."""


class Outlet(Protocol):
    """Receives the events of connections."""

    def piece(self, flow: "Flow", side: int, data: memoryview, time_ns: int, packet: int) -> None:
        """Receive bytes."""

    def event(self, flow: "Flow", side: int, event: Gap | End) -> None:
        """Receive a gap or an end."""


@dataclass(slots=True, eq=False)
class Packet:
    """A packet of a connection that is read packet by packet."""

    data: memoryview
    """The captured part of the payload."""
    side: int
    flags: int
    sequence: int
    """Sequence number of the first byte of the payload."""
    acknowledged: int
    size: int
    """Size of the payload."""
    window: int
    ttl: int
    identification: int
    """IP id; 0 on IPv6."""
    time_ns: int
    packet: int
    twice: bool = False
    """True if the same packet was captured before."""

    @property
    def identity(self) -> tuple[int, ...]:
        """Values that are equal if a packet was captured twice, but not if a segment was sent twice."""
        return self.identification, self.flags, self.sequence, self.acknowledged, self.size


@dataclass(frozen=True, slots=True)
class LateReset:
    """A RST that the capture has before bytes that were sent before it."""

    side: int
    positions: tuple[int, int]
    """Positions of its side and of the other side that must be reached first."""
    count: int
    """Number of packets that the connection had then."""
    time_ns: int
    packet: int


class Flow:
    """A connection between two endpoints; side 0 is the direction from the first endpoint of its key."""

    __slots__ = (
        "client_side",
        "closed",
        "conduct",
        "count",
        "held",
        "index",
        "key",
        "lanes",
        "last",
        "late_reset",
        "number",
        "opening_seen",
        "outlet",
        "settled",
        "stream_",
    )

    def __init__(self, key: Key, outlet: Outlet) -> None:
        self.key = key
        self.outlet = outlet
        self.lanes = TcpLane(), TcpLane()
        self.lanes[0].other, self.lanes[1].other = self.lanes[1], self.lanes[0]
        self.index = -1
        """Number of the stream; -1 before it begins."""
        self.number = -1
        """Number of the stream, from its first packet on."""
        self.client_side = 0
        self.opening_seen = False
        self.closed = False
        """True if it was reset, or both sides have ended."""
        self.held: list[Packet] = []
        """Packets that wait for a SYN."""
        self.settled = False
        """True if no packet waits for a SYN any more."""
        self.late_reset: LateReset | None = None
        self.conduct = Conduct()
        self.count = 0
        """Number of packets that were read one by one."""
        self.last = 0
        """Number of the batch in which it was last seen."""
        self.stream_: Stream | None = None

    @property
    def stream(self) -> Stream:
        """The connection as decoders see it."""
        if self.stream_ is None:
            client, server = self.key[self.client_side], self.key[1 - self.client_side]
            ends = _endpoint(client), _endpoint(server)
            self.stream_ = Stream(self.index, *ends, self.opening_seen, self.conduct)
        return self.stream_

    @property
    def batched(self) -> bool:
        """True if the order between the two directions does not matter."""
        return self.stream_ is not None and self.stream_.batched

    @property
    def steady(self) -> bool:
        """True if both directions only need their next bytes in order."""
        return self.lanes[0].steady and self.lanes[1].steady and not self.closed and self.late_reset is None

    @property
    def waiting_bytes(self) -> int:
        """Memory in bytes of what waits for bytes before it."""
        return self.lanes[0].waiting_bytes + self.lanes[1].waiting_bytes

    def direction(self, side: int) -> Direction:
        """Return the direction in which a side sends."""
        return Direction.TO_SERVER if side == self.client_side else Direction.TO_CLIENT

    def emit(self, side: int, pieces: list[Piece]) -> None:
        """Emit what comes next in a direction; each piece is followed by what waited for it in the other one."""
        if not pieces:
            return
        due = deque[Piece](), deque[Piece]()
        due[side].extend(pieces)
        while due[side]:
            piece = due[side].popleft()
            if piece.data is not None:
                self.outlet.piece(self, side, piece.data, piece.time_ns, piece.packet)
            else:
                size = piece.stop - piece.start
                gap = Gap(self.stream, self.direction(side), size, piece.time_ns, piece.packet)
                self.outlet.event(self, side, gap)
            other = self.lanes[1 - side]
            if other.waiting:
                due[1 - side].extend(other.go_on(piece.time_ns, piece.packet, reached=piece.stop))
            if due[1 - side]:
                side = 1 - side

    # ---- beginning

    def begin(self, index: int, side: int, *, syn: bool, ack: bool) -> None:
        """Begin the connection with its first packet.

        Args:
            index: number of the stream.
            side: side of the sender.
            syn: True if the packet has the SYN flag.
            ack: True if the packet has the ACK flag.
        """
        self.index = index
        self.opening_seen = syn
        if syn:
            self.client_side = 1 - side if ack else side
        else:
            self.client_side = self._likely_client()
        self.conduct.client_side = self.client_side

    def _likely_client(self) -> int:
        ports = [endpoint[-1] & 0xFFFF for endpoint in self.key]
        serving = [any(port in known for known in _SERVICES) for port in ports]
        if serving[0] != serving[1]:
            return 0 if serving[1] else 1
        return 0 if ports[0] > ports[1] else 1

    def takes_syn(self, side: int, sequence: int, acknowledged: int | None) -> bool:
        """Process a SYN; returns False if it opens another connection.

        Args:
            side: side of the sender.
            sequence: sequence number of the first byte after it.
            acknowledged: acknowledged number if it answers a SYN; else None.
        """
        lane, other = self.lanes[side], self.lanes[1 - side]
        first = sequence & _MASK
        if lane.first == first:
            return True
        if acknowledged == other.first and lane.first >= 0 and side == self.client_side and self._is_new:
            self._turn()  # It answers the first SYN, which acknowledged another number: a damaged flag.
        if acknowledged is None:
            # Both sides may open at once (RFC 9293 §3.5); a damaged answer looks like that, too.
            if lane.first >= 0 or (other.first >= 0 and (other.next != other.first or other.waiting)):
                return False
        elif other.first < 0:
            if lane.first >= 0:
                return False
            other.begin(acknowledged)
        elif (acknowledged - other.first) & _MASK > _MOST_SYN_BYTES:
            return False
        elif lane.first >= 0 and (lane.next != lane.first or lane.waiting):
            return True
        lane.begin(first)
        return True

    @property
    def _is_new(self) -> bool:
        """True if neither side has sent bytes."""
        return all(lane.next == lane.first and not lane.waiting for lane in self.lanes)

    @property
    def has_sent(self) -> bool:
        """True if a side has sent bytes."""
        return any(lane.first >= 0 and lane.next != lane.first for lane in self.lanes)

    def _turn(self) -> None:
        """Make the other side the client."""
        self.client_side = self.conduct.client_side = 1 - self.client_side
        if self.stream_ is not None:
            self.stream_.client, self.stream_.server = self.stream_.server, self.stream_.client

    # ---- going on

    def expects_syn(self, flags: int) -> bool:
        """True if a packet without SYN may have been captured before the SYN of a direction."""
        if self.index < 0:
            return True
        if self.settled or flags & RST:
            return False
        return bool(self.held) or self.lanes[0].first < 0 or self.lanes[1].first < 0

    def in_order_of_tcp(self) -> list[Packet]:
        """Return the packets held, each side by sequence number; the sides alternate as in the capture."""
        first: dict[int, int] = {}
        held = list(filter(self._is_near_its_beginning, self.held))
        for each in held:
            first.setdefault(each.side, each.sequence)
        ordered = {
            side: iter(
                sorted(
                    (each for each in held if each.side == side),
                    key=lambda each: ((each.sequence - first[each.side] + (1 << 31)) & _MASK, each.packet),
                )
            )
            for side in first
        }
        return [next(ordered[each.side]) for each in held]

    def _is_near_its_beginning(self, one: Packet) -> bool:
        """False for a packet of a former connection of the same ports, as far as the SYNs show."""
        lane, other = self.lanes[one.side], self.lanes[1 - one.side]
        near = lane.first < 0 or abs(lane.position(one.sequence) - lane.first) <= _MOST_HELD_BYTES
        if other.first < 0 or not one.flags & ACK:
            return near
        return near and abs(other.position(one.acknowledged) - other.first) <= _MOST_HELD_BYTES

    def packet(
        self,
        side: int,
        flags: int,
        sequence: int,
        acknowledged: int,
        size: int,
        data: memoryview,
        time_ns: int,
        packet: int,
        *,
        twice: bool = False,
    ) -> None:
        """Process a packet while the connection is open.

        Args:
            side: side of the sender.
            flags: flags of its header; a SYN was processed already.
            sequence: sequence number of the first byte of its payload.
            acknowledged: sequence number of the next byte expected from the other side.
            size: size of the payload.
            data: captured part of the payload.
            time_ns: time of the packet.
            packet: number of the packet.
            twice: True if the same packet was captured before.
        """
        self.count += 1
        lane = self.lanes[side]
        if flags & SYN:
            flags &= ~FIN  # no host opens and closes at once: one of the two is damaged
        if flags & RST:
            if self.takes_reset(side, sequence, acknowledged if flags & ACK else None):
                self._take_reset(side, flags, sequence, acknowledged, time_ns, packet)
            return
        if (lane.first < 0 or lane.guessed) and (size or flags & FIN):
            lane.begin(sequence)
        if size and lane.fin is not None and 0 <= lane.position(sequence) - lane.fin <= MOST_WAITING_BYTES:
            self.conduct.beyond_fin[side] += 1
        if size and not lane.ended:
            if (
                size > 1
                and lane.first >= 0
                and -FARTHEST_BEHIND_BYTES < lane.position(sequence) + size - lane.next <= 0
            ):
                self.conduct.repeats[side] += not twice
            after = self._after(side, acknowledged) if flags & ACK and not self.batched else None
            self.emit(side, lane.segment(lane.position(sequence), size, data, time_ns, packet, after))
        if flags & FIN and lane.fin is None:
            place = lane.position(sequence + size)
            if lane.next <= place <= lane.next + FARTHEST_AHEAD_BYTES:
                lane.fin = place
        if lane.fin is not None:
            self.end_if_done(side, time_ns, packet)
        if flags & ACK:
            self.take_acknowledgement(side, acknowledged, time_ns)
        self.give_up_what_is_proven(time_ns, packet)
        self.reset_if_due(time_ns)

    def _after(self, side: int, sequence: int) -> int | None:
        """Position in the other direction up to which the sender has received everything; None if unknown."""
        other = self.lanes[1 - side]
        if other.first < 0 or other.ended:
            return None
        position = other.position(sequence)
        return position if position <= other.next + FARTHEST_AHEAD_BYTES else None

    def take_acknowledgement(self, side: int, sequence: int, time_ns: int) -> None:
        """Process an acknowledgement: a side has received everything before ``sequence``."""
        other = self.lanes[1 - side]
        if other.first < 0:
            other.begin(sequence, guessed=not self.opening_seen)
        elif self.lanes[side].first >= 0 and not other.ended:  # otherwise it may belong to a former connection
            other.acknowledge(sequence, self.count, time_ns)
        self.note_acknowledgement(side, sequence)

    def note_acknowledgement(self, side: int, sequence: int) -> None:
        """Note in the conduct that a side has received everything before ``sequence``."""
        other = self.lanes[1 - side]
        if other.first >= 0 and self.lanes[side].first >= 0:
            position = other.position(sequence)
            count = (position if other.fin is None else min(position, other.fin)) - other.first
            self.conduct.acknowledged[1 - side] = max(self.conduct.acknowledged[1 - side], count)

    def give_up_what_is_proven(self, time_ns: int, packet: int) -> None:
        """Skip bytes that were missing for too long after they were acknowledged.

        The bytes of the later proof may only wait for those of the earlier one, in the other direction.
        """
        proofs = [(lane.proof.count, side) for side, lane in enumerate(self.lanes) if lane.proof is not None]
        for _, side in sorted(proofs):
            lane = self.lanes[side]
            proof = lane.proof
            if proof is None:
                continue
            if self.count - proof.count >= PATIENCE_PACKETS or time_ns - proof.time_ns >= PATIENCE_NS:
                self.emit(side, lane.give_up(proof.up_to, time_ns, packet))
                if lane.next < lane.acknowledged:
                    lane.proof = Proof(lane.acknowledged, self.count, time_ns)
                self.end_if_done(side, time_ns, packet)

    # ---- ending

    def end_if_done(self, side: int, time_ns: int, packet: int) -> None:
        """End a direction once everything before its FIN was emitted."""
        lane = self.lanes[side]
        if lane.fin is not None and lane.next >= lane.fin and not lane.ended:
            lane.ended = True
            self.closed = self.lanes[1 - side].ended
            self._end(side, Ending.FIN, time_ns, packet)

    def takes_reset(self, side: int, sequence: int, acknowledged: int | None) -> bool:
        """True if a RST belongs to this connection, not to a former one of the same ports."""
        lane, other = self.lanes[side], self.lanes[1 - side]
        if lane.first < 0:
            return (
                other.first < 0 or acknowledged is None or (acknowledged - other.first) & _MASK <= _MOST_SYN_BYTES
            )
        if other.first < 0:
            return lane.position(sequence) == lane.next
        ahead = lane.position(sequence) - lane.next
        return -_MOST_RESET_BEHIND_BYTES <= ahead <= _MOST_RESET_AHEAD_BYTES

    def _take_reset(
        self, side: int, flags: int, sequence: int, acknowledged: int, time_ns: int, packet: int
    ) -> None:
        """Reset now, or once the bytes sent or received before the RST were emitted."""
        lane, other = self.lanes[side], self.lanes[1 - side]
        own = lane.position(sequence) if lane.first >= 0 else lane.next
        after = self._after(side, acknowledged) if flags & ACK else None
        if self.late_reset is None and (own > lane.next or (after is not None and after > other.next)):
            self.late_reset = LateReset(side, (own, after or 0), self.count, time_ns, packet)
            if flags & ACK:
                self.take_acknowledgement(side, acknowledged, time_ns)
        else:
            self.reset(side, time_ns, packet)

    def reset_if_due(self, now_ns: int) -> None:
        """Reset if an early RST no longer has to wait."""
        late = self.late_reset
        if late is None or self.closed:
            return
        lane, other = self.lanes[late.side], self.lanes[1 - late.side]
        due = lane.next >= late.positions[0] and other.next >= late.positions[1]
        if due or self.count - late.count >= PATIENCE_PACKETS or now_ns - late.time_ns >= PATIENCE_NS:
            self.reset(late.side, late.time_ns, late.packet)

    def reset(self, side: int, time_ns: int, packet: int) -> None:
        """End both directions."""
        self.give_up_all(time_ns, packet)
        if not self.closed:
            self.closed = True
            self._end(side, Ending.RESET, time_ns, packet)

    def finish(self, time_ns: int, packet: int) -> None:
        """Process the end of the capture: a waiting RST takes effect, and missing bytes are skipped."""
        if self.closed:
            return
        if self.late_reset is not None:
            self.reset(self.late_reset.side, self.late_reset.time_ns, self.late_reset.packet)
        else:
            self.give_up_all(time_ns, packet)

    def give_up_all(self, time_ns: int, packet: int) -> None:
        """Skip all missing bytes, since they will not come."""
        held = True
        while held:  # in the order of cause and effect, as far as it is known
            held = False
            for side, lane in enumerate(self.lanes):
                if lane.waiting and lane.waiting[0].start > lane.next and not lane.ended:
                    self.emit(side, lane.give_up_first_hole(time_ns, packet))
                    held = True
        for side, lane in enumerate(self.lanes):
            if lane.first >= 0 and not lane.ended:
                self.emit(side, lane.give_up_all(time_ns, packet))
                self.end_if_done(side, time_ns, packet)

    def _end(self, side: int, how: Ending, time_ns: int, packet: int) -> None:
        self.outlet.event(self, side, End(self.stream, self.direction(side), how, time_ns, packet))


def _endpoint(words: tuple[int, ...]) -> str:
    if len(words) == 1:
        return f"{IPv4Address(words[0] >> 16)}:{words[0] & 0xFFFF}"
    return f"[{IPv6Address(words[0] << 64 | words[1])}]:{words[2]}"
