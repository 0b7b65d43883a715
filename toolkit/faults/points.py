"""An interceptor that is armed point by point: what to do when a conversation comes to one for the n-th time."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from messenger.errors import LocalError
from messenger.interception import Action, Point, Way
from messenger.link import Link


def parse_point(text: str) -> Point:
    """The point of ``TAG READ``, ``TAG WRITE`` or a custom point's name.

    Raises:
        LocalError: it is none.
    """
    tag, _, way = text.partition(" ")
    if not tag or way not in {"", *Way}:
        raise LocalError(f"{text!r} is no point; give TAG READ, TAG WRITE, or the name of a custom point")
    return Point(tag, Way(way) if way else None)


@dataclass(slots=True)
class Armed:
    """One point at which something is to happen once."""

    point: Point
    action: Action
    nth: int
    """At which of the passes from now on."""
    seen: int = 0
    link_id: int | None = None
    """Where it happened; None: not yet."""
    released: bool = False

    @classmethod
    def parse(cls, point: str, action: str, nth: int) -> Self:
        """From the words of a scenario.

        Raises:
            LocalError: no such point or action.
        """
        if action not in list(Action):
            raise LocalError(f"unknown action {action!r}; known: {', '.join(Action)}")
        return cls(parse_point(point), Action(action), nth)


class ArmedPoints:
    """The interceptor of one node."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []
        self.visited: Counter[tuple[str, str]] = Counter()
        """How often each action was taken at each point."""

    def arm(self, point: str, action: str, nth: int = 1) -> None:
        """Take ``action`` when the conversation comes to ``point`` for the ``nth`` time from now on.

        Raises:
            LocalError: no such point or action.
        """
        self.armed.append(Armed.parse(point, action, nth))

    def disarm(self) -> None:
        """Cancel the armed actions that have not struck yet."""
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
        """Links that are blocked or stalled (at that point, or anywhere), to be unblocked; each is named once."""
        wanted = parse_point(point) if point else None
        links = []
        for armed in self.armed:
            holds = armed.action in {Action.BLOCK, Action.STALL}
            if holds and armed.link_id is not None and not armed.released and wanted in {None, armed.point}:
                armed.released = True
                links.append(armed.link_id)
        return links
