"""The streams of a capture: over TCP, and over queue pairs of RDMA that TCP connections introduce."""

from collections import Counter
from collections.abc import Collection

from toolkit.capture.formats.packets import PacketBatch
from toolkit.dissect.roce.follower import QueuePairFollower
from toolkit.dissect.roce.packets import read_packets
from toolkit.dissect.stream import Stream, StreamEvent
from toolkit.dissect.tcp import MOST_FLOWS, MOST_STREAMS, Assembler
from toolkit.dissect.tcp.internet import ROCE_PORT


class Assembly:
    """Puts the byte streams of a capture together. Feed it the batches of a capture in order.

    Args:
        ports: look at connections only that have one of these at either end, and at links over RDMA that such a
            connection introduces; if the port of RoCE is among them, at all of those.
        most_flows: how many connections are remembered at a time.
        most_streams: how many streams are listed in :attr:`known`.
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
        """The streams that have begun, as far as memory is spent on them."""
        return self._tcp.known

    @property
    def skipped(self) -> Counter[str]:
        """Packets that could not be read, by reason."""
        return self._tcp.skipped

    def feed(self, batch: PacketBatch) -> list[StreamEvent]:
        """What happens in a batch; that on TCP comes first."""
        events = self._tcp.feed(batch)
        self._queue_pairs.watch(events)
        if not len(batch):
            return events
        packets = read_packets(self._tcp.data, batch, self._tcp.roce)
        return events + self._queue_pairs.feed(packets, int(batch.times_ns.max()))

    def finish(self) -> list[StreamEvent]:
        """What is left at the end of the capture."""
        events = self._tcp.finish()
        self._queue_pairs.watch(events)
        return events + self._queue_pairs.finish()
