"""A frame reader that lets an interceptor see every frame before it is handed on."""

from typing import TYPE_CHECKING

from messenger.interception import Action, Point, Way
from messenger.v1.framing import FrameReader, StreamFrame
from messenger.v1.wire import Piece

if TYPE_CHECKING:
    from messenger.link import Link


class InterceptedReader:
    """Frames of another reader, held back at breakpoints. A frame that was held is let through the second time."""

    __slots__ = ("_link", "_passed", "_reader")

    def __init__(self, link: "Link", reader: FrameReader) -> None:
        self._link = link
        self._reader = reader
        self._passed = False
        """The interceptor has been asked about the next frame."""

    @property
    def needed(self) -> int:
        """See :attr:`FrameReader.needed`."""
        return self._reader.needed

    @needed.setter
    def needed(self, count: int) -> None:
        self._reader.needed = count

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> StreamFrame | None:
        """See :meth:`FrameReader.next_frame`; raises INTERCEPTED too."""
        frame = self._reader.next_frame(view, start, end, owned=owned)
        if frame is None or self._passed:
            self._passed = False
            return frame
        link = self._link
        tag = frame[1].PIECE if len(frame) == 2 else Piece.MSG
        action = link.ask(Point(tag.value, Way.READ))
        if action is Action.CONTINUE:
            return frame
        # Its bytes stay in the receive buffer: it is read from there again when the link goes on.
        self._passed = True
        now = link.last_activity_s  # the receive this is a part of
        if action is Action.BLOCK:
            link.hold(lambda _now: None, now)
        else:
            link.stall(None, now)
        return None
