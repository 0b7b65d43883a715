"""The result of reading a capture file: batches of packets, as columns over one buffer.

A batch of some MiB is walked once; everything after that works on columns, so that no object is made for an unused
packet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
Records = npt.NDArray[Any]
"""Structured arrays of one dtype."""


@dataclass(slots=True, eq=False)
class PacketBatch:
    """A batch of consecutive packets. Its buffers are reused: copy what you keep beyond the next batch."""

    data: memoryview
    """A part of the file."""
    first: int
    """Number of the first packet in the capture, from 0."""
    times_ns: Integers
    """Unix time of each packet; that of the previous packet if the file has none."""
    offsets: Integers
    """Offset of each packet in ``data``."""
    captured_bytes: Integers
    """Captured length of each packet."""
    original_bytes: Integers
    """Original length of each packet."""
    link_types: Integers
    """Link type of each packet (:class:`.LinkType`, or another value)."""

    def __len__(self) -> int:
        return len(self.offsets)

    def packet(self, index: int) -> memoryview:
        """Return the captured bytes of a packet, by its index in the batch."""
        start = int(self.offsets[index])
        return self.data[start : start + int(self.captured_bytes[index])]

    def part(self, start: int, stop: int) -> "PacketBatch":
        """Return the packets from index ``start`` up to ``stop``, on the same buffers."""
        columns = (self.times_ns, self.offsets, self.captured_bytes, self.original_bytes, self.link_types)
        return PacketBatch(self.data, self.first + start, *(column[start:stop] for column in columns))

    def packets(self) -> Iterator[tuple[int, int, int, memoryview]]:
        """Yield number in the capture, time, link type and captured bytes of each packet."""
        columns = zip(
            self.times_ns.tolist(),
            self.link_types.tolist(),
            self.offsets.tolist(),
            self.captured_bytes.tolist(),
            strict=True,
        )
        for number, (time_ns, link_type, start, size) in enumerate(columns, self.first):
            yield number, time_ns, link_type, self.data[start : start + size]


def records_at(data: memoryview, positions: Integers, layout: np.dtype[Any]) -> Records:
    """Return the structures at ``positions`` of ``data`` as one array.

    Raises:
        IndexError: a structure extends beyond ``data``.
    """
    if not len(positions):
        return np.empty(0, layout)
    size = layout.itemsize
    if len(data) < size:
        raise IndexError(f"{len(data)} bytes hold no structure of {size}")
    everywhere = np.ndarray((len(data) - size + 1,), np.dtype((np.void, size)), buffer=data, strides=(1,))
    return everywhere[positions].view(layout)
