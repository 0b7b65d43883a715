"""The traffic on a link in one direction, in a few bytes per frame."""

from array import array
from collections.abc import Iterator

import numpy as np


class Volume:
    """Time, length and packet of every frame of one direction. Iteration yields times (ns) and lengths (bytes)."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = array("q")  # one array: a capture may have any number of links

    def add(self, time_ns: int, length: int, packet: int) -> None:
        """Add a frame that a packet completed."""
        self._frames.extend((time_ns, length, packet))

    def __len__(self) -> int:
        return len(self._frames) // 3

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._frames[::3], self._frames[1::3], strict=True)

    def per_packet(self) -> tuple[int, int]:
        """Return the number of packets that completed frames, and the most frames that one packet completed."""
        if len(self) == 1:  # as on each of a flood of connections
            return 1, 1
        _, counts = np.unique(np.array(self._frames[2::3], np.int64), return_counts=True)
        return len(counts), int(counts.max(initial=0))
