"""Divides the history of a long session: what the next part needs of the part before.

A session is judged part by part when its records do not fit into memory. Links that were closed leave with the
part in which they end, except the last one of each session, with which the next handshake is compared. Of the
other links, the handshakes stay, the messages and keepalives that were not acknowledged, and the newest frames.
One ``FOLDED`` frame stands for each run of frames between them. The newest records of a part are judged with the
next one, because a capture may have frames in another order than that in which they were sent.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from toolkit.checks.folded import FOLDABLE_TAGS, stands_for
from toolkit.checks.history import History
from toolkit.checks.records import MESSAGE_TAGS, Record

_NEWEST_S = 1.0
"""Age in seconds up to which records are judged with the next part. Rules compare frames that are much closer."""
_NEWEST_SHARE = 4
"""At most one in so many records is judged with the next part."""
_MOST_AWAITING = 1 << 10
"""Most messages and keepalives of each direction of a link that stay because they are not acknowledged."""
_Place = tuple[str, str]
"""Node and link."""


@dataclass(slots=True)
class _Link:
    """One end of a link, as far as it was recorded."""

    session: object = None
    is_closed: bool = False
    acked_seq: int = -1
    """The highest seq of this end that the other end has acknowledged."""
    acking_seq: int = -1
    """The highest seq that this end has acknowledged."""
    answers: set[tuple[str, object]] = field(default_factory=set)
    """Directions and timestamps of the answers to keepalives."""

    def awaits(self, record: Record) -> bool:
        """True if a frame is a message or keepalive of which the capture has no acknowledgement."""
        tag, fields = record["tag"], record["fields"]
        is_sent = record["direction"] == "tx"
        if tag == "KEEPALIVE2":
            return ("rx" if is_sent else "tx", _stamp(record)) not in self.answers
        seq = fields.get("seq")
        return tag in MESSAGE_TAGS and type(seq) is int and seq > (self.acked_seq if is_sent else self.acking_seq)


def end_part(part: History) -> None:
    """Set up to which record a part is judged; another part follows it."""
    records = part.records
    until = bisect_left(records, records[-1].time_s - _NEWEST_S, key=_time_s)
    until = max(until, part.judged_since, len(records) - len(records) // _NEWEST_SHARE)
    while until > part.judged_since and _is_pair(records[until - 1], records[until]):
        until -= 1
    part.judged_until = until


def carried(part: History) -> History:
    """Return the beginning of the next part: the records that stand for those of a part that has ended."""
    assert part.judged_until is not None
    old, newest = part.records[: part.judged_until], part.records[part.judged_until :]
    links = _links(old)
    staying = {place for place, link in links.items() if not link.is_closed}
    staying.update({(place[0], link.session): place for place, link in links.items() if link.is_closed}.values())
    following = History()
    following.records += _folded([record for record in old if _place(record) in staying], links)
    following.judged_since = len(following)
    following.records += newest
    return following


def _is_pair(first: Record, second: Record) -> bool:
    """True if both records may be about the two ends of one frame or link."""
    frames = first.fields.get("frame"), second.fields.get("frame")
    return first.time_s == second.time_s and (None in frames or frames[0] == frames[1])


def _time_s(record: Record) -> float:
    return record.time_s


def _place(record: Record) -> _Place:
    return record.node, record["link"]


def _links(records: list[Record]) -> dict[_Place, _Link]:
    """Return the ends of links, in the order in which they were opened."""
    found: dict[_Place, _Link] = defaultdict(_Link)
    for record in records:
        link, fields = found[_place(record)], record.fields
        if fields["session"] is not None:
            link.session = fields["session"]
        if record.kind == "link":
            link.is_closed |= fields["action"] == "close"
            continue
        inner = fields["fields"]
        if fields["tag"] == "KEEPALIVE2_ACK":
            link.answers.add((fields["direction"], _stamp(record)))
        seq = inner.get("seq") if fields["tag"] == "ACK" else inner.get("last_ack", inner.get("ack_seq"))
        if type(seq) is int and fields["tag"] in FOLDABLE_TAGS:
            if fields["direction"] == "tx":
                link.acking_seq = max(link.acking_seq, seq)
            else:
                link.acked_seq = max(link.acked_seq, seq)
    return found


def _stamp(record: Record) -> object:
    return record["fields"].get("seconds"), record["fields"].get("nanoseconds")


def _folded(records: list[Record], links: dict[_Place, _Link]) -> list[Record]:
    """Fold the frames of each direction of each link up to its first one that awaits an acknowledgement."""
    ways: dict[tuple[_Place, str], list[int]] = defaultdict(list)
    for position, record in enumerate(records):
        if record.kind == "frame":
            ways[_place(record), record["direction"]].append(position)
    changed: dict[int, Record | None] = {}
    for (place, _), positions in ways.items():
        for run in _runs(records, positions, links[place]):
            frames = [records[position] for position in run]
            folded = stands_for(frames)
            folded["fields"]["keepalives"] = sum(map(links[place].awaits, frames))
            changed.update(dict.fromkeys(run))
            changed[run[0]] = folded
    kept = (changed.get(position, record) for position, record in enumerate(records))
    return [record for record in kept if record is not None]


def _runs(records: list[Record], positions: list[int], link: _Link) -> list[list[int]]:
    """Return the runs of frames of one direction that leave.

    A message without a seq, because a capture has only the first bytes of its packet, ends what can be judged of
    its direction. The first one stays.
    """
    awaiting = [at for at, position in enumerate(positions) if link.awaits(records[position])]
    end = awaiting[-_MOST_AWAITING:][0] if awaiting else len(positions)
    unnumbered = next((at for at, position in enumerate(positions) if _lacks_seq(records[position])), end)
    runs: list[list[int]] = [[]]
    for at, position in enumerate(positions[:end]):
        if at == unnumbered or records[position]["tag"] not in FOLDABLE_TAGS:
            runs.append([])
        else:
            runs[-1].append(position)
    return [run for run in runs if run]


def _lacks_seq(record: Record) -> bool:
    return record["tag"] in MESSAGE_TAGS and type(record["fields"].get("seq")) is not int
