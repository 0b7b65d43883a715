"""Which records of a running history are settled, and the little that has to stay of them.

A long run repeats itself: messages are sent, arrive and are acknowledged. Once that is judged, the records of such
a message excuse or convict nothing that comes later, and leave the history: its ``send`` and ``deliver``, and its
frames. What stays of consecutive frames is one ``FOLDED`` frame at each end of the link, with their number and
bytes, so that the frames behind it continue the stream. Everything that is not about messages stays as it is:
handshakes, states, events, faults.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.records import FOLDED, MESSAGE_TAGS, Record, frames_of, long_frames_of, traffic_until_s
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import Entry, LinkLog

_FOLDABLE = frozenset({FOLDED, *MESSAGE_TAGS, "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK"})

Folded = Mapping[int, Record | None]
"""By place: the record that stands for this one and those before it on its link, or None if it just leaves."""


class _Way(NamedTuple):
    """A message: its sender, its receiver and its number."""

    sender: str
    receiver: str
    tid: int


def foldable(index: Index, until_s: float) -> Folded:
    """What becomes of the records of settled messages.

    Args:
        index: of the history so far.
        until_s: records that are later stay as they are.
    """
    settled = set(_settled(index, until_s)) - set(_largest(index))
    while True:
        runs = list(_runs(index, settled, until_s))
        inside = {position for run in runs for position, _ in run}
        kept = {way for way, position in _messages(index) if way in settled and position not in inside}
        if not kept:
            break
        settled -= kept
    found: dict[int, Record | None] = {}
    for run in runs:
        # Two, since what this end knows between its first frame and its last is not known any more.
        found.update(dict.fromkeys(position for position, _ in run))
        for part in (run[:-1], run[-1:]):
            if part:
                found[part[0][0]] = _stands_for(part)
    found.update(dict.fromkeys(_of_applications(index, settled)))
    found.update(dict.fromkeys(_throttles(index, until_s)))
    return found


def _settled(index: Index, until_s: float) -> Iterator[_Way]:
    """Messages that arrived as they were sent and that no session will send again."""
    sends: dict[_Way, list[Record]] = defaultdict(list)
    for _, record in index.by_kind.get("send", ()):
        sends[_Way(record.node, record["peer"], record["tid"])].append(record)
    acked: dict[SessionLog, list[tuple[int, int]]] = {}
    delivered: set[_Way] = set()
    for position, _, sent in index.streams.deliveries:
        record = index.history[position]
        way = _Way(record["peer"], record.node, record["tid"])
        if sent is None or record.time_s > until_s or way in delivered or len(sends.get(way, ())) != 1:
            delivered.add(way)  # what is there twice is no ordinary message
            continue
        delivered.add(way)
        source = sent.source.log
        if source not in acked:
            acked[source] = _acks(source, until_s)
        end = index.ended(source)
        is_over = index.lossy(source) or (end is not None and index.history[end].time_s <= until_s)
        through = position if is_over else _acked_at(acked[source], position, record["seq"])
        states = [at for at, _ in source.of("state")]
        # What a state counts as queued or kept for replay has to be there as well.
        if through is not None and bisect_left(states, sent.index) == bisect_left(states, through):
            yield way


def _largest(index: Index) -> Iterator[_Way]:
    """The largest message that each node got: a throttle may exceed its limit by as much."""
    found: dict[str, Record] = {}
    for _, record in index.by_kind.get("deliver", ()):
        if record.node not in found or record["size"] > found[record.node]["size"]:
            found[record.node] = record
    for record in found.values():
        yield _Way(record["peer"], record.node, record["tid"])


def _acks(log: SessionLog, until_s: float) -> list[tuple[int, int]]:
    """Where the peer acknowledged messages of a session, and the seq that it acknowledged."""
    found: list[tuple[int, int]] = []
    for link in log.links:
        for position, record in link.rx:
            fields = record["fields"]
            seq = fields.get("seq" if record["tag"] == "ACK" else "ack_seq")
            if type(seq) is int and record["tag"] in _FOLDABLE and record.time_s <= until_s:
                found.append((position, seq))
    return sorted(found)


def _acked_at(acks: list[tuple[int, int]], position: int, seq: int) -> int | None:
    """Where a message was acknowledged that was delivered at ``position``; None if it was not."""
    behind = (at for at, acked in islice(acks, bisect_left(acks, (position, 0)), None) if acked >= seq)
    return next(behind, None)


def _messages(index: Index) -> Iterator[tuple[_Way, int]]:
    """The frames of messages, and where they stand."""
    for link in index.links.values():
        peer = index.peer_of(link)
        if peer is None:
            continue
        for position, record in link.data:
            if record["tag"] in MESSAGE_TAGS and (way := _way(link, peer, record)) is not None:
                yield way, position


def _way(link: LinkLog, peer: str, record: Record) -> _Way | None:
    tid = record["fields"].get("tid")
    if not isinstance(tid, int):
        return None
    ends = (link.key.node, peer) if record["direction"] == "tx" else (peer, link.key.node)
    return _Way(*ends, tid)


def _runs(index: Index, settled: set[_Way], until_s: float) -> Iterator[list[Entry]]:
    """Consecutive frames of one direction of a link; those at both of its ends are the same ones."""
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
        # What never arrived; the link is closed, or it would arrive yet.
        if link.closed is not None:
            rest = link.tx[number:]
            alone = [
                (bisect_left(states[0], sent), 0) if mine else None
                for (sent, _), mine in zip(rest, ours[number:], strict=True)
            ]
            for first, last in _stretches(alone):
                yield rest[first:last]


def _state_places(index: Index, link: LinkLog) -> list[int]:
    """Where the session of a link recorded what it had counted: no stretch of frames goes beyond that."""
    log = index.session_of(link)
    return [] if log is None else [position for position, _ in log.of("state")]


def _is_foldable(link: LinkLog, entry: Entry, peer: str, settled: set[_Way], until_s: float) -> bool:
    record = entry[1]
    if record["tag"] not in _FOLDABLE or record.time_s > until_s:
        return False
    return record["tag"] not in MESSAGE_TAGS or _way(link, peer, record) in settled


def _stretches(parts: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int, int]]:
    """First and last place (exclusive) of what is equal in a row and not None."""
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
    """What the audit needs of frames of one direction: how many are KEEPALIVE2, the last seq and ack if any."""
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


def _of_applications(index: Index, settled: set[_Way]) -> Iterator[int]:
    for position, record in index.by_kind.get("send", ()):
        if _Way(record.node, record["peer"], record["tid"]) in settled:
            yield position
    for position, record in index.by_kind.get("deliver", ()):
        if _Way(record["peer"], record.node, record["tid"]) in settled:
            yield position


def _throttles(index: Index, until_s: float) -> Iterator[int]:
    """All values of throttles but the last of each."""
    last: dict[tuple[str, str], int] = {}
    for position, record in index.by_kind.get("throttle", ()):
        if record.time_s > until_s:
            break
        if (before := last.get((record.node, record["name"]))) is not None:
            yield before
        last[record.node, record["name"]] = position
