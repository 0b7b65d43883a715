"""Requests and their replies, matched by tid within a session."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit.dissect.analysis.messages import Party, Transmission
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.frames import MessageInfo

_MOST_OPEN = 1 << 17
_NUMBERS = 12
_REQUEST, _REPLY, _ASKED, _ANSWERED = 4, 5, 8, 11
"""Numbers of a row of :class:`ExchangeLog`: places of the types' names, and times."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the first message of another type that came back with its tid."""

    session: int
    client: str
    """Sender of the request."""
    server: str
    tid: int
    request: str
    """Name of the request's type."""
    reply: str
    asked: Transmission
    """The first transmission of the request."""
    answered: Transmission

    @property
    def latency_ns(self) -> int:
        """Time from the first complete request to the complete reply, in nanoseconds."""
        return self.answered.time_ns - self.asked.time_ns


class Exchanges:
    """Matches requests and replies. Requests without a reply are dropped, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int, int], tuple[str, Transmission]] = {}
        """Requests without a reply, by session, party and tid."""

    def take(
        self, session: SessionView, sender: Party, message: MessageInfo, where: Transmission
    ) -> Exchange | None:
        """Add a message of a session; returns the exchange that it completes.

        A message without a tid is neither a request nor a reply.
        """
        if not message.tid:
            return None
        asker = session.other(sender)
        asked_by = session.parties.index(asker)
        asked = self._open.get((session.index, asked_by, message.tid))
        if asked is not None and asked[0] != message.name:
            del self._open[session.index, asked_by, message.tid]
            return Exchange(
                session.index, asker.name, sender.name, message.tid, asked[0], message.name, asked[1], where
            )
        own = session.index, 1 - asked_by, message.tid
        if own not in self._open:
            self._open[own] = message.name, where
            if len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        return None


class ExchangeLog:
    """Exchanges as rows of numbers, because a capture may have millions of them."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Place of each name of an entity or a message."""
        self._rows = array("Q")
        """Session, places of client and server, tid, places of request and reply, and both transmissions."""

    def add(self, exchange: Exchange) -> None:
        """Add an exchange."""
        names = exchange.client, exchange.server, exchange.request, exchange.reply
        client, server, request, reply = (self._places.setdefault(name, len(self._places)) for name in names)
        ends = *exchange.asked.numbers, *exchange.answered.numbers
        self._rows.extend((exchange.session, client, server, exchange.tid, request, reply, *ends))

    def __iter__(self) -> Iterator[Exchange]:
        names = list(self._places)
        rows = iter(self._rows)
        for session, client, server, tid, request, reply, *ends in zip(*[rows] * _NUMBERS, strict=True):
            asked, answered = Transmission.of(*ends[:3]), Transmission.of(*ends[3:])
            kinds = names[request], names[reply]
            yield Exchange(session, names[client], names[server], tid, *kinds, asked, answered)

    def latencies(self) -> "dict[str, np.ndarray[tuple[int], np.dtype[Any]]]":
        """Return columns: ``request`` and ``reply``, names of types, and ``latency_ms``."""
        rows = np.array(self._rows, np.uint64).reshape(-1, _NUMBERS)
        names = np.array(list(self._places), object)
        spans_ns = (rows[:, _ANSWERED] - rows[:, _ASKED]).astype(np.int64)
        return {
            "request": names[rows[:, _REQUEST]],
            "reply": names[rows[:, _REPLY]],
            "latency_ms": spans_ns / 1e6,
        }
