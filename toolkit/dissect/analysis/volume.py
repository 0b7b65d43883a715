"""What passed on a link in one direction, in a few bytes for each frame."""

from array import array
from collections.abc import Iterator

import numpy as np


class Volume:
    """Time, length and packet of every frame of one direction. Iterating gives times (ns) and lengths (bytes)."""

    __slots__ = ("_lengths", "_packets", "_times_ns")

    def __init__(self) -> None:
        self._times_ns = array("q")
        self._lengths = array("q")
        self._packets = array("q")

    def add(self, time_ns: int, length: int, packet: int) -> None:
        """Add a frame that was complete in a packet."""
        self._times_ns.append(time_ns)
        self._lengths.append(length)
        self._packets.append(packet)

    def __len__(self) -> int:
        return len(self._times_ns)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times_ns, self._lengths, strict=True)

    def per_packet(self) -> tuple[int, int]:
        """How many packets completed frames, and the most frames that one of them completed."""
        if len(self) == 1:  # as on each of a flood of connections
            return 1, 1
        _, counts = np.unique(np.array(self._packets, np.int64), return_counts=True)
        return len(counts), int(counts.max(initial=0))
