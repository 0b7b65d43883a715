"""Collects what happens on connections in a batch, and joins bytes into runs."""

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Protocol

from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Gap, Run, Stream, StreamEvent

_key = itemgetter(0)


class Connection(Protocol):
    """What events are about: a TCP connection, or a link over queue pairs."""

    @property
    def stream(self) -> Stream:
        """It as others see it."""

    @property
    def batched(self) -> bool:
        """Directions need not be in order against each other."""

    def direction(self, side: int, /) -> Direction:
        """Which way a side sends."""


class _OpenRun:
    """A run that may still grow."""

    __slots__ = ("packets", "pieces", "side", "times_ns")

    def __init__(self, side: int) -> None:
        self.side = side
        self.pieces: list[memoryview] = []
        self.times_ns: list[int] = []
        self.packets: list[int] = []


class EventCollector:
    """Events of one batch, in the order of the packets that brought them about."""

    def __init__(self) -> None:
        self._found: list[tuple[int, StreamEvent | tuple[Connection, _OpenRun]]] = []
        self._open: dict[tuple[Connection, int], _OpenRun] = {}
        self.row = 0
        """The packet that is looked at."""

    def run(self, row: int, run: Run) -> None:
        """Add a run that is complete."""
        self._found.append((row, run))

    def piece(self, flow: Connection, side: int, data: memoryview, time_ns: int, packet: int) -> None:
        """Add bytes to the run of their direction."""
        run = self._open.get((flow, side))
        if run is None:
            if not flow.batched:
                self._open.pop((flow, 1 - side), None)
            run = self._open[flow, side] = _OpenRun(side)
            self._found.append((self.row, (flow, run)))
        run.pieces.append(data)
        run.times_ns.append(time_ns)
        run.packets.append(packet)

    def event(self, flow: Connection, side: int, event: Gap | End) -> None:
        """Add what is no bytes; runs do not reach over it."""
        self._open.pop((flow, side), None)
        if not flow.batched:
            self._open.pop((flow, 1 - side), None)
        self._found.append((self.row, event))

    def drain(self) -> list[StreamEvent]:
        """Everything so far, in order."""
        found, self._found = self._found, []
        self._open = {}
        found.sort(key=_key)
        return [_closed(*event) if isinstance(event, tuple) else event for _, event in found]


def _closed(flow: Connection, run: _OpenRun) -> Run:
    ends = list(accumulate(map(len, run.pieces)))
    return Run(flow.stream, flow.direction(run.side), joined(run.pieces), ends, run.times_ns, run.packets)


def joined(pieces: Sequence[memoryview]) -> memoryview:
    """The pieces in one; nothing is copied if there is one only."""
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
