"""Frames of msgr v1 that interceptors and throttles may hold back."""

from messenger.held_reader import GatedReader, InterceptingReader
from messenger.v1.framing import StreamFrame
from messenger.v1.wire import Piece


class InterceptedReader(InterceptingReader[StreamFrame]):
    """See :class:`InterceptingReader`."""

    __slots__ = ()

    def tag(self, frame: StreamFrame) -> str:
        """The frame's tag."""
        return (frame[1].PIECE if len(frame) == 2 else Piece.MSG).value


class ThrottledReader(GatedReader[StreamFrame]):
    """See :class:`GatedReader`."""

    __slots__ = ()

    def size_bytes(self, frame: StreamFrame) -> int | None:
        """Front, middle and data."""
        return None if len(frame) == 2 else len(frame[2]) + len(frame[3]) + len(frame[4])
