"""Finds the settled messages of a running history: they arrived as they were sent, and no session repeats them."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.checks.folded import FOLDABLE_TAGS
from toolkit.checks.index import Index
from toolkit.checks.records import MESSAGE_TAGS, Record
from toolkit.checks.sessions import SessionLog
from toolkit.checks.streams import Source
from toolkit.checks.wires import LinkLog


class MessageId(NamedTuple):
    """Identifies a message by its sender, its receiver and its tid."""

    sender: str
    receiver: str
    tid: int


class Messages:
    """The messages of a history, with all their records.

    Args:
        index: the history.
        until_s: time in seconds; later deliveries and acknowledgements do not count.
    """

    def __init__(self, index: Index, until_s: float) -> None:
        self._index = index
        self._until_s = until_s
        self.sent: dict[MessageId, list[tuple[SessionLog, int]]] = defaultdict(list)
        """Session and position of each ``send`` record."""
        self.delivered: dict[MessageId, list[tuple[SessionLog, int]]] = defaultdict(list)
        """Session and position of each ``deliver`` record."""
        self.frames: dict[MessageId, list[tuple[LinkLog, int]]] = defaultdict(list)
        """Link and position of each frame, at both ends."""
        self.released: set[MessageId] = set()
        """The delivered messages that no session sends again."""
        self.settled: dict[MessageId, list[int]] = {}
        """The messages that arrived once, as they were sent, and that no session sends again. With each come the
        positions of the state records that may count it as queued or kept for replay."""
        self._announced: dict[SessionLog, list[tuple[int, int]]] = {}
        self._acked: dict[SessionLog, list[tuple[int, int]]] = {}
        for kind, found in (("send", self.sent), ("deliver", self.delivered)):
            for message, log, position in of_kind(index, kind):
                found[message].append((log, position))
        for message, link, position in _frames(index):
            self.frames[message].append((link, position))
        self._settle()

    def _settle(self) -> None:
        index = self._index
        sends = Counter({message: len(places) for message, places in self.sent.items()})
        held: set[MessageId] = set()
        for position, receiver, sent in index.streams.deliveries:
            record = index.history[position]
            message = message_of(receiver, record)
            if sent is None or record.time_s > self._until_s:
                held.add(message)
                continue
            log, acks = sent.source.log, self._acks_of(sent.source.log)
            through = _held_until(index, log, acks, position, record["seq"], self._until_s)
            if through is None and not self._is_dropped(sent.source, position, record["seq"]):
                held.add(message)
            elif through is not None and len(self.delivered[message]) == 1 == sends[message]:
                held_at = _held_at(index, log, sent.index, through, acks)
                if held_at is not None:
                    self.settled[message] = held_at
        self.released = self.delivered.keys() - held
        for stranger in strangers(index):
            for message in _settled_with(index, stranger, sends, self._until_s):
                self.settled[message] = []

    def _is_dropped(self, source: Source, position: int, seq: int) -> bool:
        """True if the sender drops a message: the peer announces its seq in a handshake, or the queue is lost."""
        log, records = source.log, self._index.history.records
        if source.ended is not None and records[source.ended].time_s <= self._until_s:
            return True
        if log not in self._announced:
            self._announced[log] = _announcements(log)
        return any(
            at > position and in_seq >= seq and records[at].time_s <= self._until_s
            for at, in_seq in self._announced[log]
        )

    def _acks_of(self, log: SessionLog) -> list[tuple[int, int]]:
        if log not in self._acked:
            self._acked[log] = _acks(log, self._until_s)
        return self._acked[log]


def _held_at(
    index: Index, log: SessionLog, sent: int, through: int, acks: Sequence[tuple[int, int]]
) -> list[int] | None:
    """Return the positions of the states in which a session held a message; None if the message has to stay.

    Args:
        index: the history.
        log: the sending session.
        sent: position of the message's ``send`` record.
        through: position up to which the session held it.
        acks: positions where the peer acknowledged its messages, with the seqs.
    """
    positions = [position for position, _ in log.of("state")]
    states = positions[bisect_left(positions, sent) : bisect_left(positions, through)]
    if not states:
        return states
    place = bisect_left(acks, (through, 0))
    if index.lossy(log) or place == len(acks) or acks[place][0] != through:
        return None  # the session ended, or keeps nothing
    was_reset = any(sent < at < through for at in log.remote_resets)
    # A message that is sent at the time of a state record may be counted in it or not.
    at_once = index.history[sent].time_s >= index.history[states[0]].time_s
    return None if was_reset or at_once else states


def of_kind(index: Index, kind: str) -> Iterator[tuple[MessageId, SessionLog, int]]:
    """Yield the ``send`` or ``deliver`` records of applications, with their sessions and positions."""
    for log in index.sessions.values():
        for position, record in log.of(kind):
            yield message_of(log, record), log, position


def _frames(index: Index) -> Iterator[tuple[MessageId, LinkLog, int]]:
    """Yield the frames of messages, with their links and positions."""
    for link in index.links.values():
        log = index.session_of(link)
        peer = index.peer_of(link) or (log and peer_name(log))
        if not peer:
            continue
        for position, record in link.data:
            if record["tag"] in MESSAGE_TAGS and (message := message_id(link, peer, record)) is not None:
                yield message, link, position


def message_of(log: SessionLog, record: Record) -> MessageId:
    """Identify the message of a ``send`` or ``deliver`` record of a session."""
    ends = (log.node, peer_name(log)) if record.kind == "send" else (peer_name(log), log.node)
    return MessageId(*ends, record["tid"])


def peer_name(log: SessionLog) -> str:
    """Return the peer's name, or its address if it is not a node of the history."""
    return log.peer_node or next(iter(log.peers), "")


def strangers(index: Index) -> list[SessionLog]:
    """Return the sessions with peers that record no frames, such as Ceph's daemons."""
    recording = {link.key.node for link in index.links.values() if link.tx or link.rx}
    recording.update(process.node for process in index.settled)  # its frames may all have left the history
    return [
        log
        for log in index.sessions.values()
        if log.peer_node not in recording and all(link.far is None for link in log.links)
    ]


def _settled_with(index: Index, log: SessionLog, sends: Counter[MessageId], until_s: float) -> Iterator[MessageId]:
    """Yield the settled messages between a session and a peer without records."""
    peer = peer_name(log)
    frames: dict[MessageId, list[tuple[int, int]]] = defaultdict(list)
    for link in log.links:
        for position, record in link.data:
            if record["tag"] in MESSAGE_TAGS and (message := message_id(link, peer, record)) is not None:
                frames[message].append((position, record["fields"]["seq"]))
    acks, states = _acks(log, until_s), [at for at, _ in log.of("state")]
    delivers = Counter(message_of(log, record) for _, record in log.of("deliver"))
    for kind in ("send", "deliver"):
        for position, record in log.of(kind):
            message = message_of(log, record)
            if (
                record.time_s > until_s
                or len(frames[message]) != 1
                or (sends if kind == "send" else delivers)[message] != 1
            ):
                continue
            ((at, seq),) = frames[message]
            through: int | None = at
            if kind == "send":
                through = _held_until(index, log, acks, at, seq, until_s)
            if through is not None and bisect_left(states, position) == bisect_left(states, through):
                yield message


def _acks(log: SessionLog, until_s: float) -> list[tuple[int, int]]:
    """Return the positions where the peer acknowledged messages of a session, with the seqs."""
    found: list[tuple[int, int]] = []
    for link in log.links:
        for position, record in link.rx:
            fields = record["fields"]
            seq = fields.get("seq" if record["tag"] == "ACK" else "ack_seq")
            if type(seq) is int and record["tag"] in FOLDABLE_TAGS and record.time_s <= until_s:
                found.append((position, seq))
    return sorted(found)


def _announcements(log: SessionLog) -> list[tuple[int, int]]:
    """Return the positions where the peer announced its in_seq in a handshake that resumed the session, and it."""
    found: list[tuple[int, int]] = []
    for link in log.links:
        resumes = {frame["tag"] for _, frame in link.talk} & {"SESSION_RECONNECT_OK", "SEQ"}
        for position, record in link.talk if resumes else ():
            fields = record["fields"]
            in_seq = fields.get("seq" if record["tag"] == "SEQ" else "msg_seq")
            if type(in_seq) is int and record["direction"] == "rx":
                found.append((position, in_seq))
    return found


def _held_until(
    index: Index, log: SessionLog, acks: list[tuple[int, int]], position: int, seq: int, until_s: float
) -> int | None:
    """Return the position up to which a session counts a message as queued or kept for replay.

    That ends when the peer acknowledges the message or when the session ends, behind its last state record, which
    counts the messages that are dropped. A lossy session keeps no messages.

    Args:
        index: the history.
        log: the sending session.
        acks: positions where the peer acknowledged its messages, with the seqs.
        position: position of the message's frame or delivery.
        seq: the message's seq.
        until_s: time in seconds; later ends do not count.

    Returns:
        None if the session may still keep the message.
    """
    if index.lossy(log):
        return position
    behind = (at for at, acked in islice(acks, bisect_left(acks, (position, 0)), None) if acked >= seq)
    if (acked_at := next(behind, None)) is not None:
        return acked_at
    end = index.ended(log)
    if end is None or index.history[end].time_s > until_s:
        return None
    states = log.of("state")
    return max(end, states[-1][0] + 1) if states else end


def message_id(link: LinkLog, peer: str, record: Record) -> MessageId | None:
    """Identify the message of a frame; None if the frame was recorded without its tid."""
    tid = record["fields"].get("tid")
    if not isinstance(tid, int):
        return None
    ends = (link.key.node, peer) if record["direction"] == "tx" else (peer, link.key.node)
    return MessageId(*ends, tid)
