"""Faults inside a messenger, and in the frames between two."""

import shlex
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from messenger.compat import override
from messenger.errors import LocalError
from messenger.interception import Action, grid
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.checks.history import NETWORK
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, TEXT, Kind, argument, count
from toolkit.faults.language.scene import Scene
from toolkit.faults.points import parse_point
from toolkit.faults.strike import Strike
from toolkit.faults.told import strike_record


class _OfMessenger(Fault):
    """About a node of ours."""

    __slots__ = ()

    AREA = Area.MESSENGER
    node: str

    @override
    def missing(self, scene: Scene) -> str:
        return scene.not_ours(self.node)


@dataclass(frozen=True, slots=True)
class MarkDown(_OfMessenger):
    """Have a node end its session with a peer at once (mark_down)."""

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
"""Of either protocol: which one a node speaks is its own affair."""


def _read_point(text: str) -> str:
    try:
        point = str(parse_point(text))
    except LocalError as error:
        raise ValueError(f"is none: {error}") from None
    if point not in _POINTS:
        near = get_close_matches(point, _POINTS, 1)
        raise ValueError(f"is none; did you mean {shlex.quote(near[0])}?" if near else "is none")
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
    """Have a node's conversations break, block or stall when they come to a point for the NTH time."""

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
        """What it blocks goes on; if nothing else is armed there, what has not happened yet does not any more."""
        if not scene.node(self.node).alive:
            return
        others = (fault for fault in scene.in_force if isinstance(fault, Arm) and fault.node == self.node)
        if all(fault == self for fault in others):
            scene.command(self.node, "disarm")
        scene.command(self.node, "unblock", point=self.point)

    def undone_by(self, other: Fault) -> bool:
        """By ``unblock``, and by the end of the process."""
        from_others = isinstance(other, Unblock) and other.point in {"", self.point}
        return (from_others or other.WORD in {"kill", "stop", "restart"}) and other.nodes == (self.node,)


@dataclass(frozen=True, slots=True)
class Unblock(_OfMessenger):
    """Let what is blocked or stalled at a point of a node, or at any, go on."""

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
        raise ValueError(f"is none: {error}") from None


_RULE = Kind("RULE", _read_rule)


@dataclass(frozen=True, slots=True)
class Proxy(Fault):
    """Give the proxy between two nodes a rule (docs/proxy.md): what to do with which frame; ``->`` dials."""

    WORD = "proxy"
    AREA = Area.MESSENGER
    EXAMPLE = "proxy a b '-> MESSAGE #3: cut'"
    LASTS = True

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    rule: str = argument(_RULE)

    @override
    def do(self, scene: Scene) -> str:
        from toolkit.faults.script import strikes  # noqa: PLC0415 - as above

        proxy = scene.proxy(self.a, self.b)
        dialler, dialled = proxy.parties
        added = strikes(self.rule, dialler, dialled)
        proxy.follow(added, partial(self._struck, scene, dialler, dialled))
        scene.remember(self, added)
        return ""

    def undo(self, scene: Scene) -> None:
        """What it holds goes on."""
        scene.proxy(self.a, self.b).forget(scene.recall(self))

    @override
    def missing(self, scene: Scene) -> str:
        return scene.no_proxy(self.a, self.b)

    @staticmethod
    def _struck(scene: Scene, dialler: str, dialled: str, strike: Strike) -> None:
        """In the proxy's thread."""
        kind, fields = strike_record(dialler, dialled, strike)
        scene.write(NETWORK, kind, **fields)


@dataclass(frozen=True, slots=True)
class Release(Fault):
    """Have the proxy between two nodes release what a rule of that name holds."""

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
