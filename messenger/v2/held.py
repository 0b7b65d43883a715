"""Frames of msgr v2 that interceptors and throttles may hold back."""

from messenger.held_reader import GatedReader, InterceptingReader
from messenger.v2.framing import ABORTED, Frame
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.wire import tag_name


class InterceptedReader(InterceptingReader[Frame]):
    """See :class:`InterceptingReader`."""

    __slots__ = ()

    def tag(self, frame: Frame) -> str | None:
        """The frame's tag; one that was aborted by its sender passes unseen."""
        return None if frame[1] == ABORTED else tag_name(frame[1])


class ThrottledReader(GatedReader[Frame]):
    """See :class:`GatedReader`."""

    __slots__ = ()

    def size_bytes(self, frame: Frame) -> int | None:
        """Front, middle and data."""
        return sum(map(len, frame[3:])) if frame[1] == MESSAGE_TAG else None
