"""Finds the settled links and sessions of a running history.

The sessions and links of a process with one peer are a channel. It is cut at a position where no link is open and
at most one session lives, in a state in which it has no link. The records before the cut leave: handshakes,
states, events, faults and messages. The session's state record at the cut stays, and later records are compared
with its numbers. Messages that may be sent again keep their ``send`` and ``deliver``.

Both ends of a link leave together, and so do the records of a message. So the cuts of two processes depend on each
other, and each moves back until they agree.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import MESSAGE_TAGS
from toolkit.checks.sessions import Process, SessionLog, addresses
from toolkit.checks.settled_messages import MessageId, Messages, peer_name, strangers
from toolkit.checks.wires import LinkLog

_LATE_S = 600.0
"""Time in seconds for which a received message may wait for its delivery."""
_WITHOUT_LINK = frozenset({SessionState.CONNECTING, SessionState.STANDBY})
"""States in which a session may have no link."""


@dataclass(slots=True, eq=False)
class Channel:
    """The sessions and links of one process with one peer."""

    limit: int
    """The cut is here at most."""
    logs: list[SessionLog] = field(default_factory=list)
    links: list[LinkLog] = field(default_factory=list)
    cut: int = 0
    """The records before this position leave."""


class Cuts:
    """The cuts of all channels of a history.

    Args:
        index: the history so far.
        until_s: time in seconds; later records stay as they are.
        messages: the messages of the history.
    """

    def __init__(self, index: Index, until_s: float, messages: Messages) -> None:
        self._index = index
        self._messages = messages
        self.through = bisect_right(index.history.records, until_s, key=lambda record: record.time_s)
        """The first position that is later."""
        self.over = {log: _over_at(index, log) for log in index.sessions.values()}
        """By session, the position where it ended; infinity if it lives."""
        self.strangers = set(strangers(index))
        """The sessions whose peers record nothing."""
        self._spans = {link: _span(index, link) for link in index.links.values()}
        self._named = _named(index)
        self._channel_of: dict[LinkLog | SessionLog, Channel] = {}
        self._channels = self._find_channels()
        self._candidates = {channel: self._find_candidates(channel) for channel in self._channels}
        self._busy = {channel: _merged(self._busy_spans(channel, until_s)) for channel in self._channels}
        self.links: set[LinkLog] = set()
        """The links that leave with all their records."""
        self.messages: set[MessageId] = set()
        """The delivered messages that leave with all their records."""
        if not index.by_kind.get("expect"):  # such a history counts events over the whole run
            self._find()
            self.links.update(link for link in index.links.values() if self._leaves(link))
            self.messages.update(message for message in messages.delivered if self._is_gone(message))

    def of(self, log: SessionLog) -> int:
        """Return the cut of a session: its records before that position leave."""
        return self._channel_of[log].cut if log in self._channel_of else 0

    # ---- channels

    def _find_channels(self) -> list[Channel]:
        """Group sessions and links; links that no session and no node claims stay alone."""
        index = self._index
        found: dict[tuple[Process, str], Channel] = {}

        def channel(process: Process, peer: str) -> Channel:
            known = found.get((process, peer))
            if known is None:
                known = found[process, peer] = Channel(self.through)
            return known

        for log in index.sessions.values():
            if not log.is_loopback:
                one = self._channel_of[log] = channel(log.key.process, peer_name(log))
                one.logs.append(log)
        for link in index.links.values():
            carried, peer = index.session_of(link), index.peer_of(link)
            if carried is not None and carried in self._channel_of:
                one = self._channel_of[carried]
            elif peer is not None:
                one = channel(index.process_of(link), peer)
            else:
                continue
            self._channel_of[link] = one
            one.links.append(link)
        return list(found.values())

    def _find_candidates(self, channel: Channel) -> list[int]:
        """Return the positions at which a channel may be cut, the last one first."""
        found: set[int] = set()
        for log in channel.logs:
            if log.peer_node is None or self._named.intersection(log.peers):
                found.update(at for at, record in log.of("state") if record["state"] in _WITHOUT_LINK)
            if self.over[log] < inf:
                found.add(max(int(self.over[log]), _last_entry(log)) + 1)
        found.update(int(self._spans[link][1]) + 1 for link in channel.links if self._spans[link][1] < inf)
        begins = min((_first_entry(log) for log in channel.logs), default=0)
        return sorted((at for at in found if begins < at <= self.through), reverse=True)

    def _busy_spans(self, channel: Channel, until_s: float) -> Iterator[tuple[float, float]]:
        """Yield the spans in which a channel cannot be cut: of its links, and from a message to its delivery."""
        yield from (self._spans[link] for link in channel.links)
        for log in channel.logs:
            yield from _deliveries(log, until_s if self.over[log] == inf else inf)

    # ---- cuts

    def _find(self) -> None:
        """Cut the channels, and move the cuts back until they agree."""
        self._keep_reasons_of_losses()
        for channel in self._channels:
            channel.cut = self._cut(channel)
        while any([*map(self._move_for_links, self._channels), self._move_for_messages()]):
            pass

    def _cut(self, channel: Channel) -> int:
        """Return the last position within its limit at which a channel can be cut; 0 if there is none."""
        return next((at for at in self._candidates[channel] if at <= channel.limit and self._fits(channel, at)), 0)

    def _fits(self, channel: Channel, at: int) -> bool:
        """True if no link is open there, and only a session may live whose state there has no link."""
        busy = self._busy[channel]
        place = bisect_left(busy, (at, 0.0)) - 1
        if place >= 0 and busy[place][1] >= at:
            return False
        for log in channel.logs:
            if _first_entry(log) < at and not (self.over[log] < at and _last_entry(log) < at):
                states = log.of("state")
                here = bisect_left(states, at, key=lambda entry: entry[0])
                if here == len(states) or states[here][0] != at or states[here][1]["state"] not in _WITHOUT_LINK:
                    return False
        return True

    def _limit(self, channel: Channel, at: int) -> bool:
        """Cut a channel at ``at`` or before; returns True if its cut moved."""
        channel.limit = min(channel.limit, at)
        if channel.cut <= channel.limit:
            return False
        channel.cut = self._cut(channel)
        return True

    def _move_for_links(self, channel: Channel) -> bool:
        """Keep the links whose other ends stay; returns True if the cut moved."""
        moved = False
        for link in channel.links:
            if link.far is not None and self._leaves(link) and not self._leaves(link.far):
                moved |= self._limit(channel, int(self._spans[link][0]))
        return moved

    def _move_for_messages(self) -> bool:
        """Keep sessions that ended while one of their messages stays; returns True if a cut moved.

        The end of a process is known without records of its sessions, but not that of a session before it.
        """
        moved = False
        process_ends = self._index.process_ends
        for message, received in self._messages.delivered.items():
            if not self._is_gone(message):
                logs = [log for log, _ in received if self.over[log] < process_ends.get(log.key.process, inf)]
                for log in (*logs, *(log for log, _ in self._messages.sent[message])):
                    if log not in self.strangers and self.over[log] < self.of(log):
                        moved |= self._limit(self._channel_of[log], _first_entry(log))
        return moved

    def _leaves(self, link: LinkLog) -> bool:
        channel = self._channel_of.get(link)
        if channel is None:
            return link.far is None and self._spans[link][1] < self.through
        return self._spans[link][1] < channel.cut

    def _is_gone(self, message: MessageId) -> bool:
        """True if all records of a message leave, and its sender does not repeat it."""
        messages = self._messages
        return (
            message in messages.released
            and all(at < self.of(log) for log, at in (*messages.sent[message], *messages.delivered[message]))
            and all(self._leaves(link) for link, _ in messages.frames[message])
        )

    def _keep_reasons_of_losses(self) -> None:
        """Keep the ends of sessions that may explain a loss, until the message arrives or is given up."""
        streams = self._index.streams
        for source in streams.sources:
            for sent in source.sent:
                if sent.inbox is None and not (sent.excused or sent.overtaken_by or source.ended is not None):
                    for receiver in streams.losers(sent):
                        if (channel := self._channel_of.get(receiver)) is not None:
                            channel.limit = min(channel.limit, _first_entry(receiver))


def _span(index: Index, link: LinkLog) -> tuple[float, float]:
    """Return the positions of a link's first and last record; the last is infinity while it may get more."""
    entries = [frames[place] for frames in (link.actions, link.tx, link.rx) if frames for place in (0, -1)]
    entries += [*link.faults, *link.decisions, *filter(None, (link.auth, link.usage))]
    places = [position for position, _ in entries]
    is_over = link.closed is not None or index.process_of(link) in index.process_ends
    return min(places), max(places) if is_over else inf


def _deliveries(log: SessionLog, until_s: float) -> Iterator[tuple[int, float]]:
    """Yield the positions of received messages and of their deliveries.

    An application may be busy for long. Messages that it has not got yet count for :data:`_LATE_S` before
    ``until_s``, so that those which are dropped do not keep a session's records for ever.
    """
    delivered: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, record in log.of("deliver"):
        delivered[record["seq"], record["tid"]].append(at)
    unhandled = {record["seq"] for _, record in log.of("unhandled")}
    for link in log.links:
        for at, record in link.rx:
            fields = record.fields["fields"]
            if record.fields["tag"] not in MESSAGE_TAGS or type(seq := fields.get("seq")) is not int:
                continue
            places = delivered.get((seq, fields.get("tid")))
            if places is not None:
                after = next((place for place in places if place > at), None)
                if after is not None and not any(place < at for place in places):
                    yield at, after
            elif seq not in unhandled and record.time_s > until_s - _LATE_S:
                yield at, inf


def _over_at(index: Index, log: SessionLog) -> float:
    """Return the position at which a session ended; infinity if it lives."""
    closed = next((at for at, record in log.of("state") if record["state"] == SessionState.CLOSED), None)
    return min((at for at in (index.ended(log), closed) if at is not None), default=inf)


def _first_entry(log: SessionLog) -> int:
    places = [log.entries[0][0]] if log.entries else []
    return min(places + [link.actions[0][0] for link in log.links if link.actions], default=-1)


def _last_entry(log: SessionLog) -> int:
    return log.entries[-1][0] if log.entries else -1


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans that overlap; returns them in order."""
    found: list[tuple[float, float]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _named(index: Index) -> set[str]:
    """Return the names and announced addresses of nodes, by which sessions find their peers without links."""
    announced = (record.fields.get("addrs") or "" for _, record in index.by_kind.get("process", ()))
    return {*index.nodes, *(address for text in announced for address in addresses(text))}
