"""Finds the settled records of a running history, and the short records that replace them.

Most records of a long run are about messages that were sent, delivered and acknowledged. Once these are judged,
they do not affect the verdict on later records, and leave the history: ``send``, ``deliver`` and the frames. One
``FOLDED`` frame at each end of the link replaces consecutive frames, with their number and bytes, so that the
frames after it continue the stream. Operations on objects are folded in the same way
(:mod:`toolkit.checks.settled_operations`). All other records stay: handshakes, states, events, faults. A state
record that counts messages which leave is marked, because it cannot be compared with the messages again.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.records import FOLDED, MESSAGE_TAGS, Record, frames_of, long_frames_of, traffic_until_s
from toolkit.checks.sessions import SessionLog
from toolkit.checks.settled_operations import foldable_operations
from toolkit.checks.wires import Entry, LinkLog

_FOLDABLE = frozenset({FOLDED, *MESSAGE_TAGS, "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK"})

Folded = Mapping[int, Record | None]
"""By position, the record that replaces this one and those before it on its link; None to remove it without a
replacement."""


class _MessageId(NamedTuple):
    """Identifies a message by its sender, its receiver and its tid."""

    sender: str
    receiver: str
    tid: int


def foldable(index: Index, until_s: float) -> Folded:
    """Return the replacements of the records of settled messages.

    Args:
        index: the history so far.
        until_s: time in seconds; later records stay as they are.
    """
    held_at = dict(_settled(index, until_s))
    settled = held_at.keys() - {*_largest(index), *_last_delivered(index, until_s)}
    while True:
        runs = list(_runs(index, settled, until_s))
        inside = {position for run in runs for position, _ in run}
        kept = {message for message, position in _messages(index) if message in settled and position not in inside}
        if not kept:
            break
        settled -= kept
    found: dict[int, Record | None] = {}
    for run in runs:
        # Two records, since the state of this end between its first and its last frame is lost.
        found.update(dict.fromkeys(position for position, _ in run))
        for part in (run[:-1], run[-1:]):
            if part:
                found[part[0][0]] = _stands_for(part)
    found.update(dict.fromkeys(_of_applications(index, settled)))
    found.update(dict.fromkeys(_throttles(index, until_s)))
    found.update(_counted(index, {position for message in settled for position in held_at[message]}))
    found.update(foldable_operations(index, until_s))
    return found


def _settled(index: Index, until_s: float) -> Iterator[tuple[_MessageId, list[int]]]:
    """Yield the messages that arrived as they were sent and that no session will send again.

    With each come the positions of the state records that may count it as queued or kept for replay.
    """
    sends = Counter(message for message, _ in _of_kind(index, "send"))
    acked: dict[SessionLog, list[tuple[int, int]]] = {}
    delivered: set[_MessageId] = set()
    for position, log, sent in index.streams.deliveries:
        record = index.history[position]
        message = _MessageId(_peer_of(log), log.node, record["tid"])
        if sent is None or record.time_s > until_s or message in delivered or sends[message] != 1:
            delivered.add(message)  # records of messages that were sent or delivered twice stay
            continue
        delivered.add(message)
        source = sent.source.log
        if source not in acked:
            acked[source] = _acks(source, until_s)
        through = _held_until(index, source, acked[source], position, record["seq"], until_s)
        held_at = None if through is None else _held_at(index, source, sent.index, through, acked[source])
        if held_at is not None:
            yield message, held_at
    for log in _strangers(index):
        for message in _settled_with(index, log, sends, until_s):
            yield message, []


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


def _counted(index: Index, positions: Iterable[int]) -> Iterator[tuple[int, Record]]:
    """Yield state records that count messages whose records leave, with a mark of that, by position."""
    for position in positions:
        record = index.history[position]
        yield position, Record(record.time_s, record.node, record.kind, {**record.fields, "folded": 1})


def _last_delivered(index: Index, until_s: float) -> Iterator[_MessageId]:
    """Yield the last message that each session delivered: later records are compared with its seq.

    What a node sends to itself needs no link, and leaves as a whole when the session ends.
    """
    for log in index.sessions.values():
        tids = [record["tid"] for _, record in log.of("deliver") if record.time_s <= until_s]
        if tids and log.links:
            yield _MessageId(_peer_of(log), log.node, tids[-1])


def _largest(index: Index) -> Iterator[_MessageId]:
    """Yield the largest message that each node received: a throttle may exceed its limit by that size."""
    found: dict[str, tuple[int, _MessageId]] = {}
    for message, position in _of_kind(index, "deliver"):
        size = index.history[position]["size"]
        if message.receiver not in found or size > found[message.receiver][0]:
            found[message.receiver] = size, message
    for _, message in found.values():
        yield message


def _of_kind(index: Index, kind: str) -> Iterator[tuple[_MessageId, int]]:
    """Yield the ``send`` or ``deliver`` records of applications, with their positions."""
    for log in index.sessions.values():
        peer = _peer_of(log)
        for position, record in log.of(kind):
            sender, receiver = (log.node, peer) if kind == "send" else (peer, log.node)
            yield _MessageId(sender, receiver, record["tid"]), position


def _peer_of(log: SessionLog) -> str:
    """Return the peer's name, or its address if it is not a node of the history."""
    return log.peer_node or next(iter(log.peers), "")


def _strangers(index: Index) -> list[SessionLog]:
    """Return the sessions with peers that record no frames, such as Ceph's daemons."""
    recording = {link.key.node for link in index.links.values() if link.tx or link.rx}
    return [
        log
        for log in index.sessions.values()
        if log.peer_node not in recording and all(link.far is None for link in log.links)
    ]


def _settled_with(
    index: Index, log: SessionLog, sends: Counter[_MessageId], until_s: float
) -> Iterator[_MessageId]:
    """Yield the settled messages between a session and a peer without records."""
    peer = _peer_of(log)
    frames: dict[_MessageId, list[tuple[int, int]]] = defaultdict(list)
    for link in log.links:
        for position, record in link.data:
            if record["tag"] in MESSAGE_TAGS and (message := _message_id(link, peer, record)) is not None:
                frames[message].append((position, record["fields"]["seq"]))
    acks, states = _acks(log, until_s), [at for at, _ in log.of("state")]
    delivers = Counter(_MessageId(peer, log.node, record["tid"]) for _, record in log.of("deliver"))
    for kind in ("send", "deliver"):
        for position, record in log.of(kind):
            ends = (log.node, peer) if kind == "send" else (peer, log.node)
            message = _MessageId(*ends, record["tid"])
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
            if type(seq) is int and record["tag"] in _FOLDABLE and record.time_s <= until_s:
                found.append((position, seq))
    return sorted(found)


def _held_until(
    index: Index, log: SessionLog, acks: list[tuple[int, int]], position: int, seq: int, until_s: float
) -> int | None:
    """Return the position up to which a session counts a message as queued or kept for replay.

    That ends when the peer acknowledges the message or when the session ends; a lossy session keeps no messages.

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
    return end if end is not None and index.history[end].time_s <= until_s else None


def _messages(index: Index) -> Iterator[tuple[_MessageId, int]]:
    """Yield the frames of messages, with their positions."""
    for link in index.links.values():
        log = index.session_of(link)
        peer = index.peer_of(link) or (log and _peer_of(log))
        if not peer:
            continue
        for position, record in link.data:
            if record["tag"] in MESSAGE_TAGS and (message := _message_id(link, peer, record)) is not None:
                yield message, position


def _message_id(link: LinkLog, peer: str, record: Record) -> _MessageId | None:
    tid = record["fields"].get("tid")
    if not isinstance(tid, int):
        return None
    ends = (link.key.node, peer) if record["direction"] == "tx" else (peer, link.key.node)
    return _MessageId(*ends, tid)


def _runs(index: Index, settled: set[_MessageId], until_s: float) -> Iterator[list[Entry]]:
    """Yield runs of consecutive frames of one direction, the same frames at both ends of the link."""
    for link in index.links.values():
        far = link.far
        if far is None or link.agreed < len(link.rx) or far.agreed < len(far.rx):
            continue
        if index.is_mangled(link) or index.is_mangled(far):
            continue
        peer, number = far.key.node, len(far.rx)
        theirs = [_is_foldable(far, entry, link.key.node, settled, until_s) for entry in far.rx]
        ours = [_is_foldable(link, entry, peer, settled, until_s) for entry in link.tx]
        states = _state_places(index, link), _state_places(index, far)
        parts = [
            (bisect_left(states[0], sent), bisect_left(states[1], received)) if mine and other else None
            for (sent, _), (received, _), mine, other in zip(link.tx, far.rx, ours, theirs, strict=False)
        ]
        for first, last in _stretches(parts):
            yield link.tx[first:last]
            yield far.rx[first:last]
        # Frames that never arrived, since the link is closed.
        if link.closed is not None:
            rest = link.tx[number:]
            alone = [
                (bisect_left(states[0], sent), 0) if mine else None
                for (sent, _), mine in zip(rest, ours[number:], strict=True)
            ]
            for first, last in _stretches(alone):
                yield rest[first:last]
    for log in _strangers(index):
        yield from _runs_with(index, log, settled, until_s)


def _runs_with(index: Index, log: SessionLog, settled: set[_MessageId], until_s: float) -> Iterator[list[Entry]]:
    """Yield runs of consecutive frames of one direction of links whose other end is not in the history."""
    states, peer = [position for position, _ in log.of("state")], _peer_of(log)
    for link in log.links:
        if index.is_mangled(link):
            continue
        for frames in (link.tx, link.rx):
            parts = [
                (bisect_left(states, entry[0]), 0) if _is_foldable(link, entry, peer, settled, until_s) else None
                for entry in frames
            ]
            for first, last in _stretches(parts):
                yield frames[first:last]


def _state_places(index: Index, link: LinkLog) -> list[int]:
    """Return the positions of the session's state records, which no run of frames may cross."""
    log = index.session_of(link)
    return [] if log is None else [position for position, _ in log.of("state")]


def _is_foldable(link: LinkLog, entry: Entry, peer: str, settled: set[_MessageId], until_s: float) -> bool:
    record = entry[1]
    if record["tag"] not in _FOLDABLE or record.time_s > until_s:
        return False
    return record["tag"] not in MESSAGE_TAGS or _message_id(link, peer, record) in settled


def _stretches(parts: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int, int]]:
    """Yield first and last index (exclusive) of each run of equal values that are not None."""
    first = 0
    for place in range(1, len(parts) + 1):
        if place == len(parts) or parts[place] != parts[first]:
            if parts[first] is not None:
                yield first, place
            first = place


def _stands_for(run: list[Entry]) -> Record:
    first = run[0][1]
    fields = {
        **first.fields,
        "tag": FOLDED,
        "index": first["index"],
        "offset": first["offset"],
        "length": sum(record["length"] for _, record in run),
        "until_s": max(traffic_until_s(record) for _, record in run),
        "fields": {
            "frames": sum(frames_of(record) for _, record in run),
            "long": sum(long_frames_of(record) for _, record in run),
            **_numbers(run),
        },
    }
    return Record(first.time_s, first.node, first.kind, fields)


def _numbers(run: list[Entry]) -> dict[str, int]:
    """Return the numbers of a run for the audit: of KEEPALIVE2 frames, and the last seq and ack if any."""
    keepalives = (record["fields"].get("keepalives", record["tag"] == "KEEPALIVE2") for _, record in run)
    found = {"keepalives": sum(keepalives)}
    for _, record in run:
        fields, tag = record["fields"], record["tag"]
        last_seq, last_ack = fields.get("last_seq"), fields.get("last_ack")
        if tag in MESSAGE_TAGS:
            last_seq, last_ack = fields["seq"], fields.get("ack_seq")
        elif tag == "ACK":
            last_ack = fields["seq"]
        for name, number in (("last_seq", last_seq), ("last_ack", last_ack)):
            if number is not None:
                found[name] = max(number, found.get(name, 0))
    return found


def _of_applications(index: Index, settled: set[_MessageId]) -> Iterator[int]:
    for kind in ("send", "deliver"):
        yield from (position for message, position in _of_kind(index, kind) if message in settled)


def _throttles(index: Index, until_s: float) -> Iterator[int]:
    """Yield the positions of all values of throttles except the last one of each."""
    last: dict[tuple[str, str], int] = {}
    for position, record in index.by_kind.get("throttle", ()):
        if record.time_s > until_s:
            break
        if (before := last.get((record.node, record["name"]))) is not None:
            yield before
        last[record.node, record["name"]] = position
