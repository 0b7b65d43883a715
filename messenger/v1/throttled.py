"""A frame reader that hands messages on as far as the throttles of the session's policy let it."""

from typing import TYPE_CHECKING

from messenger.gate import Gate
from messenger.v1.framing import FrameReader, StreamFrame

if TYPE_CHECKING:
    from messenger.link import Link


class ThrottledReader:
    """Frames of another reader; a message that must wait is handed out again when the link goes on."""

    __slots__ = ("_gate", "_held", "_link", "_reader")

    def __init__(self, link: "Link", gate: Gate, reader: FrameReader) -> None:
        self._link = link
        self._gate = gate
        self._reader = reader
        self._held: StreamFrame | None = None
        """The message that waits, with its length in place of its end."""

    @property
    def needed(self) -> int:
        """See :attr:`FrameReader.needed`."""
        return self._reader.needed

    @needed.setter
    def needed(self, count: int) -> None:
        self._reader.needed = count

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> StreamFrame | None:
        """See :meth:`FrameReader.next_frame`."""
        frame, self._held = self._held, None
        if frame is None:
            frame = self._reader.next_frame(view, start, end, owned=owned)
        else:
            frame = (start + frame[0], *frame[1:])
        if frame is None or len(frame) == 2:
            return frame
        stop, header, front, middle, data, flags = frame
        # The receive this is a part of tells the time.
        if self._gate.admit(len(front) + len(middle) + len(data), self._link.last_activity_s):
            return frame
        # Its bytes stay in the receive buffer, but whoever was asked about it is not asked again.
        self._held = stop - start, header, front, middle, data, flags
        return None
