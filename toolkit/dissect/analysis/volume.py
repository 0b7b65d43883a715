"""The traffic on a link in one direction, in a few bytes per frame."""

from collections.abc import Iterator

from toolkit.dissect.analysis.rows import RowStore, signed, unsigned


class Volume:
    """Time and length of every frame of one direction. Iteration yields times (ns) and lengths (bytes)."""

    __slots__ = ("_alike", "_frames", "_last_packet", "most_per_packet", "packets")

    def __init__(self, store: RowStore) -> None:
        self._frames = store.table(2)
        self._last_packet = -1
        self._alike = 0
        """Number of frames that the last packet completed."""
        self.packets = 0
        """Number of packets that completed frames."""
        self.most_per_packet = 0
        """The most frames that one packet completed."""

    def add(self, time_ns: int, length: int, packet: int) -> None:
        """Add a frame that a packet completed; its number is never lower than that of the frame before."""
        self._frames.add((unsigned(time_ns), length))
        if packet != self._last_packet:
            self._last_packet, self._alike = packet, 0
            self.packets += 1
        self._alike += 1
        self.most_per_packet = max(self.most_per_packet, self._alike)

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((signed(time), length) for time, length in self._frames)
