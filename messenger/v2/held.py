"""Frames of msgr v2 that an interceptor may hold."""

from messenger.held_reader import InterceptingReader
from messenger.v2.framing import ABORTED, Frame
from messenger.v2.wire import tag_name


class InterceptedReader(InterceptingReader[Frame]):
    """A reader of v2 frames that shows each frame to the interceptor."""

    __slots__ = ()

    def tag(self, frame: Frame) -> str | None:
        """The frame's tag; one that was aborted by its sender passes unseen."""
        return None if frame[1] == ABORTED else tag_name(frame[1])
