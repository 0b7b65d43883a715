"""A frame reader that passes every frame to the interceptor first, and keeps a frame that the interceptor holds.

The bytes of a held frame stay in the receive buffer, so that offsets remain right; the decoded frame is kept too,
because a stream cipher cannot decrypt the same bytes again.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from messenger.interception import Action, Point, Way

if TYPE_CHECKING:
    from messenger.link import Link

Frame = TypeVar("Frame", bound=tuple[Any, ...])
"""The offset of the end of the frame, then the frame's fields."""
Frame_co = TypeVar("Frame_co", bound=tuple[Any, ...], covariant=True)


class Reader(Protocol[Frame_co]):
    """What the frame readers of both protocols have in common."""

    needed: int
    max_frame_bytes: int

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """Tag and declared length of the frame at ``view[start:end]``; None while its header is incomplete."""

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame_co | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``; None while it is incomplete."""


class InterceptingReader(ABC, Generic[Frame]):
    """Yields the frames of another reader, each after one call of the interceptor."""

    __slots__ = ("_held", "_link", "_reader")

    def __init__(self, link: "Link", reader: Reader[Frame]) -> None:
        self._link = link
        self._reader = reader
        self._held: tuple[Any, ...] | None = None
        """The held frame, with its length in place of the offset of its end."""

    @property
    def max_frame_bytes(self) -> int:
        """Longest frame that is accepted."""
        return self._reader.max_frame_bytes

    @max_frame_bytes.setter
    def max_frame_bytes(self, limit: int) -> None:
        self._reader.max_frame_bytes = limit

    @property
    def needed(self) -> int:
        """Length of the incomplete frame; 0 if it is not known."""
        return self._reader.needed

    @needed.setter
    def needed(self, count: int) -> None:
        self._reader.needed = count

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """Tag and length of the next frame; None for a held frame, which has been admitted already."""
        return None if self._held is not None else self._reader.head(view, start, end)

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: FBT001 - hot path
        """The next frame of the other reader; None while it is incomplete or the interceptor holds it.

        Raises:
            PeerError: as the other reader; or INTERCEPTED.
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
        """The tag of the frame's breakpoint; None if the frame has no breakpoint."""

    def _passes(self, frame: Frame) -> bool:
        """True if the interceptor lets the frame pass; otherwise the link is held or stalled."""
        tag = self.tag(frame)
        if tag is None:
            return True
        link = self._link
        action = link.ask(Point(tag, Way.READ))
        if action is Action.CONTINUE:
            return True
        now = link.last_activity_s  # time of the receive that yielded this frame
        if action is Action.BLOCK:
            link.hold(lambda _now: None, now)
        else:
            link.stall(None, now)
        return False
