"""A frame reader that may keep a frame to itself for a while: what interceptors and throttles stand on.

The bytes of a held frame stay in the receive buffer, so that the transport's view of it stays right; the frame
itself is kept, since a stream that was decrypted once cannot be decrypted again.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from messenger.interception import Action, Point, Way

if TYPE_CHECKING:
    from messenger.gate import Gate
    from messenger.link import Link

Frame = TypeVar("Frame", bound=tuple[Any, ...])
"""The offset just behind the frame, then the frame."""
Frame_co = TypeVar("Frame_co", bound=tuple[Any, ...], covariant=True)


class Reader(Protocol[Frame_co]):
    """What the frame readers of both protocols have in common."""

    needed: int
    max_frame_bytes: int

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame_co | None:
        """The frame at ``view[start:end]``, or None while it is incomplete."""


class HeldReader(ABC, Generic[Frame]):
    """Frames of another reader."""

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

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """As that of the other reader, as far as frames are let pass."""
        held, self._held = self._held, None
        frame: Any
        if held is not None:
            frame = (start + held[0], *held[1:])
        else:
            frame = self._reader.next_frame(view, start, end, owned=owned)
        if frame is None or self.lets_pass(frame, again=held is not None):
            return frame  # type: ignore[no-any-return]
        self._held = (frame[0] - start, *frame[1:])
        return None

    @abstractmethod
    def lets_pass(self, frame: Frame, *, again: bool) -> bool:
        """Whether a frame is handed on now; if not, the link is paused. ``again``: it was held before."""


class InterceptingReader(HeldReader[Frame]):
    """Shows every frame to the interceptor before it is handed on, once."""

    __slots__ = ()

    @abstractmethod
    def tag(self, frame: Frame) -> str | None:
        """The tag of the point that a frame passes; None if it passes none."""

    def lets_pass(self, frame: Frame, *, again: bool) -> bool:
        """See :meth:`HeldReader.lets_pass`; raises INTERCEPTED."""
        tag = None if again else self.tag(frame)
        if tag is None:
            return True
        link = self._link
        action = link.ask(Point(tag, Way.READ))
        if action is Action.CONTINUE:
            return True
        now = link.last_activity_s  # the receive this is a part of
        if action is Action.BLOCK:
            link.hold(lambda _now: None, now)
        else:
            link.stall(None, now)
        return False


class GatedReader(HeldReader[Frame]):
    """Hands messages on as far as the throttles of the session's policy let it."""

    __slots__ = ("_gate",)

    def __init__(self, link: "Link", gate: "Gate", reader: Reader[Frame]) -> None:
        super().__init__(link, reader)
        self._gate = gate

    @abstractmethod
    def size_bytes(self, frame: Frame) -> int | None:
        """Length of a message's parts; None for other frames."""

    def lets_pass(self, frame: Frame, *, again: bool) -> bool:  # noqa: ARG002 - it waits until there is room
        """See :meth:`HeldReader.lets_pass`."""
        size_bytes = self.size_bytes(frame)
        # The receive this is a part of tells the time.
        return size_bytes is None or self._gate.admit(size_bytes, self._link.last_activity_s)
