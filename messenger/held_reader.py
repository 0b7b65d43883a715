"""A frame reader that shows every frame to the interceptor, and keeps a frame that the interceptor holds.

The bytes of a held frame stay in the receive buffer, so that the transport's view of it stays right; the frame
itself is kept, since a stream that was decrypted once cannot be decrypted again.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from messenger.interception import Action, Point, Way

if TYPE_CHECKING:
    from messenger.link import Link

Frame = TypeVar("Frame", bound=tuple[Any, ...])
"""The offset just behind the frame, then the frame."""
Frame_co = TypeVar("Frame_co", bound=tuple[Any, ...], covariant=True)


class Reader(Protocol[Frame_co]):
    """What the frame readers of both protocols have in common."""

    needed: int
    max_frame_bytes: int

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """Tag and declared length of the frame at ``view[start:end]``, or None while its head has not arrived."""

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame_co | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``, or None while it is incomplete."""


class InterceptingReader(ABC, Generic[Frame]):
    """Frames of another reader, each shown to the interceptor once before it is handed on."""

    __slots__ = ("_held", "_link", "_reader")

    def __init__(self, link: "Link", reader: Reader[Frame]) -> None:
        self._link = link
        self._reader = reader
        self._held: tuple[Any, ...] | None = None
        """The frame that is held, with its length in place of its end."""

    @property
    def max_frame_bytes(self) -> int:
        """Longest frame that is accepted."""
        return self._reader.max_frame_bytes

    @max_frame_bytes.setter
    def max_frame_bytes(self, limit: int) -> None:
        self._reader.max_frame_bytes = limit

    @property
    def needed(self) -> int:
        """Length of the frame that was found incomplete, 0 if it is not known."""
        return self._reader.needed

    @needed.setter
    def needed(self, count: int) -> None:
        self._reader.needed = count

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """The head of the other reader's next frame; a held frame was admitted before it was shown."""
        return None if self._held is not None else self._reader.head(view, start, end)

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: FBT001 - hot path
        """The next frame of the other reader, unless the interceptor holds it.

        Raises:
            PeerError: as the other reader; INTERCEPTED.
        """
        held, self._held = self._held, None
        if held is not None:
            return (start + held[0], *held[1:])  # type: ignore[return-value]
        frame = self._reader.next_frame(view, start, end, owned)
        if frame is None or self._passes(frame):
            return frame
        self._held = (frame[0] - start, *frame[1:])
        return None

    @abstractmethod
    def tag(self, frame: Frame) -> str | None:
        """The tag of the point that a frame passes; None if it passes none."""

    def _passes(self, frame: Frame) -> bool:
        """True if the interceptor lets the frame pass; if not, the link is paused."""
        tag = self.tag(frame)
        if tag is None:
            return True
        link = self._link
        action = link.ask(Point(tag, Way.READ))
        if action is Action.CONTINUE:
            return True
        now = link.last_activity_s  # of the receive that this is a part of
        if action is Action.BLOCK:
            link.hold(lambda _now: None, now)
        else:
            link.stall(None, now)
        return False
