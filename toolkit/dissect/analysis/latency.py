"""Requests and their replies, matched by tid within a session."""

from dataclasses import dataclass

from toolkit.dissect.analysis.messages import Party, Transmission
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.frames import MessageInfo

_MOST_OPEN = 1 << 17


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
        self.found: list[Exchange] = []
        self._open: dict[tuple[int, int, int], tuple[str, Transmission]] = {}
        """Requests without a reply, by session, party and tid."""

    def take(self, session: SessionView, sender: Party, message: MessageInfo, where: Transmission) -> None:
        """Add a message of a session; one without a tid is neither a request nor a reply."""
        if not message.tid:
            return
        asker = session.other(sender)
        asked_by = session.parties.index(asker)
        asked = self._open.get((session.index, asked_by, message.tid))
        if asked is not None and asked[0] != message.name:
            del self._open[session.index, asked_by, message.tid]
            self.found.append(
                Exchange(
                    session.index, asker.name, sender.name, message.tid, asked[0], message.name, asked[1], where
                )
            )
            return
        own = session.index, 1 - asked_by, message.tid
        if own not in self._open:
            self._open[own] = message.name, where
            if len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]

    def drain(self) -> list[Exchange]:
        """Return the exchanges completed since the last call, and forget them."""
        found, self.found = self.found, []
        return found
