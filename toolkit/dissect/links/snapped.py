"""A frame of which the capture has the header, but not all of the rest: it is skipped as a whole.

Captures with a snap length consist of such frames; a gap inside a frame makes one.
"""

from collections.abc import Callable
from dataclasses import replace

from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.lane import FlowLane
from toolkit.dissect.stream import Gap


class Snapped:
    """Skips the rest of a frame of known length; its lane continues after it.

    Args:
        lane: lane of the frame.
        record: record of the frame, without time and packet of its end.
    """

    def __init__(self, lane: FlowLane, record: DecodedFrame) -> None:
        self._lane = lane
        self._record = record
        self._flow: Flow = lane.flow
        self._stop = record.offset + record.length
        lane.flow.needed = 0

    def step(self) -> bool:
        """Skip the available bytes; returns True if the frame has ended."""
        flow = self._flow
        flow.consume(min(len(flow.view), self._stop - flow.offset))
        if flow.offset < self._stop:
            return False
        self._finish(flow.moment(self._stop))
        return True

    def skip(self, gap: Gap) -> Gap | None:
        """Skip missing bytes; returns the part of the gap after the frame, None if there is none."""
        self.step()
        size_bytes = min(self._stop - self._flow.offset, gap.size_bytes)
        self._flow.skip(size_bytes)
        if self._flow.offset == self._stop:
            self._finish((gap.time_ns, gap.packet))
        rest = gap.size_bytes - size_bytes
        return replace(gap, size_bytes=rest) if rest else None

    def _finish(self, moment: tuple[int, int]) -> None:
        self._record.time_ns, self._record.packet = moment
        self._lane.link.readings[self._flow.direction] = self._lane
        self._lane.link.emit(self._record)

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return False

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return 0

    def close(self, why: str) -> None:  # noqa: ARG002 - that the frame is not whole is known
        """Record the frame, because the flow ends inside it."""
        flow = self._flow
        flow.consume(min(len(flow.view), self._stop - flow.offset))
        self._record.length = flow.offset - self._record.offset
        self._finish(flow.moment(flow.offset))

    def lost(self, size_bytes: int) -> None:
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
        self._lane.lost(size_bytes)


def passed_over(reading: object, gap: Gap, read_by: Callable[[Snapped], None]) -> Gap | None:
    """Return the part of a gap after the frame that it is in; None if there is none.

    Args:
        reading: reading of the flow with the gap.
        gap: the gap.
        read_by: called with the reading that skips the frame, if the lane had begun a frame.
    """
    if isinstance(reading, FlowLane) and (record := reading.snapped()) is not None:
        reading = Snapped(reading, record)
        read_by(reading)
    return reading.skip(gap) if isinstance(reading, Snapped) else gap
