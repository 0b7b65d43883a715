"""Finds the settled records of a running history, and the short records that replace them.

Most records of a long run are about messages that were sent, delivered and acknowledged. Once these are judged,
they do not affect the verdict on later records, and leave the history: ``send``, ``deliver`` and the frames. One
``FOLDED`` frame at each end of the link replaces consecutive frames, with their number and bytes, so that the
frames after it continue the stream. Operations on objects are folded in the same way
(:mod:`toolkit.checks.settled_operations`). A state record that counts messages which leave is marked, because it
cannot be compared with the messages again. Handshakes, states, events and faults leave with whole links
(:mod:`toolkit.checks.settled_links`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from toolkit.checks.folded import FOLDABLE_TAGS, stands_for
from toolkit.checks.index import Index
from toolkit.checks.leaving_records import leaving_records
from toolkit.checks.records import MESSAGE_TAGS, Record
from toolkit.checks.sessions import SessionLog
from toolkit.checks.settled_links import Cuts
from toolkit.checks.settled_messages import MessageId, Messages, message_id, of_kind, peer_name, strangers
from toolkit.checks.settled_operations import foldable_operations
from toolkit.checks.wires import Entry, LinkLog

Folded = Mapping[int, Record | None]
"""By position, the record that replaces this one and those before it on its link; None to remove it without a
replacement."""


def foldable(index: Index, until_s: float) -> Folded:
    """Return the replacements of settled records.

    Args:
        index: the history so far.
        until_s: time in seconds; later records stay as they are.
    """
    messages = Messages(index, until_s)
    leaving = Cuts(index, until_s, messages)
    settled = messages.settled.keys() - leaving.messages
    settled -= {*_largest(index), *_last_delivered(index, until_s)}
    while True:
        runs = list(_runs(index, settled, until_s, leaving.links))
        inside = {position for run in runs for position, _ in run}
        kept = {
            message
            for message in settled
            if any(at not in inside and link not in leaving.links for link, at in messages.frames[message])
        }
        if not kept:
            break
        settled -= kept
    found: dict[int, Record | None] = {}
    for run in runs:
        # Two records, since the state of this end between its first and its last frame is lost.
        found.update(dict.fromkeys(position for position, _ in run))
        for part in (run[:-1], run[-1:]):
            if part:
                found[part[0][0]] = stands_for([record for _, record in part])
    for message in settled:
        found.update(dict.fromkeys(at for _, at in (*messages.sent[message], *messages.delivered[message])))
    found.update(dict.fromkeys(_throttles(index, until_s)))
    found.update(_counted(index, {position for message in settled for position in messages.settled[message]}))
    found.update(foldable_operations(index, until_s))
    found.update(leaving_records(index, leaving, messages))
    return found


def _last_delivered(index: Index, until_s: float) -> Iterator[MessageId]:
    """Yield the last message that each session delivered: later records are compared with its seq.

    What a node sends to itself needs no link, and leaves as a whole when the session ends.
    """
    for log in index.sessions.values():
        tids = [record["tid"] for _, record in log.of("deliver") if record.time_s <= until_s]
        if tids and log.links:
            yield MessageId(peer_name(log), log.node, tids[-1])


def _largest(index: Index) -> Iterator[MessageId]:
    """Yield the largest message that each node received: a throttle may exceed its limit by that size."""
    found: dict[str, tuple[int, MessageId]] = {}
    for message, _, position in of_kind(index, "deliver"):
        size = index.history[position]["size"]
        if message.receiver not in found or size > found[message.receiver][0]:
            found[message.receiver] = size, message
    for _, message in found.values():
        yield message


def _counted(index: Index, positions: Iterable[int]) -> Iterator[tuple[int, Record]]:
    """Yield state records that count messages whose records leave, with a mark of that, by position."""
    for position in positions:
        record = index.history[position]
        yield position, Record(record.time_s, record.node, record.kind, {**record.fields, "folded": 1})


def _runs(
    index: Index, settled: set[MessageId], until_s: float, leaving: AbstractSet[LinkLog]
) -> Iterator[list[Entry]]:
    """Yield runs of consecutive frames of one direction, the same frames at both ends of the link.

    Args:
        index: the history.
        settled: the settled messages.
        until_s: time in seconds; later frames stay.
        leaving: links that leave as a whole.
    """
    for link in index.links.values():
        if link in leaving:
            continue
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
        # Frames that never arrived, since both ends are closed.
        if link.closed is not None and (far.closed is not None or index.process_of(far) in index.process_ends):
            rest = link.tx[number:]
            alone = [
                (bisect_left(states[0], sent), 0) if mine else None
                for (sent, _), mine in zip(rest, ours[number:], strict=True)
            ]
            for first, last in _stretches(alone):
                yield rest[first:last]
    for log in strangers(index):
        yield from _runs_with(index, log, settled, until_s, leaving)


def _runs_with(
    index: Index, log: SessionLog, settled: set[MessageId], until_s: float, leaving: AbstractSet[LinkLog]
) -> Iterator[list[Entry]]:
    """Yield runs of consecutive frames of one direction of links whose other end is not in the history."""
    states, peer = [position for position, _ in log.of("state")], peer_name(log)
    for link in log.links:
        if link in leaving or index.is_mangled(link):
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


def _is_foldable(link: LinkLog, entry: Entry, peer: str, settled: set[MessageId], until_s: float) -> bool:
    record = entry[1]
    if record["tag"] not in FOLDABLE_TAGS or record.time_s > until_s:
        return False
    return record["tag"] not in MESSAGE_TAGS or message_id(link, peer, record) in settled


def _stretches(parts: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int, int]]:
    """Yield first and last index (exclusive) of each run of equal values that are not None."""
    first = 0
    for place in range(1, len(parts) + 1):
        if place == len(parts) or parts[place] != parts[first]:
            if parts[first] is not None:
                yield first, place
            first = place


def _throttles(index: Index, until_s: float) -> Iterator[int]:
    """Yield the positions of all values of throttles except the last one of each."""
    last: dict[tuple[str, str], int] = {}
    for position, record in index.by_kind.get("throttle", ()):
        if record.time_s > until_s:
            break
        if (before := last.get((record.node, record["name"]))) is not None:
            yield before
        last[record.node, record["name"]] = position
