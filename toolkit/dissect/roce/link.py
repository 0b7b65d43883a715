"""A link over two queue pairs: the bytes of both directions, in the order of cause and effect."""

from dataclasses import dataclass

from toolkit.dissect.conduct import FIN, RST
from toolkit.dissect.direction import Direction
from toolkit.dissect.roce.conduct import QueuePairConduct
from toolkit.dissect.roce.headers import PSN_SEQUENCE_ERROR, RESPONSES, SENDS, Answer, RoceHeader
from toolkit.dissect.roce.lane import FARTHEST_PACKETS, MOST_WAITING_BYTES, Hole, PsnLane, Sent, is_end
from toolkit.dissect.stream import End, Ending, Gap, Stream
from toolkit.dissect.tcp.flow import PATIENCE_NS, PATIENCE_PACKETS
from toolkit.dissect.tcp.outlet import EventCollector


@dataclass(frozen=True, slots=True)
class _LateEnd:
    """The end of the TCP connection, which may be captured before packets that were sent before it."""

    side: int
    count: int
    """Number of packets of the link so far."""
    time_ns: int
    packet: int


@dataclass(slots=True, eq=False)
class RocePacket:
    """A packet to UDP port 4791."""

    header: RoceHeader
    source: tuple[int, ...]
    """Address, as one number for IPv4 and as two for IPv6."""
    target: tuple[int, ...]
    data: memoryview
    """The captured part of the payload."""
    size_bytes: int
    """Size of the payload on the wire."""
    ttl: int
    identification: int
    """IP id; 0 on IPv6."""
    time_ns: int
    packet: int


class QueuePairLink:
    """Two queue pairs that send to each other. Side 0 is the client.

    Args:
        stream: the link as decoders see it.
        conduct: conduct of the stream.
        outlet: receives bytes, gaps and ends.
        psns: first packet sequence number of each side; None: that of its first packet.
    """

    def __init__(
        self,
        stream: Stream,
        conduct: QueuePairConduct,
        outlet: EventCollector,
        psns: tuple[int, int] | None = None,
    ) -> None:
        self.stream = stream
        self.lanes = PsnLane(), PsnLane()
        self.closed = False
        """True if it was reset, or both sides have ended."""
        self._conduct = conduct
        self._outlet = outlet
        self._count = 0
        self._late_end: _LateEnd | None = None
        for lane, psn in zip(self.lanes, psns or (), strict=False):
            lane.begin(psn)

    @property
    def batched(self) -> bool:
        """True if the order between the two directions does not matter."""
        return self.stream.batched

    def direction(self, side: int) -> Direction:
        """Return the direction in which a side sends."""
        return Direction.TO_CLIENT if side else Direction.TO_SERVER

    # ---- packets

    def take(self, side: int, one: RocePacket) -> None:
        """Process the next packet on this link, sent by ``side``."""
        self._count += 1
        header = one.header
        number = header.psn, header.opcode, header.answer or 0, header.value, one.size_bytes
        identity = one.identification, *map(int, number)
        is_copy = self._conduct.is_same_packet(side, identity)
        self._conduct.packet(side, 0, 1, one.ttl, identity, one.time_ns)
        if self.closed or is_copy:
            return
        if header.opcode in RESPONSES:
            self._take_answer(side, one)
        else:
            self._take_request(side, one)
        self._advance(one.time_ns, one.packet)
        self._give_up_what_is_proven(one.time_ns, one.packet)
        self.end_if_due(one.time_ns)

    def _take_request(self, side: int, one: RocePacket) -> None:
        lane, other = self.lanes[side], self.lanes[1 - side]
        if lane.ended:
            return
        if lane.next is None:
            lane.begin(one.header.psn)
        position = lane.position(one.header.psn)
        assert lane.next is not None
        if abs(position - lane.next) > FARTHEST_PACKETS:
            return  # of another queue pair that had the same number
        if lane.has(position):
            self._conduct.repeats[side] += 1
            return
        is_send = one.header.opcode in SENDS
        sent = Sent(
            one.header.opcode,
            memoryview(bytes(one.data)) if is_send else memoryview(b""),
            one.size_bytes if is_send else 0,
            one.time_ns,
            one.packet,
            other.acknowledged if other.next is not None else -1,
        )
        lane.keep(position, sent)
        while lane.waiting_bytes > MOST_WAITING_BYTES and self._skip(side, one.time_ns, one.packet, final=True):
            self._advance(one.time_ns, one.packet)

    def _take_answer(self, side: int, one: RocePacket) -> None:
        header, lane = one.header, self.lanes[1 - side]
        if lane.next is None:
            return
        position = lane.position(header.psn)
        if header.answer is Answer.RNR_NAK:
            self._conduct.not_ready[side] += 1
            position -= 1  # everything before it has arrived
        elif header.answer is Answer.NAK:
            if header.value == PSN_SEQUENCE_ERROR:
                self._conduct.asked_again[side] += 1
            elif self._conduct.refused[side] is None:
                self._conduct.refused[side] = header.value
            position -= 1
        elif header.answer is not Answer.ACK:
            return
        lane.acknowledge(position, self._count, one.time_ns)

    # ---- going on

    def _advance(self, time_ns: int, packet: int, *, forced: bool = False) -> None:
        """Emit everything that no longer has to wait.

        Args:
            time_ns: time of the packet that is being read.
            packet: number of that packet.
            forced: True to ignore the order between the directions.
        """
        moved = True
        while moved:
            moved = False
            for side, lane in enumerate(self.lanes):
                while not (lane.ended or self.closed) and lane.next in lane.waiting:
                    first, other = lane.waiting[lane.next], self.lanes[1 - side]
                    waits = other.next is not None and other.next <= first.after and not other.ended
                    if waits and not forced and not self.batched:
                        first.held = True
                        break
                    self._hand_on(side, lane.take(), time_ns, packet)
                    moved = True

    def _hand_on(self, side: int, sent: Sent, time_ns: int, packet: int) -> None:
        if not sent.held:
            time_ns, packet = sent.time_ns, sent.packet
        if is_end(sent):
            if self._late_end is not None and self._late_end.side != side:
                self._break(self._late_end)  # which this one answers
            else:
                self._end(side, Ending.FIN, time_ns, packet)
            return
        if sent.data:
            self._outlet.piece(self, side, sent.data, time_ns, packet)
        if missing_bytes := sent.size_bytes - len(sent.data):
            self._gap(side, Hole(0, missing_bytes, exact=True), time_ns, packet)

    def _gap(self, side: int, hole: Hole, time_ns: int, packet: int) -> None:
        gap = Gap(self.stream, self.direction(side), hole.size_bytes, time_ns, packet, exact=hole.exact)
        self._outlet.event(self, side, gap)

    def _skip(self, side: int, time_ns: int, packet: int, *, final: bool) -> bool:
        hole = self.lanes[side].skip(final=final)
        if hole is not None:
            self._gap(side, hole, time_ns, packet)
        return hole is not None

    def _give_up_what_is_proven(self, time_ns: int, packet: int) -> None:
        """Skip packets that were missing for too long after they were acknowledged."""
        for side, lane in enumerate(self.lanes):
            if lane.proof is None or lane.next is None:
                continue
            if lane.next > lane.acknowledged:
                lane.proof = None
                continue
            count, since_ns = lane.proof
            if self._count - count >= PATIENCE_PACKETS or time_ns - since_ns >= PATIENCE_NS:
                lane.proof = None
                self._skip(side, time_ns, packet, final=False)
                self._advance(time_ns, packet)
                if lane.next <= lane.acknowledged:
                    lane.proof = self._count, time_ns

    # ---- ending

    def _end(self, side: int, how: Ending, time_ns: int, packet: int) -> None:
        lane, other = self.lanes[side], self.lanes[1 - side]
        lane.ended = True
        self.closed = other.ended or how is Ending.RESET
        self._conduct.mark(side, RST if how is Ending.RESET else FIN, self._conduct.ttls[side], time_ns, packet)
        self._outlet.event(self, side, End(self.stream, self.direction(side), how, time_ns, packet))

    def end_of_tcp(self, side: int, time_ns: int, packet: int) -> None:
        """Note that ``side`` ended the TCP connection that introduced the queue pairs.

        If an empty SEND came before, the link is closed; otherwise it is reset, once no packets sent before can
        follow.
        """
        if self._late_end is None:
            self._late_end = _LateEnd(side, self._count, time_ns, packet)

    def end_if_due(self, now_ns: int) -> bool:
        """End with the TCP connection after a wait for late packets; returns True if the link has ended."""
        late = self._late_end
        if late is None or self.closed:
            return self.closed
        if self._count - late.count >= PATIENCE_PACKETS or now_ns - late.time_ns >= PATIENCE_NS:
            self._end_with_tcp(late)
        return self.closed

    def _end_with_tcp(self, late: _LateEnd) -> None:
        self._give_up_all(late.time_ns, late.packet)
        if self.closed:
            return
        if not any(lane.ended for lane in self.lanes):
            self._break(late)
        for side, lane in enumerate(self.lanes):
            if not self.closed and not lane.ended:
                self._end(side, Ending.FIN, late.time_ns, late.packet)

    def _break(self, late: _LateEnd) -> None:
        self._end(late.side, Ending.RESET, late.time_ns, late.packet)

    def finish(self, time_ns: int, packet: int) -> None:
        """Process the end of the capture: missing packets are skipped."""
        if self.closed:
            return
        if self._late_end is not None:
            self._end_with_tcp(self._late_end)
        else:
            self._give_up_all(time_ns, packet)

    def _give_up_all(self, time_ns: int, packet: int) -> None:
        again = True
        while again:
            self._advance(time_ns, packet)
            again = False
            for side, lane in enumerate(self.lanes):
                if lane.next is not None and not lane.ended and self._skip(side, time_ns, packet, final=True):
                    again = True
                    break
        self._advance(time_ns, packet, forced=True)
