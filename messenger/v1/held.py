"""Frames of msgr v1 that an interceptor may hold."""

from messenger.held_reader import InterceptingReader
from messenger.v1.framing import StreamFrame
from messenger.v1.wire import Piece


class InterceptedReader(InterceptingReader[StreamFrame]):
    """A reader of v1 frames that passes each frame to the interceptor first."""

    __slots__ = ()

    def tag(self, frame: StreamFrame) -> str:
        """The frame's tag."""
        return (frame[1].PIECE if len(frame) == 2 else Piece.MSG).value
