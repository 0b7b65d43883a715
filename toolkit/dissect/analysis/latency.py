"""Requests and their replies, matched by tid within a session."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toolkit.dissect.analysis.messages import Party, Transmission
from toolkit.dissect.analysis.rows import RowStore
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
    """Exchanges as rows of numbers, because a capture may have millions of them.

    Args:
        store: holds the rows.
    """

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._rows = store.table(_NUMBERS)
        """Session, places of client and server, tid, places of request and reply, and both transmissions."""

    def add(self, exchange: Exchange) -> None:
        """Add an exchange."""
        names = exchange.client, exchange.server, exchange.request, exchange.reply
        client, server, request, reply = map(self._store.place, names)
        ends = *exchange.asked.numbers, *exchange.answered.numbers
        self._rows.add((exchange.session, client, server, exchange.tid, request, reply, *ends))

    def __iter__(self) -> Iterator[Exchange]:
        names = self._store.names
        for session, client, server, tid, request, reply, *ends in self._rows:
            asked, answered = Transmission.of(*ends[:3]), Transmission.of(*ends[3:])
            kinds = names[request], names[reply]
            yield Exchange(session, names[client], names[server], tid, *kinds, asked, answered)

    def latencies_ms(self) -> "Iterator[tuple[str, str, np.ndarray[tuple[int], np.dtype[np.float64]]]]":
        """Yield each kind of request and of reply with the latencies of its exchanges, sorted by name."""
        names = self._store.names
        kinds = self._rows.column(_REQUEST) * len(names) + self._rows.column(_REPLY)
        spans_ns = (self._rows.column(_ANSWERED) - self._rows.column(_ASKED)).astype(np.int64)
        found = {
            (names[request], names[reply]): kind
            for kind in np.unique(kinds).tolist()
            for request, reply in [divmod(kind, len(names))]
        }
        for (request, reply), kind in sorted(found.items()):
            yield request, reply, spans_ns[kinds == kind] / 1e6
