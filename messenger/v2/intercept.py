"""A frame reader that lets an interceptor see every frame before it is handed on."""

from typing import TYPE_CHECKING

from messenger.interception import Action, Point, Way
from messenger.v2.framing import ABORTED, Frame, FrameReader
from messenger.v2.wire import tag_name

if TYPE_CHECKING:
    from messenger.link import Link


class InterceptedReader:
    """Frames of another reader, held back at breakpoints. A frame that was held is handed out once more."""

    __slots__ = ("_held", "_link", "_reader")

    def __init__(self, link: "Link", reader: FrameReader) -> None:
        self._link = link
        self._reader = reader
        self._held: Frame | None = None
        """The frame that was held, with its length in place of its end."""

    @property
    def max_frame_bytes(self) -> int:
        """See :attr:`FrameReader.max_frame_bytes`."""
        return self._reader.max_frame_bytes

    @max_frame_bytes.setter
    def max_frame_bytes(self, limit: int) -> None:
        self._reader.max_frame_bytes = limit

    @property
    def needed(self) -> int:
        """See :attr:`FrameReader.needed`."""
        return self._reader.needed

    @needed.setter
    def needed(self, count: int) -> None:
        self._reader.needed = count

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """See :meth:`FrameReader.next_frame`; raises INTERCEPTED too."""
        if self._held is not None:
            length, tag, s0, s1, s2, s3 = self._held
            self._held = None
            return start + length, tag, s0, s1, s2, s3
        frame = self._reader.next_frame(view, start, end, owned=owned)
        if frame is None or frame[1] == ABORTED:
            return frame
        link = self._link
        action = link.ask(Point(tag_name(frame[1]), Way.READ))
        if action is Action.CONTINUE:
            return frame
        # Its bytes stay in the receive buffer: it is handed out from there when the link goes on.
        stop, tag, s0, s1, s2, s3 = frame
        self._held = stop - start, tag, s0, s1, s2, s3
        now = link.last_activity_s  # the receive this is a part of
        if action is Action.BLOCK:
            link.hold(lambda _now: None, now)
        else:
            link.stall(None, now)
        return None
