"""An interceptor with breakpoints: it takes an action when a link passes a point for the n-th time."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from messenger.errors import LocalError
from messenger.interception import Action, Point, Way
from messenger.link import Link


def parse_point(text: str) -> Point:
    """Parse ``TAG READ``, ``TAG WRITE`` or the name of a custom point.

    Raises:
        LocalError: it is not a point.
    """
    tag, _, way = text.partition(" ")
    if not tag or way not in {"", *Way}:
        raise LocalError(f"{text!r} is no point; give TAG READ, TAG WRITE, or the name of a custom point")
    return Point(tag, Way(way) if way else None)


@dataclass(slots=True)
class Armed:
    """An action that is taken once, at one point."""

    point: Point
    action: Action
    nth: int
    """Number of the pass at which it is taken, counted from now."""
    seen: int = 0
    link_id: int | None = None
    """Link on which it was taken; None until then."""
    released: bool = False

    @classmethod
    def parse(cls, point: str, action: str, nth: int) -> Self:
        """Parse an armed action from a scenario's words.

        Raises:
            LocalError: no such point or action.
        """
        if action not in list(Action):
            raise LocalError(f"unknown action {action!r}; known: {', '.join(Action)}")
        return cls(parse_point(point), Action(action), nth)


class ArmedPoints:
    """Interceptor of one node."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []
        self.visited: Counter[tuple[str, str]] = Counter()
        """How often each action was taken at each point."""

    def arm(self, point: str, action: str, nth: int = 1) -> None:
        """Arm ``action`` at the ``nth`` pass of ``point`` from now on.

        Raises:
            LocalError: no such point or action.
        """
        self.armed.append(Armed.parse(point, action, nth))

    def disarm(self) -> None:
        """Cancel the actions that were not taken yet."""
        self.armed = [armed for armed in self.armed if armed.link_id is not None]

    def intercept(self, link: Link, point: Point, passes: int) -> Action:  # noqa: ARG002 - each arming counts its own
        """Return the action armed for this point, or CONTINUE."""
        action = Action.CONTINUE
        for armed in self.armed:
            if armed.point != point or armed.link_id is not None:
                continue
            armed.seen += 1
            if armed.seen == armed.nth and action is Action.CONTINUE:
                armed.link_id = link.id
                action = armed.action
        self.visited[str(point), action.value] += 1
        return action

    def held(self, point: str = "") -> list[int]:
        """Return the links blocked or stalled at a point, or at any, that were not returned before."""
        wanted = parse_point(point) if point else None
        links = []
        for armed in self.armed:
            holds = armed.action in {Action.BLOCK, Action.STALL}
            if holds and armed.link_id is not None and not armed.released and wanted in {None, armed.point}:
                armed.released = True
                links.append(armed.link_id)
        return links
