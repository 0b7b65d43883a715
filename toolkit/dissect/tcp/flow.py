"""One TCP connection, packet by packet: how it begins and ends, and when a hole in it is given up."""

from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Ending, Gap, Stream
from toolkit.dissect.tcp.lane import FARTHEST_AHEAD_BYTES, Lane, Piece, Proof

FIN = 0x01
SYN = 0x02
RST = 0x04
ACK = 0x10

MOST_WAITING_BYTES = 1 << 25
"""Behind holes, in all connections together."""

_MASK = (1 << 32) - 1
PATIENCE_PACKETS = 32
PATIENCE_NS = 100_000_000
"""A hole is given up so many packets of the connection, or so long, after its bytes were acknowledged: packets of
different queues and interfaces are not always captured in the order in which they were on the wire."""
_MOST_SYN_BYTES = 1 << 16
_MOST_RESET_BEHIND_BYTES = 1 << 20
_MOST_RESET_AHEAD_BYTES = 1 << 30

_SERVICES = (range(3300, 3301), range(6789, 6790), range(6800, 7569))
"""Ports that monitors and the other daemons listen on unless told otherwise."""

Key = tuple[tuple[int, ...], tuple[int, ...]]
"""The two endpoints: address and port as one number for IPv4, as three for IPv6."""


class Outlet(Protocol):
    """Where what happens on connections goes."""

    def piece(self, flow: "Flow", side: int, data: memoryview, time_ns: int, packet: int) -> None:
        """Bytes."""

    def event(self, flow: "Flow", side: int, event: Gap | End) -> None:
        """Anything else."""


class Flow:
    """A connection between two endpoints; side 0 is what the first of its key sends."""

    __slots__ = (
        "client_side",
        "closed",
        "count",
        "index",
        "key",
        "lanes",
        "last",
        "opening_seen",
        "outlet",
        "stream_",
    )

    def __init__(self, key: Key, outlet: Outlet) -> None:
        self.key = key
        self.outlet = outlet
        self.lanes = Lane(), Lane()
        self.index = -1
        """Number of the stream; -1 before its first packet."""
        self.client_side = 0
        self.opening_seen = False
        self.closed = False
        """It was reset, or both sides are done."""
        self.count = 0
        """Packets, as far as they were looked at one by one."""
        self.last = 0
        """When it was last seen, in batches."""
        self.stream_: Stream | None = None

    @property
    def stream(self) -> Stream:
        """The connection as others see it."""
        if self.stream_ is None:
            client, server = self.key[self.client_side], self.key[1 - self.client_side]
            self.stream_ = Stream(self.index, _endpoint(client), _endpoint(server), self.opening_seen)
        return self.stream_

    @property
    def batched(self) -> bool:
        """Directions need not be in order against each other."""
        return self.stream_ is not None and self.stream_.batched

    @property
    def steady(self) -> bool:
        """In both directions, the next bytes in order are all it takes to go on."""
        return self.lanes[0].steady and self.lanes[1].steady and not self.closed

    @property
    def waiting_bytes(self) -> int:
        """Memory taken by what waits for bytes before it."""
        return self.lanes[0].waiting_bytes + self.lanes[1].waiting_bytes

    def direction(self, side: int) -> Direction:
        """Which way a side sends."""
        return Direction.TO_SERVER if side == self.client_side else Direction.TO_CLIENT

    def tell(self, side: int, pieces: list[Piece]) -> None:
        """Hand on what comes next in a direction."""
        for piece in pieces:
            if piece.data is not None:
                self.outlet.piece(self, side, piece.data, piece.time_ns, piece.packet)
            else:
                size = piece.stop - piece.start
                gap = Gap(self.stream, self.direction(side), size, piece.time_ns, piece.packet)
                self.outlet.event(self, side, gap)

    # ---- beginning

    def begin(self, index: int, side: int, *, syn: bool, ack: bool) -> None:
        """The first packet of the connection.

        Args:
            index: number of the stream.
            side: who sent it.
            syn: it has the SYN flag.
            ack: it has the ACK flag.
        """
        self.index = index
        self.opening_seen = syn
        if syn:
            self.client_side = 1 - side if ack else side
        else:
            self.client_side = self._likely_client()

    def _likely_client(self) -> int:
        ports = [endpoint[-1] & 0xFFFF for endpoint in self.key]
        serving = [any(port in known for known in _SERVICES) for port in ports]
        if serving[0] != serving[1]:
            return 0 if serving[1] else 1
        return 0 if ports[0] > ports[1] else 1

    def takes_syn(self, side: int, sequence: int, acknowledged: int | None) -> bool:
        """Take a SYN, unless it opens another connection.

        Args:
            side: who sent it.
            sequence: number of the first byte behind it.
            acknowledged: what it acknowledges, if it is an answer.
        """
        lane, other = self.lanes[side], self.lanes[1 - side]
        first = sequence & _MASK
        if lane.first == first:
            return True
        if acknowledged is None:
            if lane.first >= 0 or other.first >= 0:
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

    # ---- going on

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
    ) -> None:
        """A packet of the connection, while it is open.

        Args:
            side: who sent it.
            flags: of its header; a SYN has been taken already.
            sequence: number of the first byte of its payload.
            acknowledged: number of the next byte that is expected of the other side.
            size: of the payload.
            data: as much of it as was captured.
            time_ns: when.
            packet: its number.
        """
        self.count += 1
        lane = self.lanes[side]
        if flags & RST:
            if self.takes_reset(side, sequence, acknowledged if flags & ACK else None):
                self.reset(side, time_ns, packet)
            return
        if (lane.first < 0 or lane.guessed) and (size or flags & FIN):
            lane.begin(sequence)
        if size and not lane.ended:
            self.tell(side, lane.segment(lane.position(sequence), size, data, time_ns, packet))
        if flags & FIN and lane.fin is None:
            place = lane.position(sequence + size)
            if lane.next <= place <= lane.next + FARTHEST_AHEAD_BYTES:
                lane.fin = place
        if lane.fin is not None:
            self.end_if_done(side, time_ns, packet)
        if flags & ACK:
            self.take_acknowledgement(side, acknowledged, time_ns)
        self.give_up_what_is_proven(time_ns, packet)

    def take_acknowledgement(self, side: int, sequence: int, time_ns: int) -> None:
        """A side has received everything before ``sequence``."""
        other = self.lanes[1 - side]
        if other.first < 0:
            other.begin(sequence, guessed=not self.opening_seen)
        elif self.lanes[side].first >= 0 and not other.ended:  # otherwise it may answer a connection of the past
            other.acknowledge(sequence, self.count, time_ns)

    def give_up_what_is_proven(self, time_ns: int, packet: int) -> None:
        """Go on without what was missing for too long after it was acknowledged."""
        for side, lane in enumerate(self.lanes):
            proof = lane.proof
            if proof is None:
                continue
            if self.count - proof.count >= PATIENCE_PACKETS or time_ns - proof.time_ns >= PATIENCE_NS:
                self.tell(side, lane.give_up(proof.up_to, time_ns, packet))
                if lane.next < lane.acknowledged:
                    lane.proof = Proof(lane.acknowledged, self.count, time_ns)
                self.end_if_done(side, time_ns, packet)

    # ---- ending

    def end_if_done(self, side: int, time_ns: int, packet: int) -> None:
        """Say that a direction has ended once everything before its FIN is there."""
        lane = self.lanes[side]
        if lane.fin is not None and lane.next >= lane.fin and not lane.ended:
            lane.ended = True
            self.closed = self.lanes[1 - side].ended
            self._end(side, Ending.FIN, time_ns, packet)

    def takes_reset(self, side: int, sequence: int, acknowledged: int | None) -> bool:
        """Whether a RST is about this connection, not about a former one of the same ports."""
        lane, other = self.lanes[side], self.lanes[1 - side]
        if lane.first < 0:
            return (
                other.first < 0 or acknowledged is None or (acknowledged - other.first) & _MASK <= _MOST_SYN_BYTES
            )
        if other.first < 0:
            return lane.position(sequence) == lane.next
        ahead = lane.position(sequence) - lane.next
        return -_MOST_RESET_BEHIND_BYTES <= ahead <= _MOST_RESET_AHEAD_BYTES

    def reset(self, side: int, time_ns: int, packet: int) -> None:
        """Nothing more comes in either direction."""
        self.give_up_all(time_ns, packet)
        if not self.closed:
            self.closed = True
            self._end(side, Ending.RESET, time_ns, packet)

    def give_up_all(self, time_ns: int, packet: int) -> None:
        """Go on without whatever is missing, since it will not come."""
        for side, lane in enumerate(self.lanes):
            if lane.first >= 0 and not lane.ended:
                self.tell(side, lane.give_up_all(time_ns, packet))
                self.end_if_done(side, time_ns, packet)

    def _end(self, side: int, how: Ending, time_ns: int, packet: int) -> None:
        self.outlet.event(self, side, End(self.stream, self.direction(side), how, time_ns, packet))


def _endpoint(words: tuple[int, ...]) -> str:
    if len(words) == 1:
        return f"{IPv4Address(words[0] >> 16)}:{words[0] & 0xFFFF}"
    return f"[{IPv6Address(words[0] << 64 | words[1])}]:{words[2]}"
