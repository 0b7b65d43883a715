"""Requests and their replies, matched by tid within a session."""

from dataclasses import dataclass

from toolkit.dissect.analysis.messages import Transmission
from toolkit.dissect.analysis.sessions import Party, SessionView
from toolkit.dissect.frames import MessageInfo

_MOST_OPEN = 1 << 17


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the first message of another type that came back with its tid."""

    session: int
    client: str
    """Sender of the request."""
    server: str
    tid: int
    request: str
    """Name of its type."""
    reply: str
    asked: Transmission
    """The first time it was sent."""
    answered: Transmission

    @property
    def latency_ns(self) -> int:
        """From the first time the request was complete until the reply was."""
        return self.answered.time_ns - self.asked.time_ns


class Exchanges:
    """Finds them as messages pass. Requests without an answer are dropped, the oldest first."""

    def __init__(self) -> None:
        self.found: list[Exchange] = []
        self._open: dict[tuple[int, int, int], tuple[str, Transmission]] = {}
        """By session, party and tid."""

    def take(self, session: SessionView, sender: Party, message: MessageInfo, where: Transmission) -> None:
        """One message of a session; without a tid it asks and answers nothing."""
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
        """The exchanges that were completed since the last call; they are kept no longer."""
        found, self.found = self.found, []
        return found
