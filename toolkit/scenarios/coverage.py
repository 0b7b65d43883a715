"""The points of the interception grid that a set of runs has passed, and the actions taken there."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from messenger.interception import ONLY_CONTINUE, Action, Custom, grid
from messenger.link import Protocol
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.scenarios.runner import ScenarioRun

_TAGS: Mapping[Protocol, list[str]] = {
    Protocol.V1: [piece.value for piece in Piece if piece is not Piece.BANNER],
    Protocol.V2: [tag.name for tag in Tag],
}
NOT_THERE: Mapping[Protocol, Mapping[str, str]] = {
    Protocol.V1: {
        Custom.BANNER_PAYLOAD_READ: "the banner of msgr v1 has no payload",
        "CLOSE WRITE": "nobody here says CLOSE: a session ends with its stream",
    },
    Protocol.V2: {},
}
"""Points of the grid that no link passes, with the reason of each."""


def points(protocol: Protocol) -> list[str]:
    """The points of a protocol's grid that links pass, in the order of the grid."""
    every = [str(point) for point in grid(_TAGS[protocol])]
    return [point for point in every if point not in NOT_THERE[protocol]]


def actions(point: str) -> tuple[Action, ...]:
    """The actions that are possible at a point."""
    return (Action.CONTINUE,) if point in ONLY_CONTINUE else tuple(Action)


class Coverage:
    """Number of times that each action was taken at each point of each protocol.

    Args:
        runs: runs whose interceptors are counted together; :meth:`add` adds others.
    """

    def __init__(self, runs: Iterable[ScenarioRun] = ()) -> None:
        self._visits: dict[Protocol, Counter[tuple[str, str]]] = {protocol: Counter() for protocol in Protocol}
        for run in runs:
            self.add(run)

    def add(self, run: ScenarioRun) -> None:
        """Add the counts of a run."""
        self._visits[run.way.protocol].update(run.visited)

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols of the runs."""
        return [protocol for protocol, visits in self._visits.items() if visits]

    def count(self, protocol: Protocol, point: str, action: Action) -> int:
        """Number of times that the action was taken at the point."""
        return self._visits[protocol][point, action.value]

    def missing(self, protocol: Protocol) -> list[tuple[str, Action]]:
        """The pairs of a point and an action that no run has had."""
        return [
            (point, action)
            for point in points(protocol)
            for action in actions(point)
            if not self.count(protocol, point, action)
        ]

    def unknown(self, protocol: Protocol) -> list[str]:
        """Points that a run has passed, although the grid lacks them or they are in :data:`NOT_THERE`."""
        known = set(points(protocol))
        return sorted({point for point, _ in self._visits[protocol] if point not in known})

    def total(self, protocol: Protocol) -> int:
        """Number of pairs of a point and an action."""
        return sum(len(actions(point)) for point in points(protocol))

    def as_json(self) -> dict[str, Any]:
        """The counts as a JSON object, by protocol."""
        return {
            protocol.value: {
                "pairs": self.total(protocol),
                "visited": self.total(protocol) - len(self.missing(protocol)),
                "missing": [[point, action.value] for point, action in self.missing(protocol)],
                "not_there": dict(NOT_THERE[protocol]),
                "points": {
                    point: {action.value: self.count(protocol, point, action) for action in actions(point)}
                    for point in points(protocol)
                },
            }
            for protocol in self.protocols
        }
