"""Conversations: the parts of a session in which one pair of cookies counts messages from 1.

Several links of a session may belong to one conversation. A reset, or a new session of the peer, begins the next
one.
"""

from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any

from toolkit.checks.records import EARLIER
from toolkit.checks.sessions import Entry, SessionLog
from toolkit.checks.wires import LinkLog


@dataclass(slots=True, eq=False)
class Conversation:
    """A conversation, as one side records it."""

    log: SessionLog
    start: int
    """Position of the record after which it begins."""
    cookies: tuple[int, int] = (0, 0)
    after_reset: bool = False
    entries: list[Entry] = field(default_factory=list)
    """The session's records in it."""
    stop: int | None = None
    """Position of the record that begins the next conversation; None if it is the last."""
    _acked: list[tuple[int, int]] | None = None
    _sent: int | None = None
    _counted: bool = False

    def links(self) -> list[LinkLog]:
        """Return the links that carried it; when the next conversation begins, they are closed."""
        return [link for link in self.log.links if self.start < _closed(link) <= _stop(self)]

    def highest(self, name: str) -> int:
        """Return the highest value of a counter in its state records; 0 without any."""
        return max((int(record[name]) for _, record in self.entries if record.kind == "state"), default=0)

    def first(self, name: str) -> int:
        """Return the value of a counter in its first state record; 0 without any."""
        return next((int(record[name]) for _, record in self.entries if record.kind == "state"), 0)

    def received(self) -> int:
        """Return the highest seq received, delivered or not."""
        delivered = (int(record["seq"]) for _, record in self.entries if record.kind == "deliver")
        arrived = (seq for link in self.links() for position, seq in link.messages("rx") if self._covers(position))
        return max(self.highest("in_seq"), *delivered, *arrived, 0)

    @property
    def acked(self) -> list[tuple[int, int]]:
        """The highest acked_seq so far at each state record, with its position."""
        if self._acked is None:
            states = [
                (position, record["acked_seq"]) for position, record in self.entries if record.kind == "state"
            ]
            highest = accumulate((seq for _, seq in states), max)
            self._acked = [(position, seq) for (position, _), seq in zip(states, highest, strict=True)]
        return self._acked

    def sent(self) -> int | None:
        """Return the highest seq that it wrote; None if its frames were not recorded."""
        if not self._counted:
            self._counted = True
            self._sent = self.sent_before(inf)
        return self._sent

    def sent_before(self, until: float) -> int | None:
        """Return the highest seq that it wrote before a position; None if its frames were not recorded."""
        links = [link for link in self.links() if link.tx]
        written = (
            seq
            for link in links
            for position, seq in link.messages("tx")
            if self._covers(position) and position < until
        )
        states = [record.fields for at, record in self.entries if record.kind == "state" and at <= until]
        earlier = max((fields.get(EARLIER, 0) for fields in states), default=0)
        out_seq = max((fields["out_seq"] for fields in states), default=0)
        return max(out_seq, earlier, *written, 0) if links or earlier else None

    def _covers(self, position: int) -> bool:
        return self.start <= position < _stop(self)


def _stop(conversation: Conversation) -> float:
    return inf if conversation.stop is None else conversation.stop


def _closed(link: LinkLog) -> float:
    return inf if link.closed is None else link.closed


def v1_beginnings(log: SessionLog) -> list[int]:
    """Return the positions where the peer starts a v1 session from 0, with or without an event.

    No event is raised if nothing was exchanged before. A session without an exchange of in_seqs, whose last reply
    is READY instead of SEQ, starts from 0 as well.
    """
    return sorted(position for link in log.links for position, record in link.talk if _begins(record.fields))


def _begins(frame: dict[str, Any]) -> bool:
    is_received, fields = frame["direction"] == "rx", frame["fields"]
    if frame["tag"] == "CONNECT":
        return bool(is_received and fields.get("connect_seq") == 0)
    tag = fields.get("tag") if frame["tag"] == "CONNECT_REPLY" else None
    return tag == "READY" or (tag == "RESETSESSION" and is_received)


def _granted(log: SessionLog) -> list[tuple[int, int]]:
    """Return the positions where a v2 session sent a server_cookie, and the cookies; states may follow later."""
    return [
        (position, int(record["fields"].get("server_cookie", 0)))
        for link in log.links
        for position, record in link.talk
        if record.fields["tag"] == "SERVER_IDENT" and record.fields["direction"] == "tx"
    ]


def conversations(log: SessionLog) -> list[Conversation]:
    """Return a session's conversations, in order."""
    resets = set(log.remote_resets)
    beginnings = v1_beginnings(log)
    granted = sorted(_granted(log), reverse=True)
    current = Conversation(log, start=-1)
    found = [current]
    last_state = -1
    for entry in log.entries:
        position, record = entry
        while granted and granted[-1][0] < position:
            granted_at, server_cookie = granted.pop()
            if current.cookies[1] and server_cookie not in {0, current.cookies[1]}:
                current.stop = granted_at
                current = Conversation(log, granted_at, (0, server_cookie), current.after_reset)
                found.append(current)
        is_state = record.kind == "state"
        if not is_state and position not in resets:
            current.entries.append(entry)
            continue
        fields = record.fields
        server_cookie = fields["server_cookie"] if is_state else 0
        fresh = server_cookie not in {0, current.cookies[1]}
        # v1 has no cookies: without resetcheck, only seqs from 1 again show a new session of the peer.
        anew = (
            is_state
            and not server_cookie
            and not fields["in_seq"]
            and any(last_state < begins < position for begins in beginnings)
        )
        if is_state:
            last_state = position
        # A partial reset raises no event; only the missing cookies show it.
        forgotten = is_state and current.cookies[1] and not server_cookie
        if position in resets or anew or forgotten or (fresh and current.cookies[1]):
            current.stop = position
            current = Conversation(log, position, after_reset=current.after_reset or position in resets)
            found.append(current)
        if server_cookie:
            current.cookies = (fields["client_cookie"], server_cookie)
        current.entries.append(entry)
    return found
