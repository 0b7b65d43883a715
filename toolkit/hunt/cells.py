"""The cells of a hunt: a link, a point of the interception grid, and the action of the proxy there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatch
from random import Random

from messenger.errors import LocalError
from messenger.interception import Custom, Point, Way, grid
from messenger.v2.wire import Tag

HOLD_S = 1.0
"""How long the proxy holds a frame, and all frames after it."""
POINTS = grid([tag.name for tag in Tag if not tag.name.startswith("COMPRESSION")])
"""The 45 points: five without a frame, and 20 tags, each written and read."""
FROM_CLIENTS = frozenset({"AUTH_REQUEST", "AUTH_REQUEST_MORE", "CLIENT_IDENT", "SESSION_RECONNECT"})
"""Tags of frames that only the connector sends."""
FROM_SERVERS = frozenset(
    {
        *("AUTH_BAD_METHOD", "AUTH_REPLY_MORE", "AUTH_DONE", "SERVER_IDENT", "IDENT_MISSING_FEATURES"),
        *("SESSION_RECONNECT_OK", "SESSION_RESET", "SESSION_RETRY", "SESSION_RETRY_GLOBAL", "WAIT"),
    }
)
"""Tags of frames that only the acceptor sends."""


class LinkKind(StrEnum):
    """The two programs of Ceph between which the proxy is placed."""

    CLIENT = "client"
    """``rados`` and the OSDs: lossy sessions."""
    DAEMONS = "daemons"
    """Two OSDs, in either direction: lossless sessions, and their heartbeat sessions."""


class Action(StrEnum):
    """The action of the proxy at a point."""

    CUT = "cut"
    """Close the link: at WRITE before the frame, at READ after it."""
    HOLD = "hold"
    """Hold the frame and all frames after it for :data:`HOLD_S`."""
    DROP = "drop"
    """Drop the frame; TCP never does this."""
    DUPLICATE = "duplicate"
    """Relay the frame twice; TCP never does this."""


class Verdict(StrEnum):
    """The verdict on a cell."""

    HELD = "held"
    """The client finished, and the object contains each acknowledged write once."""
    STUCK = "stuck until cut"
    """The client waited until the link was cut, and then finished; no write was lost."""
    FOUND = "found"
    """A finding: a write was lost or applied twice, a program hung, or a daemon exited."""
    NOT_PASSED = "not passed"
    """The links did not reach this point."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: an action at a point of a link."""

    link: LinkKind
    point: Point
    action: Action

    @property
    def id(self) -> str:
        """For example ``client/SERVER_IDENT-READ/cut``."""
        return f"{self.link}/{str(self.point).replace(' ', '-')}/{self.action}"

    @property
    def rule(self) -> str:
        """The rule for the proxy (docs/proxy.md); empty if the action is impossible at this point."""
        point, action = self.point, self.action
        what = {Action.HOLD: f"hold it for {HOLD_S:g}s"}.get(action, str(action))
        if point.tag == Custom.SOCKET_CONNECTING:
            return {Action.CUT: "dial #1: refuse", Action.HOLD: f"dial #1: {what}"}.get(action, "")
        if point.tag == Custom.SOCKET_ACCEPTED:
            return ""
        if point.tag == Custom.BANNER_PAYLOAD_READ:
            return "<- BANNER #1: cut at 10" if action is Action.CUT else ""
        if point.way is None:
            side = "cut before" if action is Action.CUT else what
            return f"{'->' if point.tag == Custom.BANNER_WRITE else '<-'} BANNER #1: {side}"
        if action is Action.CUT:
            what = "cut before" if point.way is Way.WRITE else "cut after"
        elif point.way is Way.READ and point.tag in FROM_CLIENTS | FROM_SERVERS:
            return ""  # the proxy sees the same frame as at WRITE
        return f"{self._sender} {self._frame} #1: {what}"

    @property
    def _sender(self) -> str:
        """Direction of the frame, ``->`` from the connector; fixed for frames that only one side sends."""
        tag = self.point.tag
        if tag in FROM_CLIENTS or tag in FROM_SERVERS:
            return "->" if tag in FROM_CLIENTS else "<-"
        return "->" if self.point.way is Way.WRITE else "<-"

    @property
    def _frame(self) -> str:
        """The frame for the rule; for MESSAGE only messages of the write, not heartbeats or other traffic."""
        if self.point.tag != "MESSAGE":
            return self.point.tag
        return "MESSAGE osd_op*" if self.link is LinkKind.CLIENT else "MESSAGE osd_repop*"


def cells(
    links: Sequence[LinkKind] = tuple(LinkKind), only: Sequence[str] = (), seed: int | None = None
) -> list[Cell]:
    """Return the cells whose action is possible, in the order of the grid, or in a random order with a seed.

    Args:
        links: the links whose cells are returned.
        only: ids of cells or parts of ids, with ``*`` and ``?``; empty for all cells.
        seed: seed of the random order; None for the order of the grid.

    Raises:
        LocalError: a pattern of ``only`` matches no cell.
    """
    known = [cell for cell in _all(links) if cell.rule]
    unknown = [pattern for pattern in only if not any(_fits(cell, pattern) for cell in known)]
    if unknown:
        raise LocalError(
            f"no cell matches {unknown[0]!r}; an example is {known[0].id}, and msgrlab hunt --list shows all"
        )
    chosen = [cell for cell in known if not only or any(_fits(cell, pattern) for pattern in only)]
    if seed is not None:
        Random(seed).shuffle(chosen)
    return chosen


def _all(links: Sequence[LinkKind]) -> Iterator[Cell]:
    for link in links:
        for point in POINTS:
            for action in Action:
                yield Cell(link, point, action)


def _fits(cell: Cell, pattern: str) -> bool:
    return any(fnmatch(cell.id, wanted) for wanted in (pattern, f"{pattern}/*", f"*/{pattern}", f"*/{pattern}/*"))
