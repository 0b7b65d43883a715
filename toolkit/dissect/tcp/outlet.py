"""Collects the events of connections in a batch, and joins bytes into runs."""

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Protocol

from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Gap, Run, Stream, StreamEvent

_key = itemgetter(0)


class Connection(Protocol):
    """The subject of events: a TCP connection, or a link over queue pairs."""

    @property
    def stream(self) -> Stream:
        """The connection as decoders see it."""

    @property
    def batched(self) -> bool:
        """True if the order between the two directions does not matter."""

    def direction(self, side: int, /) -> Direction:
        """Return the direction in which a side sends."""


class _OpenRun:
    """A run that may still grow."""

    __slots__ = ("packets", "pieces", "side", "times_ns")

    def __init__(self, side: int) -> None:
        self.side = side
        self.pieces: list[memoryview] = []
        self.times_ns: list[int] = []
        self.packets: list[int] = []


class EventCollector:
    """Collects the events of one batch, in the order of the packets that caused them."""

    def __init__(self) -> None:
        self._found: list[tuple[int, StreamEvent | tuple[Connection, _OpenRun]]] = []
        self._open: dict[tuple[Connection, int], _OpenRun] = {}
        self.row = 0
        """The packet that is being read."""

    def run(self, row: int, run: Run) -> None:
        """Add a complete run."""
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
        """Add a gap or an end; no run continues after it."""
        self._open.pop((flow, side), None)
        if not flow.batched:
            self._open.pop((flow, 1 - side), None)
        self._found.append((self.row, event))

    def drain(self) -> list[StreamEvent]:
        """Return all events so far, in order, and forget them."""
        found, self._found = self._found, []
        self._open = {}
        found.sort(key=_key)
        return [_closed(*event) if isinstance(event, tuple) else event for _, event in found]


def _closed(flow: Connection, run: _OpenRun) -> Run:
    ends = list(accumulate(map(len, run.pieces)))
    return Run(flow.stream, flow.direction(run.side), joined(run.pieces), ends, run.times_ns, run.packets)


def joined(pieces: Sequence[memoryview]) -> memoryview:
    """Join the pieces; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
