"""The cells of a hunt: a link, a point of the interception grid, and what the proxy does there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatch
from random import Random

from messenger.errors import LocalError
from messenger.interception import Custom, Point, Way, grid
from messenger.v2.wire import Tag

HOLD_S = 1.0
"""How long a frame is held, and all behind it."""
POINTS = grid([tag.name for tag in Tag if not tag.name.startswith("COMPRESSION")])
"""The 45 points: five that belong to no frame, and 20 tags, written and read."""
FROM_CLIENTS = frozenset({"AUTH_REQUEST", "AUTH_REQUEST_MORE", "CLIENT_IDENT", "SESSION_RECONNECT"})
"""Tags of frames that only the connector sends."""
FROM_SERVERS = frozenset(
    {
        *("AUTH_BAD_METHOD", "AUTH_REPLY_MORE", "AUTH_DONE", "SERVER_IDENT", "IDENT_MISSING_FEATURES"),
        *("SESSION_RECONNECT_OK", "SESSION_RESET", "SESSION_RETRY", "SESSION_RETRY_GLOBAL", "WAIT"),
    }
)
"""Tags of frames that only the acceptor sends."""


class Link(StrEnum):
    """Between which two programs of Ceph the proxy stands."""

    CLIENT = "client"
    """``rados`` and the OSDs: lossy sessions."""
    DAEMONS = "daemons"
    """Two OSDs, whichever of them dials: lossless sessions, and those of their heartbeats."""


class Action(StrEnum):
    """What the proxy does at a point."""

    CUT = "cut"
    """End the link: at WRITE before the frame, at READ behind it."""
    HOLD = "hold"
    """Keep the frame and all behind it for :data:`HOLD_S`."""
    DROP = "drop"
    """Swallow the frame, which no TCP does."""
    DUPLICATE = "duplicate"
    """Let the frame pass twice, which no TCP does."""


class Verdict(StrEnum):
    """What came of a cell."""

    HELD = "held"
    """Acknowledged writes are there once, and the client has come through."""
    STUCK = "stuck until cut"
    """The client waited until the link was cut, and then came through; nothing was lost."""
    FOUND = "found"
    """Something was lost or done twice, somebody hung, or a daemon ended."""
    NOT_PASSED = "not passed"
    """The conversation did not come to this point."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    link: Link
    point: Point
    action: Action

    @property
    def id(self) -> str:
        """For example ``client/SERVER_IDENT-READ/cut``."""
        return f"{self.link}/{str(self.point).replace(' ', '-')}/{self.action}"

    @property
    def rule(self) -> str:
        """What the proxy does, by the words of docs/proxy.md; empty where nothing can be done."""
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
            return ""  # the same frame as at WRITE
        return f"{self._sender} {self._frame} #1: {what}"

    @property
    def _sender(self) -> str:
        """The sender as the connector sees it; a frame that one side alone sends is the same at WRITE and READ."""
        tag = self.point.tag
        if tag in FROM_CLIENTS or tag in FROM_SERVERS:
            return "->" if tag in FROM_CLIENTS else "<-"
        return "->" if self.point.way is Way.WRITE else "<-"

    @property
    def _frame(self) -> str:
        """Messages of the write itself, not of heartbeats or of what peers tell each other beside it."""
        if self.point.tag != "MESSAGE":
            return self.point.tag
        return "MESSAGE osd_op*" if self.link is Link.CLIENT else "MESSAGE osd_repop*"


def cells(links: Sequence[Link] = tuple(Link), only: Sequence[str] = (), seed: int | None = None) -> list[Cell]:
    """The cells in which something can be done, in the order of the grid, or with a seed in a drawn one.

    Args:
        links: on which of them.
        only: ids of cells or parts of ids, with ``*`` and ``?``; all unless given.
        seed: of the order.

    Raises:
        LocalError: nothing fits one of ``only``.
    """
    known = [cell for cell in _all(links) if cell.rule]
    unknown = [pattern for pattern in only if not any(_fits(cell, pattern) for cell in known)]
    if unknown:
        raise LocalError(f"no cell is {unknown[0]!r}; one is {known[0].id}, and msgrlab hunt --list has all")
    chosen = [cell for cell in known if not only or any(_fits(cell, pattern) for pattern in only)]
    if seed is not None:
        Random(seed).shuffle(chosen)
    return chosen


def _all(links: Sequence[Link]) -> Iterator[Cell]:
    for link in links:
        for point in POINTS:
            for action in Action:
                yield Cell(link, point, action)


def _fits(cell: Cell, pattern: str) -> bool:
    return any(fnmatch(cell.id, wanted) for wanted in (pattern, f"{pattern}/*", f"*/{pattern}", f"*/{pattern}/*"))
