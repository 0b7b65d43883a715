"""A frame reader that hands messages on as far as the throttles of the session's policy let it."""

from typing import TYPE_CHECKING

from messenger.gate import Gate
from messenger.v2.framing import Frame, FrameReader
from messenger.v2.preamble import MESSAGE_TAG

if TYPE_CHECKING:
    from messenger.link import Link


class ThrottledReader:
    """Frames of another reader; a message that must wait is handed out again when the link goes on."""

    __slots__ = ("_gate", "_held", "_link", "_reader")

    def __init__(self, link: "Link", gate: Gate, reader: FrameReader) -> None:
        self._link = link
        self._gate = gate
        self._reader = reader
        self._held: Frame | None = None
        """The message that waits, with its length in place of its end."""

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
        """See :meth:`FrameReader.next_frame`."""
        held, self._held = self._held, None
        if held is not None:
            length, tag, s0, s1, s2, s3 = held
            frame: Frame | None = (start + length, tag, s0, s1, s2, s3)
        else:
            frame = self._reader.next_frame(view, start, end, owned=owned)
        if frame is None or frame[1] != MESSAGE_TAG:
            return frame
        stop, tag, s0, s1, s2, s3 = frame
        # The receive this is a part of tells the time.
        if self._gate.admit(len(s1) + len(s2) + len(s3), self._link.last_activity_s):
            return frame
        # Its bytes stay in the receive buffer, so that a stream which was opened once is not opened again.
        self._held = stop - start, tag, s0, s1, s2, s3
        return None
