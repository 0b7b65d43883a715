"""Assembles the byte streams of a capture: over TCP, and over RDMA queue pairs that TCP connections introduce."""

from collections import Counter
from collections.abc import Collection

from toolkit.capture.formats.packets import PacketBatch
from toolkit.dissect.roce.follower import QueuePairFollower
from toolkit.dissect.roce.packets import read_packets
from toolkit.dissect.stream import Stream, StreamEvent
from toolkit.dissect.tcp import MOST_FLOWS, MOST_STREAMS, Assembler
from toolkit.dissect.tcp.internet import ROCE_PORT


class Assembly:
    """Assembles the byte streams of a capture. Feed it the batches of a capture in order.

    Args:
        ports: assemble only connections with one of these ports at either end, and links over RDMA that such a
            connection introduces; with the port of RoCE, all links over RDMA. None assembles all.
        most_flows: limit of the connections that are tracked at a time.
        most_streams: limit of the streams in :attr:`known`.
    """

    def __init__(
        self,
        ports: Collection[int] | None = None,
        most_flows: int = MOST_FLOWS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self._tcp = Assembler(ports, most_flows, most_streams)
        follows_unknown = ports is None or ROCE_PORT in ports
        self._queue_pairs = QueuePairFollower(self._tcp.add, most_flows, follows_unknown=follows_unknown)

    @property
    def known(self) -> list[Stream]:
        """The streams so far, up to ``most_streams``."""
        return self._tcp.known

    @property
    def skipped(self) -> Counter[str]:
        """Number of packets that could not be read, by reason."""
        return self._tcp.skipped

    def feed(self, batch: PacketBatch) -> list[StreamEvent]:
        """Return the events of a batch, those of TCP first."""
        events = self._tcp.feed(batch)
        self._queue_pairs.watch(events)
        if not len(batch):
            return events
        packets = read_packets(self._tcp.data, batch, self._tcp.roce)
        return events + self._queue_pairs.feed(packets, int(batch.times_ns.max()))

    def finish(self) -> list[StreamEvent]:
        """Return the events left at the end of the capture."""
        events = self._tcp.finish()
        self._queue_pairs.watch(events)
        return events + self._queue_pairs.finish()
