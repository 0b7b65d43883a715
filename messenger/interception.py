"""Breakpoints: before a frame is written or handled, an interceptor may stop it (docs/protocol.md §4.12).

There is a breakpoint for each frame tag and direction, and five more at the socket and the banner. The
:class:`Interceptor` is called at each one that is passed; a messenger without one has no overhead.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from messenger.link import Link

BLOCK_LIMIT_S = 10.0
"""Longest time in seconds that a link stays blocked; then it faults."""


class Way(StrEnum):
    """Direction of a frame, as this side sees it."""

    READ = "READ"
    WRITE = "WRITE"


class Custom(StrEnum):
    """Breakpoints that belong to no frame."""

    BANNER_WRITE = "BANNER_WRITE"
    BANNER_READ = "BANNER_READ"
    BANNER_PAYLOAD_READ = "BANNER_PAYLOAD_READ"
    SOCKET_CONNECTING = "SOCKET_CONNECTING"
    SOCKET_ACCEPTED = "SOCKET_ACCEPTED"


class Action(StrEnum):
    """What an interceptor can decide at a breakpoint."""

    CONTINUE = "CONTINUE"
    FAULT = "FAULT"
    """Fault the link; the frame is not written or handled."""
    BLOCK = "BLOCK"
    """Block the link until it is unblocked; then the frame passes."""
    STALL = "STALL"
    """Let the frame pass, but shut the stream down; the step after the frame waits until the link is unblocked."""


ONLY_CONTINUE = frozenset({Custom.SOCKET_ACCEPTED})
"""Breakpoints at which only CONTINUE is accepted."""


@dataclass(frozen=True, slots=True)
class Point:
    """A breakpoint: a frame's tag and direction, or a custom point (``way`` None)."""

    tag: str
    way: Way | None = None

    def __str__(self) -> str:
        return self.tag if self.way is None else f"{self.tag} {self.way}"


@runtime_checkable
class Interceptor(Protocol):
    """Decides at every breakpoint."""

    def intercept(self, link: "Link", point: Point, passes: int) -> Action:
        """Decide what happens at a breakpoint.

        Args:
            link: the link; ``link.session`` is None until an acceptor has assigned a session.
            point: the breakpoint.
            passes: how often this messenger has reached this breakpoint, this time included.
        """


def grid(tags: list[str]) -> list[Point]:
    """All breakpoints of a protocol whose frames have these tags."""
    return [*(Point(custom) for custom in Custom), *(Point(tag, way) for tag in tags for way in Way)]
