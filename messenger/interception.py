"""Breakpoints in a conversation: before a frame is written or handed on, someone may stop it.

See docs/protocol.md §4.12.

The grid has a point per frame tag and direction, and five custom ones around the socket and the banner. An
:class:`Interceptor` is asked at each point that is passed; without one nothing of this costs anything.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from messenger.link import Link

BLOCK_LIMIT_S = 10.0
"""A link is blocked for at most this long; then it faults."""


class Way(StrEnum):
    """Which way a frame goes, seen from here."""

    READ = "READ"
    WRITE = "WRITE"


class Custom(StrEnum):
    """Points that belong to no frame."""

    BANNER_WRITE = "BANNER_WRITE"
    BANNER_READ = "BANNER_READ"
    BANNER_PAYLOAD_READ = "BANNER_PAYLOAD_READ"
    SOCKET_CONNECTING = "SOCKET_CONNECTING"
    SOCKET_ACCEPTED = "SOCKET_ACCEPTED"


class Action(StrEnum):
    """What is to happen at a point."""

    CONTINUE = "CONTINUE"
    FAULT = "FAULT"
    """The link breaks instead of the frame passing."""
    BLOCK = "BLOCK"
    """The link does nothing until it is unblocked; then the frame passes."""
    STALL = "STALL"
    """The frame passes and the stream is shut down; what follows from the frame waits for the unblocking."""


ONLY_CONTINUE = frozenset({Custom.SOCKET_ACCEPTED})
"""Points where nothing but CONTINUE makes sense."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the conversation: a frame's tag and its way, or a custom point (``way`` None)."""

    tag: str
    way: Way | None = None

    def __str__(self) -> str:
        return self.tag if self.way is None else f"{self.tag} {self.way}"


class Interceptor(Protocol):
    """Decides at every point."""

    def intercept(self, link: "Link", point: Point, passes: int) -> Action:
        """What to do.

        Args:
            link: where; ``link.session`` is its session, None before an acceptor has decided on one.
            point: the point that is being passed.
            passes: how often this messenger has come to this point, this time included.
        """


def grid(tags: list[str]) -> list[Point]:
    """Every point of a protocol whose frames have these tags."""
    return [*(Point(custom) for custom in Custom), *(Point(tag, way) for tag in tags for way in Way)]
