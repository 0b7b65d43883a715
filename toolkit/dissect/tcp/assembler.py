"""Assembles TCP streams: in whole columns of segments if all are in order, packet by packet if not."""

from collections import Counter
from collections.abc import Collection
from itertools import pairwise

import numpy as np

from toolkit.capture.formats.packets import Integers, Marks, PacketBatch
from toolkit.dissect.stream import Run, Stream, StreamEvent
from toolkit.dissect.tcp.flow import ACK, FIN, MOST_WAITING_BYTES, RST, SYN, Flow, Key, Packet
from toolkit.dissect.tcp.internet import Datagrams, Internet
from toolkit.dissect.tcp.lane import FARTHEST_BEHIND_BYTES
from toolkit.dissect.tcp.lane import MOST_WAITING_BYTES as MOST_WAITING_LANE_BYTES
from toolkit.dissect.tcp.outlet import EventCollector, joined
from toolkit.dissect.tcp.segments import Segments, read_segments

MOST_FLOWS = 1 << 15
"""Limit of tracked connections; beyond it, ended ones and then the longest silent ones are dropped."""
MOST_STREAMS = 1 << 17
"""Limit of listed streams; the first ones are listed."""
_MARKS = SYN | FIN | RST
_MASK = (1 << 32) - 1
_HALF = 1 << 31
_LANE_SHIFT = 34
_SYN_PATIENCE_PACKETS = 32
_SYN_PATIENCE_NS = 10_000_000
"""Packets of a connection wait for a SYN captured after them: for that many packets, and that long."""


class Assembler:
    """Assembles the byte streams of a capture's TCP connections.

    Feed it the batches of a capture in order. Its results do not depend on the borders of batches, except for the
    division into runs.
    """

    def __init__(
        self,
        ports: Collection[int] | None = None,
        most_flows: int = MOST_FLOWS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        """Begin without any connection.

        Args:
            ports: assemble only connections with one of these ports at either end, and number only these. UDP
                packets to one of them are read if they are VXLAN.
            most_flows: limit of the connections that are tracked at a time.
            most_streams: limit of the streams in :attr:`known`.
        """
        self._ports = np.array(sorted(ports), np.int64) if ports is not None else None
        self._most_flows = most_flows
        self._most_streams = most_streams
        self._flows: dict[Key, Flow] = {}
        self._collector = EventCollector()
        self._waiting_bytes = 0
        self._holding: dict[Flow, int] = {}
        """Connections with packets that wait for a SYN, and the time when the first of these came."""
        self._batches = 0
        self._time_ns = 0
        self._clock_ns = 0
        """The latest time so far. Times may decrease if several queues were captured."""
        self._packet = 0
        self.known: list[Stream] = []
        """The streams so far, up to ``most_streams``."""
        self.streams = 0
        """Number of streams so far."""
        self.skipped: Counter[str] = Counter()
        """Number of packets that could not be read, by reason."""
        self._internet = Internet(self.skipped, ports or ())
        self.data = memoryview(b"")
        """The bytes to which the offsets in :attr:`roce` refer."""
        self.roce: dict[int, Datagrams] = {}
        """Datagrams of RoCE in the last batch, by version of IP."""

    def feed(self, batch: PacketBatch) -> list[StreamEvent]:
        """Return the events on all connections in a batch, in the order of its packets."""
        if not len(batch):
            return []
        self._batches += 1
        self._time_ns, self._packet = int(batch.times_ns[-1]), batch.first + len(batch) - 1
        if len(self._flows) > self._most_flows:
            self._forget()
        data, segments, self.roce = read_segments(batch, self._internet, self._ports, self.skipped)
        self.data = data
        if segments is not None:
            self._assemble(data, batch, segments)
        self._clock_ns = max(self._clock_ns, int(batch.times_ns.max()))
        for flow in list(self._holding):
            self._release_if_due(flow, self._clock_ns)
        return self._collector.drain()

    def finish(self) -> list[StreamEvent]:
        """Return the events left at the end of the capture: bytes after holes, and the holes."""
        self._internet.finish()
        for flow in sorted(self._flows.values(), key=lambda flow: flow.number):
            self._close(flow)
        self._flows = {}
        return self._collector.drain()

    def add(self, stream: Stream) -> None:
        """Number and list a stream that does not use TCP."""
        stream.index, self.streams = self.streams, self.streams + 1
        if len(self.known) < self._most_streams:
            self.known.append(stream)

    def _forget(self) -> None:
        ordered = sorted(self._flows.values(), key=lambda flow: (not flow.closed, flow.last, flow.number))
        for flow in ordered[: len(ordered) - self._most_flows // 2]:
            self._close(flow)
            del self._flows[flow.key]

    def _close(self, flow: Flow) -> None:
        if flow.held:
            self._release(flow)
        self._waiting_bytes -= flow.waiting_bytes
        flow.finish(self._time_ns, self._packet)

    def _flow(self, key: Key) -> Flow:
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(key, self._collector)
        flow.last = self._batches
        return flow

    def _assemble(self, data: memoryview, batch: PacketBatch, segments: Segments) -> None:
        flows = [self._flow(key) for key in segments.keys]
        lanes = 2 * segments.pairs + segments.sides
        odd, rows, repeated = _sort_out(segments, flows, lanes)
        _observe(batch, segments, flows, ~odd, repeated)
        if odd.any():
            self._one_by_one(data, batch, segments, flows, np.flatnonzero(odd[segments.pairs]))
            rows = rows[~odd[segments.pairs[rows]]]
        if len(rows):
            self._all_at_once(data, batch, segments, flows, rows)

    # ---- connections with all segments in order

    def _all_at_once(
        self, data: memoryview, batch: PacketBatch, segments: Segments, flows: list[Flow], rows: Integers
    ) -> None:
        """Emit runs of consecutive segments; ``rows`` are sorted by direction."""
        lanes = 2 * segments.pairs + segments.sides
        mixed = np.fromiter((not flow.batched for flow in flows), np.bool_, len(flows))
        if mixed.any():
            pairs = segments.pairs[rows]
            rows = rows[np.lexsort((rows, np.where(mixed[pairs], 2 * pairs, lanes[rows])))]
        lanes = lanes[rows]
        borders = [0, *(np.flatnonzero(lanes[1:] != lanes[:-1]) + 1).tolist(), len(rows)]
        lane_of = lanes.tolist()
        starts, sizes = segments.starts[rows], segments.sizes[rows]
        pieces = [data[a:b] for a, b in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
        stops = np.cumsum(sizes)
        before = (stops - sizes)[borders[:-1]]
        ends = (stops - np.repeat(before, np.diff(borders))).tolist()
        packets = segments.rows[rows]
        times_ns, numbers = batch.times_ns[packets].tolist(), (packets + batch.first).tolist()
        for begin, end in pairwise(borders):
            flow, side = flows[lane_of[begin] >> 1], lane_of[begin] & 1
            run = Run(
                flow.stream,
                flow.direction(side),
                joined(pieces[begin:end]),
                ends[begin:end],
                times_ns[begin:end],
                numbers[begin:end],
            )
            lane = flow.lanes[side]
            lane.next += ends[end - 1]
            lane.guessed = False
            self._collector.run(numbers[begin], run)

    # ---- other connections

    def _one_by_one(
        self, data: memoryview, batch: PacketBatch, segments: Segments, flows: list[Flow], rows: Integers
    ) -> None:
        packets = segments.rows[rows]
        starts = segments.starts[rows]
        columns = (
            segments.pairs[rows],
            starts,
            starts + np.minimum(segments.present, segments.sizes)[rows],
            *(column[rows] for column in segments.headers),
            batch.times_ns[packets],
            packets + batch.first,
        )
        clocks = np.maximum(np.maximum.accumulate(batch.times_ns), self._clock_ns)[packets].tolist()
        rest = zip(*(column.tolist() for column in columns), strict=True)
        for clock_ns, (pair, start, stop, *numbers) in zip(clocks, rest, strict=True):
            flow = flows[pair]
            one = Packet(data[start:stop], *numbers)
            self._collector.row = one.packet
            self._release_if_due(flow, clock_ns)
            one.twice = flow.conduct.is_same_packet(one.side, one.identity)
            if one.flags & SYN:
                flow = flows[pair] = self._open(flow, one)
            _note(flow, one)
            if not one.flags & SYN and flow.expects_syn(one.flags):
                self._hold(flow, one, clock_ns)
                continue
            self._take(flow, one)
            if flow.held and all(lane.first >= 0 for lane in flow.lanes):
                self._release(flow)

    def _take(self, flow: Flow, one: Packet) -> None:
        if flow.closed:
            return
        waiting_bytes = flow.waiting_bytes
        flow.packet(
            *(one.side, one.flags, one.sequence, one.acknowledged),
            *(one.size, one.data, one.time_ns, one.packet),
            twice=one.twice,
        )
        if waiting_bytes != flow.waiting_bytes:
            self._waiting_bytes += flow.waiting_bytes - waiting_bytes
            self._limit_waiting(flow, one.time_ns, one.packet)

    def _hold(self, flow: Flow, one: Packet, clock_ns: int) -> None:
        """Keep a packet until a SYN comes."""
        if flow.number < 0:
            flow.number, self.streams = self.streams, self.streams + 1
        one.data = memoryview(bytes(one.data))
        flow.held.append(one)
        self._holding.setdefault(flow, clock_ns)
        if len(flow.held) >= _SYN_PATIENCE_PACKETS:
            self._release(flow)

    def _release_if_due(self, flow: Flow, clock_ns: int) -> None:
        """Continue without a SYN if it did not come in time."""
        since_ns = self._holding.get(flow)
        if since_ns is not None and clock_ns - since_ns >= _SYN_PATIENCE_NS:
            self._release(flow)

    def _release(self, flow: Flow) -> None:
        """Process the packets that waited for a SYN, whether it came or not."""
        self._holding.pop(flow, None)
        flow.settled = True
        waited, flow.held = flow.in_order_of_tcp(), []
        row = self._collector.row
        if not flow.has_sent:  # otherwise they follow the bytes of the SYN
            self._collector.row = -1
        for one in waited:
            self._collector.row = max(self._collector.row, one.packet)
            if flow.index < 0:
                self._begin(flow, one)
            self._take(flow, one)
        self._collector.row = row

    def _open(self, flow: Flow, one: Packet) -> Flow:
        """Return the connection of a SYN, perhaps a new one."""
        if flow.index >= 0:
            if flow.takes_syn(one.side, one.sequence, one.acknowledged if one.flags & ACK else None):
                return flow
            if flow.held:
                self._release(flow)
            self._waiting_bytes -= flow.waiting_bytes
            flow.finish(one.time_ns, one.packet)
            flow = self._flows[flow.key] = Flow(flow.key, self._collector)
            flow.last = self._batches
        self._begin(flow, one)
        return flow

    def _begin(self, flow: Flow, one: Packet) -> None:
        """Begin a connection with its first packet."""
        syn, acknowledges = bool(one.flags & SYN), one.acknowledged if one.flags & ACK else None
        if flow.number < 0:
            flow.number, self.streams = self.streams, self.streams + 1
        flow.begin(flow.number, one.side, syn=syn, ack=acknowledges is not None)
        if len(self.known) < self._most_streams:
            self.known.append(flow.stream)
        if syn:
            flow.takes_syn(one.side, one.sequence, acknowledges)

    def _limit_waiting(self, flow: Flow, time_ns: int, packet: int) -> None:
        for side, lane in enumerate(flow.lanes):
            while lane.waiting and (
                lane.waiting_bytes > MOST_WAITING_LANE_BYTES or self._waiting_bytes > MOST_WAITING_BYTES
            ):
                self._waiting_bytes -= lane.waiting_bytes
                flow.emit(side, lane.give_up_first_hole(time_ns, packet))
                self._waiting_bytes += lane.waiting_bytes
                flow.end_if_done(side, time_ns, packet)


def _note(flow: Flow, one: Packet) -> None:
    """Count what a packet's header shows."""
    flow.conduct.packet(one.side, one.flags, one.window, one.ttl, one.identity, one.time_ns)
    if one.flags & _MARKS and not one.twice and not flow.closed:
        acknowledged = one.acknowledged if one.flags & ACK else None
        if not one.flags & RST or flow.takes_reset(one.side, one.sequence, acknowledged):
            flow.conduct.mark(one.side, one.flags, one.ttl, one.time_ns, one.packet)


def _observe(batch: PacketBatch, segments: Segments, flows: list[Flow], steady: Marks, repeated: Integers) -> None:
    """Note what the headers on steady connections show.

    Args:
        batch: batch of the segments.
        segments: segments of the batch.
        flows: connections by pair.
        steady: marks of the steady connections, by pair.
        repeated: segments whose bytes were captured before.
    """
    lasts = np.zeros(len(flows), np.int64)
    lasts[segments.pairs] = np.arange(len(segments))
    for pair in np.flatnonzero(steady).tolist():
        flows[pair].conduct.last_ns = int(batch.times_ns[segments.rows[lasts[pair]]])
    answers = np.full(2 * len(flows), -1, np.int64)
    acknowledging = np.flatnonzero((segments.flags & ACK != 0) & steady[segments.pairs])
    answers[2 * segments.pairs[acknowledging] + segments.sides[acknowledging]] = acknowledging
    for lane in np.flatnonzero(answers >= 0).tolist():
        flows[lane >> 1].note_acknowledgement(lane & 1, int(segments.acknowledged[answers[lane]]))
    shut = np.flatnonzero((segments.windows == 0) & steady[segments.pairs])
    for pair, side in zip(segments.pairs[shut].tolist(), segments.sides[shut].tolist(), strict=True):
        flows[pair].conduct.zero_windows[side] += 1
    again = repeated[steady[segments.pairs[repeated]] & (segments.sizes[repeated] > 1)]
    for pair, side in zip(segments.pairs[again].tolist(), segments.sides[again].tolist(), strict=True):
        flows[pair].conduct.repeats[side] += 1


def _sort_out(segments: Segments, flows: list[Flow], lanes: Integers) -> tuple[Marks, Integers, Integers]:
    """Find the connections to be read packet by packet, and on all others the segments with new bytes.

    On a steady connection each segment carries the next bytes in order, or repeats former ones.

    Args:
        segments: segments of the batch.
        flows: connections by pair.
        lanes: lane of each segment: two per pair, one for each side.

    Returns:
        A mark for each pair; segments sorted by lane (of the marked pairs too); segments that repeat former bytes,
        except packets that were captured twice.
    """
    odd = np.fromiter((not flow.steady for flow in flows), np.bool_, len(flows))
    special = (segments.flags & (SYN | RST | FIN) != 0) | (segments.present < segments.sizes)
    odd[segments.pairs[special]] = True
    nexts = np.array([lane.next & _MASK for flow in flows for lane in flow.lanes], np.int64)
    nexts_before = nexts.copy()
    rows = repeated = np.flatnonzero(segments.sizes)
    if len(rows):
        rows = rows[np.argsort(lanes[rows], kind="stable")]
        lane = lanes[rows]
        starts = ((segments.sequences[rows] - nexts[lane] + _HALF) & _MASK) - _HALF
        floors = lane << _LANE_SHIFT  # farther apart than positions can be: one maximum runs over all lanes
        reached = np.maximum.accumulate(np.maximum(starts + segments.sizes[rows], 0) + floors) - floors
        first = np.append(True, lane[1:] != lane[:-1])
        before = np.where(first, 0, np.roll(reached, 1))
        new = reached > before
        guessed = np.array([lane.guessed for flow in flows for lane in flow.lanes], np.bool_)
        astray = (new | guessed[lane]) & (starts != before)
        odd[lane[astray | (starts < -FARTHEST_BEHIND_BYTES)] >> 1] = True
        last = np.roll(first, -1)
        nexts[lane[last]] += reached[last]
        repeated = _sent_again(segments, rows, first, ~new)
        rows = rows[new]
    ahead = (segments.acknowledged - nexts[lanes ^ 1]) & _MASK
    odd |= _before_their_cause(segments, flows, nexts_before)
    unseen = (ahead != 0) & (ahead < _HALF) & (segments.flags & ACK != 0)
    odd[segments.pairs[unseen]] = True
    return odd, rows, repeated


def _sent_again(segments: Segments, rows: Integers, first: Marks, old: Marks) -> Integers:
    """Return the segments that are marked as old, except packets that were captured twice.

    Args:
        segments: segments of the batch.
        rows: segments with bytes, by lane.
        first: marks of the first segment of each lane.
        old: marks of segments whose bytes were captured before.
    """
    if not old.any():
        return rows[:0]
    ids, sequences = segments.identifications[rows], segments.sequences[rows]
    twice = ~first & (ids > 0) & (ids == np.roll(ids, 1)) & (sequences == np.roll(sequences, 1))
    again: Integers = rows[old & ~twice]
    return again


def _before_their_cause(segments: Segments, flows: list[Flow], nexts: Integers) -> Marks:
    """Return the connections with bytes whose sender had received bytes that come later in the batch.

    Only connections on which the order between the directions matters are examined; the bytes of each direction
    are in order there.

    Args:
        segments: segments of the batch.
        flows: connections by pair.
        nexts: by lane, the sequence number of the next byte at the beginning of the batch.
    """
    odd = np.zeros(len(flows), np.bool_)
    mixed = np.fromiter((not flow.batched for flow in flows), np.bool_, len(flows))
    rows = np.flatnonzero(mixed[segments.pairs])
    if not len(rows):
        return odd
    rows = rows[np.argsort(segments.pairs[rows], kind="stable")]
    pairs, sides = segments.pairs[rows], segments.sides[rows]
    lanes = 2 * pairs + sides
    ends = ((segments.sequences[rows] + segments.sizes[rows] - nexts[lanes] + _HALF) & _MASK) - _HALF
    needed = ((segments.acknowledged[rows] - nexts[lanes ^ 1] + _HALF) & _MASK) - _HALF
    floors = pairs << _LANE_SHIFT
    late = np.zeros(len(rows), np.bool_)
    for side in (0, 1):
        there = np.where(sides == side, np.maximum(ends, 0), 0)
        reached = np.maximum.accumulate(there + floors) - floors
        late |= (sides != side) & (needed > reached)
    carries = (segments.sizes[rows] > 0) & (segments.flags[rows] & ACK != 0)
    odd[pairs[late & carries]] = True
    return odd
