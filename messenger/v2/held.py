"""Frames of msgr v2 that an interceptor may hold."""

from messenger.held_reader import InterceptingReader
from messenger.v2.framing import ABORTED, Frame
from messenger.v2.wire import tag_name


class InterceptedReader(InterceptingReader[Frame]):
    """A reader of v2 frames that passes each frame to the interceptor first."""

    __slots__ = ()

    def tag(self, frame: Frame) -> str | None:
        """The frame's tag; None for a frame that its sender aborted, which has no breakpoint."""
        return None if frame[1] == ABORTED else tag_name(frame[1])
