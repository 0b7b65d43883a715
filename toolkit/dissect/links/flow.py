"""The bytes of one direction that no frame has consumed yet, and the packets that brought them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice

import numpy as np

from toolkit.capture.formats.packets import Integers
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import Ending, Run

_EMPTY = memoryview(b"")
_PACKET_COST_BYTES = 120
"""Memory per packet: three numbers in three lists."""
_HEAD_BYTES = 256
"""Minimum number of bytes read at once after a frame that began in an earlier run."""


class Flow:
    """One direction of a stream.

    A run is read in place; :meth:`keep` copies the rest of it before its memory is reused. A frame that came in
    several runs is assembled first, but only that frame: the rest of the last run is again read in place.
    """

    __slots__ = (
        "_ends",
        "_own",
        "_packets",
        "_past",
        "_past_end",
        "_run",
        "_taken",
        "_times_ns",
        "direction",
        "ended",
        "needed",
        "offset",
        "owned",
        "view",
    )

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.view = _EMPTY
        """The bytes that can be read now."""
        self.offset = 0
        """Offset of its first byte in the direction, counting missing bytes."""
        self.needed = 0
        """Number of bytes that must be there before the next attempt to read; 0 if any will do."""
        self.ended: Ending | None = None
        self.owned = True
        """True if the view's memory is not written to any more, so that slices of it stay valid."""
        self._own = bytearray()
        self._run = _EMPTY
        self._taken = 0  # bytes of the run that are in the view
        self._ends: list[int] = []
        self._times_ns: list[int] = []
        self._packets: list[int] = []
        self._past_end = 0
        self._past = 0, 0  # time and number of the packet that ends there

    @property
    def pending_bytes(self) -> int:
        """Memory in bytes of unconsumed bytes and of their packets' times and numbers."""
        return len(self.view) + _PACKET_COST_BYTES * len(self._ends)

    def take(self, run: Run) -> None:
        """Add the next run. Call :meth:`more` and :meth:`keep` afterwards."""
        base = self.offset + len(self.view)
        self._ends += [base + end for end in run.ends]
        self._note_packets(run)
        self._run = run.data
        if self.view:
            self._taken = 0
            self._grow()
        else:
            self._own = bytearray()
            self.owned = False
            self.view = run.data
            self._taken = len(run.data)

    def _note_packets(self, run: Run) -> None:
        """Note the packets of the run. Early bytes count as brought by the packet that filled the hole."""
        latest = (self._packets[-1], self._times_ns[-1]) if self._packets else (self._past[1], self._past[0])
        packets, times_ns = run.packets, run.times_ns
        if packets and (packets[0] < latest[0] or list(packets) != sorted(packets)):
            moments = accumulate(zip(packets, times_ns, strict=True), max, initial=latest)
            packets, times_ns = map(list, zip(*islice(moments, 1, None), strict=True))
        self._packets += packets
        self._times_ns += times_ns

    def more(self) -> bool:
        """Put more of the run into the view; returns False if all of it is there."""
        if self._taken == len(self._run):
            return False
        left = len(self.view)
        if left <= self._taken:
            # All bytes that are left are in the run itself.
            self.view = self._run[self._taken - left :]
            self._taken = len(self._run)
            self._own = bytearray()
            self.owned = False
        else:
            self._grow()
        return True

    def _grow(self) -> None:
        left = len(self.view)
        size = max(self.needed - left, left, _HEAD_BYTES)
        piece = self._run[self._taken : self._taken + size]
        self._taken += len(piece)
        if left != len(self._own):
            self._own = bytearray(self.view)
        self.view = _EMPTY
        try:
            self._own += piece
        except BufferError:  # a record refers to parts of it
            self._own = self._own + piece
        self.view = memoryview(self._own)
        self.owned = True

    def consume(self, size_bytes: int) -> None:
        """Remove bytes from the beginning of the view."""
        self.view = self.view[size_bytes:]
        self.offset += size_bytes

    def keep(self) -> None:
        """Copy the rest of the run, because its memory is about to be reused."""
        if len(self.view) != len(self._own) or not self.view:
            self._own = bytearray(self.view)
            self.view = memoryview(self._own)
            self.owned = True
        self._run = _EMPTY
        self._taken = 0
        old = bisect_right(self._ends, self.offset)
        if old:
            self._past_end = self._ends[old - 1]
            self._past = self._times_ns[old - 1], self._packets[old - 1]
            del self._ends[:old], self._times_ns[:old], self._packets[:old]

    def packets_from(self, start: int) -> Iterator[int]:
        """Yield where packets begin in ``view[start:]``. The view's first byte counts as such a place."""
        if start == 0:
            yield 0
        for end in islice(self._ends, bisect_right(self._ends, self.offset), None):
            if start <= end - self.offset < len(self.view):
                yield end - self.offset

    def skip(self, size_bytes: int) -> None:
        """Skip missing bytes; all bytes before them must have been consumed."""
        self.offset += size_bytes

    def moment(self, end: int) -> tuple[int, int]:
        """Return time and number of the packet with the last byte before ``end``, an offset in the direction."""
        if end <= self._past_end or not self._ends:  # no packet after a gap yet
            return self._past
        at = bisect_left(self._ends, end)
        if at == len(self._ends):
            at -= 1
        return self._times_ns[at], self._packets[at]

    def moments(self, ends: Integers) -> tuple[Integers, Integers]:
        """Return times and numbers of the packets with the last bytes before ``ends``; see :meth:`moment`."""
        known = [self._past_end, *self._ends]
        at = np.minimum(np.searchsorted(known, ends), len(known) - 1)
        past_time_ns, past_packet = self._past
        return np.array([past_time_ns, *self._times_ns])[at], np.array([past_packet, *self._packets])[at]
