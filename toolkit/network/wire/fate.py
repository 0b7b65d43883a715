"""The packets of one link: a queue with the impairments of its state, applied in netem's order.

Nothing here reads a clock or a socket: times are passed in, in nanoseconds. The same seed, packets and times give
the same result; the moments at which :meth:`Fate.due` is called affect only how late packets are.
"""

import heapq
import random
from collections.abc import Callable, Sequence, Sized
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from toolkit.network.distributions import ENTRIES, SCALE, table
from toolkit.network.state import LinkState
from toolkit.network.wire import chance

MILLISECOND_NS = 1_000_000
_SECOND_NS = 1_000_000_000
P = TypeVar("P", bound=Sized)
"""A packet; its length is its size in bytes."""


@dataclass(slots=True)
class Counts:
    """Packets of a link since it exists."""

    packets: int = 0
    """Packets sent."""
    bytes: int = 0
    """Bytes sent, with Ethernet headers."""
    delivered: int = 0
    lost: int = 0
    """Packets lost by the loss model."""
    overflowed: int = 0
    """Packets lost because the queue was full."""
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    undelivered: int = 0
    """Packets that the receiver's interface did not take."""

    def as_json(self) -> dict[str, int]:
        """The JSON object."""
        return asdict(self)


class Fate(Generic[P]):
    """The queue of a link.

    Args:
        state: the impairments.
        flip: returns a packet with one bit flipped, but the same checksums.
        counts: counters to update; new ones unless given.
    """

    __slots__ = (
        "_alike",
        "_bits_per_s",
        "_corrupted",
        "_delay",
        "_duplicated",
        "_flip",
        "_gap",
        "_heap",
        "_last_ns",
        "_limit",
        "_lost",
        "_number",
        "_queued",
        "_random",
        "_reordered",
        "_since_reordered",
        "_slot",
        "_slot_bytes",
        "_slot_ns",
        "_slot_packets",
        "counts",
        "next_ns",
        "state",
    )

    def __init__(self, state: LinkState, flip: Callable[[P, int], P], counts: Counts | None = None) -> None:
        self._flip = flip
        self.counts = counts or Counts()
        self.next_ns: int | None = None
        """Time at which :meth:`due` has the next packet; None if the queue is empty."""
        self._heap: list[tuple[int, int, Sequence[P]]] = []
        """Packets that leave together, by time and by number."""
        self._queued = 0
        self._number = 0
        self._last_ns = 0
        self.become(state)

    def become(self, state: LinkState) -> None:
        """Change the impairments; queued packets keep their times."""
        self.state = state
        self._random = random.Random(state.seed)
        draw = self._random.random
        self._lost = chance.losses(draw, state.loss)
        self._duplicated = chance.event(draw, state.duplicate_percent, state.duplicate_correlation_percent)
        self._corrupted = chance.event(draw, state.corrupt_percent, state.corrupt_correlation_percent)
        self._reordered = chance.event(draw, state.reorder_percent, state.reorder_correlation_percent)
        self._gap = state.reorder_gap or 1
        self._since_reordered = 0
        self._delay = _delays(state, chance.correlated(draw, state.delay_correlation_percent))
        # In whole bytes, as in the kernel.
        self._bits_per_s = state.rate_bits_per_s // 8 * 8
        self._limit = state.limit_packets
        self._alike = not (
            state.jitter_ms
            or state.duplicate_percent
            or state.corrupt_percent
            or state.reorder_percent
            or self._bits_per_s
            or state.slot
        )
        self._slot = state.slot
        self._slot_ns = -1  # over
        self._slot_packets = self._slot_bytes = 0
        self._look_ahead()

    @property
    def queued(self) -> int:
        """Number of queued packets."""
        return self._queued

    def offer(self, packets: Sequence[P], now_ns: int) -> None:
        """Take packets from the sender."""
        counts = self.counts
        counts.packets += len(packets)
        counts.bytes += sum(map(len, packets))
        if self._alike:
            self._queue_together(packets, now_ns)
        else:
            for packet in packets:
                self._decide(packet, now_ns)
        self._look_ahead()

    def _queue_together(self, packets: Sequence[P], now_ns: int) -> None:
        """Queue packets that have the same delay, if any: one entry is much quicker than one for each."""
        if self._lost is not chance.never:
            lost = self._lost
            arriving = [packet for packet in packets if not lost()]
            self.counts.lost += len(packets) - len(arriving)
            packets = arriving
        if len(packets) > self._limit - self._queued:
            room = max(0, self._limit - self._queued)
            self.counts.overflowed += len(packets) - room
            packets = packets[:room]
        if packets:
            self._push(now_ns + self._delay(), packets)

    def _decide(self, packet: P, now_ns: int) -> None:
        """Lose, duplicate or queue a packet."""
        counts = self.counts
        twice = self._duplicated()
        if self._lost():
            if not twice:
                counts.lost += 1
                return
            twice = False  # a duplicated packet that is lost once still arrives once
        if twice:
            counts.duplicated += 1
            if self._lost():
                counts.lost += 1
            else:
                self._queue(packet, now_ns)
        self._queue(packet, now_ns)

    def _queue(self, packet: P, now_ns: int) -> None:
        if self._corrupted():
            packet = self._flip(packet, int(self._random.random() * len(packet) * 8))
            self.counts.corrupted += 1
        if self._queued >= self._limit:
            self.counts.overflowed += 1
            return
        self._since_reordered += 1
        if self._since_reordered >= self._gap and self._reordered():
            self._since_reordered = 0
            self.counts.reordered += 1
            self._push(now_ns, (packet,), before=True)
            return
        leaves_ns = now_ns + self._delay()
        if self._bits_per_s:
            # It is sent once the previous packet has been.
            if self._heap:
                leaves_ns = max(leaves_ns, self._last_ns)
            leaves_ns = max(leaves_ns, now_ns) + len(packet) * 8 * _SECOND_NS // self._bits_per_s
            self._last_ns = leaves_ns
        self._push(max(leaves_ns, now_ns), (packet,))

    def _push(self, leaves_ns: int, packets: Sequence[P], *, before: bool = False) -> None:
        """Add packets to the queue, behind or before all others that leave at the same time."""
        self._number += 1
        self._queued += len(packets)
        heapq.heappush(self._heap, (leaves_ns, -self._number if before else self._number, packets))

    def due(self, now_ns: int) -> list[P]:
        """Return the packets that have arrived by now, in order."""
        arrived: list[P] = []
        while self.next_ns is not None and self.next_ns <= now_ns:
            packets = heapq.heappop(self._heap)[2]
            arrived += packets
            if self._slot is not None:
                self._spend(sum(map(len, packets)))
            self._look_ahead()
        self._queued -= len(arrived)
        self.counts.delivered += len(arrived)
        return arrived

    def flush(self) -> list[P]:
        """Remove all queued packets and return them in the order of their times."""
        arrived = [packet for entry in sorted(self._heap, key=lambda entry: entry[:2]) for packet in entry[2]]
        self._heap.clear()
        self._queued = 0
        self._look_ahead()
        self.counts.delivered += len(arrived)
        return arrived

    def _look_ahead(self) -> None:
        """Set the time of the next packet; the first packet after the end of a slot opens another one."""
        if not self._heap:
            self.next_ns = None
            return
        leaves_ns = self._heap[0][0]
        if self._slot is not None:
            if self._slot_ns < leaves_ns:
                self._open_slot(leaves_ns)
            leaves_ns = max(leaves_ns, self._slot_ns)
        self.next_ns = leaves_ns

    def _spend(self, size_bytes: int) -> None:
        """Count a packet against its slot; when the slot is full, another one follows."""
        assert self._slot is not None
        self._slot_packets -= 1
        self._slot_bytes -= size_bytes
        if (self._slot.packets and self._slot_packets <= 0) or (self._slot.bytes and self._slot_bytes <= 0):
            self._open_slot(self._slot_ns)

    def _open_slot(self, since_ns: int) -> None:
        slot = self._slot
        assert slot is not None
        span_ms = slot.max_delay_ms - slot.min_delay_ms
        self._slot_ns = since_ns + round((slot.min_delay_ms + span_ms * self._random.random()) * MILLISECOND_NS)
        self._slot_packets, self._slot_bytes = slot.packets, slot.bytes


def _delays(state: LinkState, number: chance.Draw) -> Callable[[], int]:
    """Return a function that draws the delay of a packet in nanoseconds, possibly negative."""
    mean_ns, jitter_ns = round(state.delay_ms * MILLISECOND_NS), state.jitter_ms * MILLISECOND_NS
    if not jitter_ns:
        return lambda: mean_ns
    if state.distribution == "uniform":
        return lambda: mean_ns + round((2 * number() - 1) * jitter_ns)
    quantiles = table(state.distribution)
    return lambda: mean_ns + round(quantiles[int(number() * ENTRIES)] * jitter_ns / SCALE)
