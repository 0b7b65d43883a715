"""The frames by which links open sessions, each with the state and event that follow.

A session opens, for the first time or again, by the answer to a request: SERVER_IDENT to CLIENT_IDENT,
SESSION_RECONNECT_OK to SESSION_RECONNECT, on v1 the last CONNECT_REPLY to CONNECT (docs/protocol.md §3.4, §4.9).
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from messenger.outputs import EventKind
from messenger.session.existing import Verdict
from messenger.session.session import SessionState
from messenger.v1.existing import Verdict as V1Verdict
from toolkit.checks.records import Record
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import Entry, LinkLog

if TYPE_CHECKING:
    from toolkit.checks.index import Index

GRANTS = frozenset(
    verdict.name
    for verdict in (
        Verdict.OPEN,
        Verdict.STOP_EXISTING,
        Verdict.REUSE,
        Verdict.REUSE_RESET,
        V1Verdict.OPEN,
        V1Verdict.STOP_EXISTING,
    )
)
"""Decisions by which an incoming link opens a session. On v1 another decision follows a takeover."""
_REQUESTS = {
    "SERVER_IDENT": "CLIENT_IDENT",
    "SESSION_RECONNECT_OK": "SESSION_RECONNECT",
    "CONNECT_REPLY": "CONNECT",
}
FINAL_REPLIES = frozenset({"READY", "SEQ"})
"""Tags of the last CONNECT_REPLY."""


@dataclass(slots=True, eq=False)
class Opening:
    """A session that opens on a link, as one end records it."""

    link: LinkLog
    answer: Entry
    """The frame that grants the session."""
    request: Record | None
    """The last frame that requested it; None if it was not recorded."""
    at: int
    """Position of the frame after which this end considers the session open."""
    ready: Entry | None = None
    """The READY state that follows; None if none does."""

    @property
    def kind(self) -> str:
        """The event that is raised."""
        return EventKind.CONNECT if self.link.dialled else EventKind.ACCEPT

    @property
    def is_v1(self) -> bool:
        """True if the link uses msgr v1."""
        return bool(self.answer[1].fields["tag"] == "CONNECT_REPLY")

    @property
    def resumes(self) -> bool:
        """True if a v2 session is resumed with its cookies."""
        return bool(self.answer[1].fields["tag"] == "SESSION_RECONNECT_OK")

    @property
    def confirmed(self) -> int | None:
        """Position from which both ends consider the session open; a v1 acceptor waits for the connector's SEQ."""
        if self.link.dialled or not self.is_v1 or self.answer[1].fields["fields"].get("tag") == "READY":
            return self.at
        return next((at for at, frame in self.link.talk if at > self.at and _is(frame, "SEQ", "rx")), None)

    @property
    def granted(self) -> int | None:
        """Position of the acceptor's decision; None if there is none, as on a connector."""
        places = (at for at, record in self.link.decisions if at < self.answer[0] and record["verdict"] in GRANTS)
        return max(places, default=None)


def find_openings(index: "Index") -> dict[SessionLog, list[Opening]]:
    """Return the openings of each session, in order."""
    found: dict[SessionLog, list[Opening]] = defaultdict(list)
    for tag, asked in _REQUESTS.items():
        for position, link, record in index.by_tag.get(tag, ()):
            final = tag != "CONNECT_REPLY" or record.fields["fields"].get("tag") in FINAL_REPLIES
            if not final or link.dialled is (record.fields["direction"] == "tx"):
                continue
            log = index.session_of(link)
            at = _open_at(link, (position, record))
            if log is not None and at is not None:
                way = "tx" if link.dialled else "rx"
                requests = (
                    frame for place, frame in reversed(link.talk) if place < position and _is(frame, asked, way)
                )
                found[log].append(Opening(link, (position, record), next(requests, None), at))
    for log, openings in found.items():
        openings.sort(key=_place)
        _find_states(log, openings)
    return found


def _place(opening: Opening) -> int:
    return opening.at


def _open_at(link: LinkLog, answer: Entry) -> int | None:
    """Return the position from which this end considers the session open.

    A v1 connector that receives SEQ considers it open once it has sent its own SEQ.
    """
    position, record = answer
    if not link.dialled or record.fields["fields"].get("tag") != "SEQ":
        return position
    return next((at for at, frame in link.talk if at > position and _is(frame, "SEQ", "tx")), None)


def _is(frame: Record, tag: str, direction: str) -> bool:
    return bool(frame.fields["tag"] == tag and frame.fields["direction"] == direction)


def _find_states(log: SessionLog, openings: list[Opening]) -> None:
    """Find the first READY state after each opening, while its link exists."""
    states = [entry for entry in log.of("state") if entry[1].fields["state"] == SessionState.READY]
    places = [position for position, _ in states]
    for opening, following in zip(openings, [*openings[1:], None], strict=True):
        number = bisect_right(places, opening.at)
        closed = inf if opening.link.closed is None else opening.link.closed
        until = closed if following is None else min(closed, following.at)
        if (
            number < len(places)
            and places[number] < until
            and states[number][1].fields["why"] in ("", opening.kind)
        ):
            opening.ready = states[number]
