"""The traffic on a link in one direction, in a few bytes per frame."""

from array import array
from collections.abc import Iterator

import numpy as np


class Volume:
    """Time, length and packet of every frame of one direction. Iteration yields times (ns) and lengths (bytes)."""

    __slots__ = ("_lengths", "_packets", "_times_ns")

    def __init__(self) -> None:
        self._times_ns = array("q")
        self._lengths = array("q")
        self._packets = array("q")

    def add(self, time_ns: int, length: int, packet: int) -> None:
        """Add a frame that a packet completed."""
        self._times_ns.append(time_ns)
        self._lengths.append(length)
        self._packets.append(packet)

    def __len__(self) -> int:
        return len(self._times_ns)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times_ns, self._lengths, strict=True)

    def per_packet(self) -> tuple[int, int]:
        """Return the number of packets that completed frames, and the most frames that one packet completed."""
        if len(self) == 1:  # as on each of a flood of connections
            return 1, 1
        _, counts = np.unique(np.array(self._packets, np.int64), return_counts=True)
        return len(counts), int(counts.max(initial=0))
