"""Faults inside a messenger, and in the frames between two of them."""

import shlex
from dataclasses import dataclass

from messenger.compat import override
from messenger.errors import LocalError
from messenger.interception import Action, grid
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, TEXT, Kind, argument, count
from toolkit.faults.language.scene import Scene
from toolkit.faults.points import parse_point
from toolkit.scanner import did_you_mean


class _OfMessenger(Fault):
    """A fault of a messenger of msgrlab."""

    __slots__ = ()

    AREA = Area.MESSENGER
    node: str

    @override
    def missing(self, scene: Scene) -> str:
        return scene.not_ours(self.node)


@dataclass(frozen=True, slots=True)
class MarkDown(_OfMessenger):
    """Have a node close its session with a peer at once (mark_down)."""

    WORD = "mark-down"
    EXAMPLE = "mark-down a b"

    node: str = argument(NODE, "A")
    peer: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        scene.command(self.node, "mark_down", peer=self.peer)
        return ""


_TAGS = dict.fromkeys([*(tag.name for tag in Tag), *(piece.value for piece in Piece)])
_POINTS = frozenset(str(point) for point in grid(list(_TAGS)))
"""Breakpoints of both protocols; a node's version is not known here."""


def _read_point(text: str) -> str:
    try:
        point = str(parse_point(text))
    except LocalError as error:
        raise ValueError(f"is invalid: {error}") from None
    if point not in _POINTS:
        raise ValueError(f"is none{did_you_mean(shlex.quote(point), map(shlex.quote, _POINTS))}")
    return point


def _read_action(text: str) -> Action:
    try:
        return Action(text.upper())
    except ValueError:
        raise ValueError(f"must be one of {', '.join(Action)}") from None


_POINT = Kind("POINT", _read_point)
_ACTION = Kind("ACTION", _read_action)


@dataclass(frozen=True, slots=True)
class Arm(_OfMessenger):
    """Break, block or stall a node's link when it passes a breakpoint for the NTH time."""

    WORD = "arm"
    EXAMPLE = "arm a 'MESSAGE WRITE' FAULT 3"
    LASTS = True

    node: str = argument(NODE)
    point: str = argument(_POINT)
    action: Action = argument(_ACTION)  # noqa: RUF009 - makes a field
    nth: int = argument(count("NTH", 1), default=1)

    @override
    def do(self, scene: Scene) -> str:
        scene.command(self.node, "arm", point=self.point, action=self.action.value, nth=self.nth)
        return ""

    def undo(self, scene: Scene) -> None:
        """Unblock the links at the point, and disarm the node unless other actions are armed on it."""
        if not scene.node(self.node).alive:
            return
        others = (fault for fault in scene.in_force if isinstance(fault, Arm) and fault.node == self.node)
        if all(fault == self for fault in others):
            scene.command(self.node, "disarm")
        scene.command(self.node, "unblock", point=self.point)

    def undone_by(self, other: Fault) -> bool:
        """True for ``unblock``, and for faults that end the process."""
        from_others = isinstance(other, Unblock) and other.point in {"", self.point}
        return (from_others or other.WORD in {"kill", "stop", "restart"}) and other.nodes == (self.node,)


@dataclass(frozen=True, slots=True)
class Unblock(_OfMessenger):
    """Continue the links that are blocked or stalled at a breakpoint of a node, or at all of them."""

    WORD = "unblock"
    EXAMPLE = "unblock a"

    node: str = argument(NODE)
    point: str = argument(_POINT, default="")

    @override
    def do(self, scene: Scene) -> str:
        scene.command(self.node, "unblock", point=self.point)
        return ""


def _read_rule(text: str) -> str:
    from toolkit.faults.script import Rule  # noqa: PLC0415 - few scenarios have rules

    try:
        return str(Rule.parse(text))
    except LocalError as error:
        raise ValueError(f"is invalid: {error}") from None


_RULE = Kind("RULE", _read_rule)


@dataclass(frozen=True, slots=True)
class Proxy(Fault):
    """Add a rule to the proxy between two nodes (docs/proxy.md); ``->`` matches frames of the connector."""

    WORD = "proxy"
    AREA = Area.MESSENGER
    EXAMPLE = "proxy a b '-> MESSAGE #3: cut'"
    LASTS = True

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    rule: str = argument(_RULE)

    @override
    def do(self, scene: Scene) -> str:
        scene.remember(self, scene.proxy(self.a, self.b).add_rule(self.rule, scene.write_past))
        return ""

    def undo(self, scene: Scene) -> None:
        """Remove the rule and release what it holds."""
        scene.recall(self)()

    @override
    def missing(self, scene: Scene) -> str:
        return scene.no_proxy(self.a, self.b)


@dataclass(frozen=True, slots=True)
class Release(Fault):
    """Release what a rule of the proxy between two nodes holds under a name."""

    WORD = "release"
    AREA = Area.MESSENGER
    EXAMPLE = "release a b held"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    name: str = argument(TEXT, "NAME")

    @override
    def do(self, scene: Scene) -> str:
        count = scene.proxy(self.a, self.b).release(self.name)
        return f"{count} released"

    @override
    def missing(self, scene: Scene) -> str:
        return scene.no_proxy(self.a, self.b)
