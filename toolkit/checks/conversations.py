"""Conversations: the stretches of a session in which one pair of cookies counts messages from 1.

A session's links come and go within a conversation; a reset, or a peer that starts anew, begins the next one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from toolkit.checks.records import MESSAGE_TAGS
from toolkit.checks.sessions import Entry, SessionLog
from toolkit.checks.wires import LinkLog


@dataclass(slots=True, eq=False)
class Conversation:
    """One side's view of a conversation."""

    log: SessionLog
    start: int
    """Place of the record it begins behind."""
    cookies: tuple[int, int] = (0, 0)
    after_reset: bool = False
    entries: list[Entry] = field(default_factory=list)
    """The session's records in it."""
    stop: int | None = None
    """Place of the record that begins the next one."""

    def links(self) -> list[LinkLog]:
        """The links that carried it: links of a former conversation are closed when the next one begins."""
        return [link for link in self.log.links if self.start < _closed(link) <= _stop(self)]

    def highest(self, name: str) -> int:
        """The highest value of a counter in its states."""
        return max((int(record[name]) for _, record in self.entries if record.kind == "state"), default=0)

    def first(self, name: str) -> int:
        """The value of a counter in its first state."""
        return next((int(record[name]) for _, record in self.entries if record.kind == "state"), 0)

    def received(self) -> int:
        """The highest seq it has taken in, delivered or not."""
        delivered = (int(record["seq"]) for _, record in self.entries if record.kind == "deliver")
        arrived = (
            seq for link in self.links() for position, seq in messages(link, "rx") if self._covers(position)
        )
        return max(self.highest("in_seq"), *delivered, *arrived, 0)

    def sent(self) -> int | None:
        """The highest seq it has put on the wire; None if its frames were not recorded."""
        links = [link for link in self.links() if link.tx]
        written = (seq for link in links for position, seq in messages(link, "tx") if self._covers(position))
        return max(self.highest("out_seq"), *written, 0) if links else None

    def _covers(self, position: int) -> bool:
        return self.start <= position < _stop(self)


def _stop(conversation: Conversation) -> float:
    return inf if conversation.stop is None else conversation.stop


def _closed(link: LinkLog) -> float:
    return inf if link.closed is None else link.closed


def messages(link: LinkLog, direction: str) -> Iterator[tuple[int, int]]:
    """Place and seq of every message on a link in one direction."""
    for position, record in link.tx if direction == "tx" else link.rx:
        seq = record["fields"].get("seq")
        if record["tag"] in MESSAGE_TAGS and isinstance(seq, int):
            yield position, seq


def conversations(log: SessionLog) -> list[Conversation]:
    """A session's conversations, in order."""
    resets = set(log.remote_resets)
    current = Conversation(log, start=-1)
    found = [current]
    for position, record in log.entries:
        fresh = record.kind == "state" and record["server_cookie"] not in {0, current.cookies[1]}
        if position in resets or (fresh and current.cookies[1]):
            current.stop = position
            current = Conversation(log, position, after_reset=current.after_reset or position in resets)
            found.append(current)
        if fresh:
            current.cookies = (record["client_cookie"], record["server_cookie"])
        current.entries.append((position, record))
    return found
