"""Assembly of TCP streams: whole columns of segments where all is in order, packet by packet where it is not."""

from collections import Counter
from collections.abc import Collection
from itertools import pairwise

import numpy as np

from toolkit.capture.formats.packets import Integers, Marks, PacketBatch
from toolkit.dissect.stream import Run, StreamEvent
from toolkit.dissect.tcp.flow import ACK, FIN, MOST_WAITING_BYTES, RST, SYN, Flow, Key
from toolkit.dissect.tcp.fragments import Fragments
from toolkit.dissect.tcp.lane import FARTHEST_BEHIND_BYTES
from toolkit.dissect.tcp.lane import MOST_WAITING_BYTES as MOST_WAITING_LANE_BYTES
from toolkit.dissect.tcp.outlet import EventCollector, joined
from toolkit.dissect.tcp.segments import Segments, read_segments

MOST_FLOWS = 1 << 15
"""Connections that are remembered at a time; then those go that have ended, and those that are silent longest."""
_MASK = (1 << 32) - 1
_HALF = 1 << 31
_LANE_SHIFT = 34


class Assembler:
    """Puts the byte streams of a capture's TCP connections together.

    Feed it the batches of a capture in order. What it gives does not depend on where batches begin and end, but
    for the cutting into runs.
    """

    def __init__(self, ports: Collection[int] | None = None, most_flows: int = MOST_FLOWS) -> None:
        """Begin without any connection.

        Args:
            ports: look at connections only that have one of these at either end; streams are counted among those.
            most_flows: how many connections are remembered at a time.
        """
        self._ports = np.array(sorted(ports), np.int64) if ports is not None else None
        self._most_flows = most_flows
        self._fragments = Fragments()
        self._flows: dict[Key, Flow] = {}
        self._collector = EventCollector()
        self._waiting_bytes = 0
        self._batches = 0
        self._time_ns = 0
        self._packet = 0
        self.streams = 0
        """How many there have been so far."""
        self.skipped: Counter[str] = Counter()
        """Packets that could not be read, by reason."""

    def feed(self, batch: PacketBatch) -> list[StreamEvent]:
        """What happens on all connections in a batch, in the order of its packets."""
        if not len(batch):
            return []
        self._batches += 1
        self._time_ns, self._packet = int(batch.times_ns[-1]), batch.first + len(batch) - 1
        if len(self._flows) > self._most_flows:
            self._forget()
        data, segments = read_segments(batch, self._fragments, self._ports, self.skipped)
        if segments is not None:
            self._assemble(data, batch, segments)
        return self._collector.drain()

    def finish(self) -> list[StreamEvent]:
        """What is left at the end of the capture: bytes that waited for others, and the holes before them."""
        for flow in sorted(self._flows.values(), key=lambda flow: flow.index):
            self._close(flow)
        self._flows = {}
        return self._collector.drain()

    def _forget(self) -> None:
        ordered = sorted(self._flows.values(), key=lambda flow: (not flow.closed, flow.last, flow.index))
        for flow in ordered[: len(ordered) - self._most_flows // 2]:
            self._close(flow)
            del self._flows[flow.key]

    def _close(self, flow: Flow) -> None:
        self._waiting_bytes -= flow.waiting_bytes
        if not flow.closed:
            flow.give_up_all(self._time_ns, self._packet)

    def _flow(self, key: Key) -> Flow:
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(key, self._collector)
        flow.last = self._batches
        return flow

    def _assemble(self, data: memoryview, batch: PacketBatch, segments: Segments) -> None:
        flows = [self._flow(key) for key in segments.keys]
        lanes = 2 * segments.pairs + segments.sides
        odd, rows = _sort_out(segments, flows, lanes)
        if odd.any():
            self._one_by_one(data, batch, segments, flows, np.flatnonzero(odd[segments.pairs]))
            rows = rows[~odd[segments.pairs[rows]]]
        if len(rows):
            self._all_at_once(data, batch, segments, flows, rows)

    # ---- connections on which all is in order

    def _all_at_once(
        self, data: memoryview, batch: PacketBatch, segments: Segments, flows: list[Flow], rows: Integers
    ) -> None:
        """Runs of consecutive segments; ``rows`` are sorted by direction."""
        lanes = 2 * segments.pairs + segments.sides
        mixed = np.fromiter((not flow.batched for flow in flows), np.bool_, len(flows))
        if mixed.any():
            pairs = segments.pairs[rows]
            rows = rows[np.lexsort((rows, np.where(mixed[pairs], 2 * pairs, lanes[rows])))]
        lanes = lanes[rows]
        borders = [0, *(np.flatnonzero(lanes[1:] != lanes[:-1]) + 1).tolist(), len(rows)]
        lane_of, row_of = lanes.tolist(), rows.tolist()
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
            self._collector.run(row_of[begin], run)

    # ---- connections on which it is not

    def _one_by_one(
        self, data: memoryview, batch: PacketBatch, segments: Segments, flows: list[Flow], rows: Integers
    ) -> None:
        packets = segments.rows[rows]
        columns = (
            rows,
            segments.pairs[rows],
            segments.sides[rows],
            segments.flags[rows],
            segments.sequences[rows],
            segments.acknowledged[rows],
            segments.sizes[rows],
            segments.starts[rows],
            segments.starts[rows] + np.minimum(segments.present, segments.sizes)[rows],
            batch.times_ns[packets],
            packets + batch.first,
        )
        collector = self._collector
        for row, pair, side, flags, sequence, acknowledged, size, start, stop, time_ns, packet in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            collector.row = row
            flow = flows[pair]
            if flags & SYN or flow.index < 0:
                flow = flows[pair] = self._open(flow, side, flags, sequence, acknowledged, time_ns, packet)
            if not flow.closed:
                waiting_bytes = flow.waiting_bytes
                flow.packet(side, flags, sequence, acknowledged, size, data[start:stop], time_ns, packet)
                if waiting_bytes != flow.waiting_bytes:
                    self._waiting_bytes += flow.waiting_bytes - waiting_bytes
                    self._limit_waiting(flow, time_ns, packet)

    def _open(
        self, flow: Flow, side: int, flags: int, sequence: int, acknowledged: int, time_ns: int, packet: int
    ) -> Flow:
        """The connection that a SYN, or the first packet between two endpoints, belongs to."""
        syn, acknowledges = bool(flags & SYN), acknowledged if flags & ACK else None
        if flow.index >= 0:
            if flow.takes_syn(side, sequence, acknowledges):
                return flow
            self._waiting_bytes -= flow.waiting_bytes
            if not flow.closed:
                flow.give_up_all(time_ns, packet)
            flow = self._flows[flow.key] = Flow(flow.key, self._collector)
            flow.last = self._batches
        flow.begin(self.streams, side, syn=syn, ack=acknowledges is not None)
        self.streams += 1
        if syn:
            flow.takes_syn(side, sequence, acknowledges)
        return flow

    def _limit_waiting(self, flow: Flow, time_ns: int, packet: int) -> None:
        for side, lane in enumerate(flow.lanes):
            while lane.waiting and (
                lane.waiting_bytes > MOST_WAITING_LANE_BYTES or self._waiting_bytes > MOST_WAITING_BYTES
            ):
                self._waiting_bytes -= lane.waiting_bytes
                flow.tell(side, lane.give_up_first_hole(time_ns, packet))
                self._waiting_bytes += lane.waiting_bytes
                flow.end_if_done(side, time_ns, packet)


def _sort_out(segments: Segments, flows: list[Flow], lanes: Integers) -> tuple[Marks, Integers]:
    """Which connections have to be looked at packet by packet, and on the others, which segments carry new bytes.

    On a connection that is steady, segments are the next bytes in order, or repeat what was there.

    Args:
        segments: of the batch.
        flows: by pair.
        lanes: of each segment: two for each pair, one for each side.

    Returns:
        A mark for each pair, and segments sorted by lane (of the marked pairs too).
    """
    odd = np.fromiter((not flow.steady for flow in flows), np.bool_, len(flows))
    special = (segments.flags & (SYN | RST | FIN) != 0) | (segments.present < segments.sizes)
    odd[segments.pairs[special]] = True
    nexts = np.array([lane.next & _MASK for flow in flows for lane in flow.lanes], np.int64)
    rows = np.flatnonzero(segments.sizes)
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
        rows = rows[new]
    ahead = (segments.acknowledged - nexts[lanes ^ 1]) & _MASK
    unseen = (ahead != 0) & (ahead < _HALF) & (segments.flags & ACK != 0)
    odd[segments.pairs[unseen]] = True
    return odd, rows
