"""The arrows of a chart: each frame once, with both of its ends if both were recorded."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

from toolkit.checks.describe import show, summary
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.sessions import addresses
from toolkit.checks.wires import LinkLog, same_frame
from toolkit.report.folds import FOLDED_TAGS
from toolkit.report.rows import Arrow, Fate
from toolkit.report.text import duration


def arrows(index: Index) -> dict[int, Arrow]:
    """Return every frame by the position of its record: that of the sender if it was recorded."""
    found: dict[int, Arrow] = {}
    numbers = _numbers(index.links.values())
    for link in index.links.values():
        far = link.far
        peer = index.peer_of(link) or next(iter(addresses(link.peer)), "?")
        number = numbers.get(id(link), "")
        received = {record["index"]: record for _, record in far.rx} if far else {}
        sent = {record["index"]: record for _, record in far.tx} if far else {}
        for place, record in link.tx:
            other = received.get(record["index"])
            arrived = other is not None and same_frame(record, other)
            fate = Fate.ARRIVED if arrived else Fate.LOST if peer in index.nodes else Fate.UNKNOWN
            tip = _tip(record, f"{link.key.node} → {peer}", link, other if arrived else None, fate)
            found[place] = _arrow(record, link.key.node, peer, fate, tip, number)
        for place, record in link.rx:
            other = sent.get(record["index"])
            if other is None or not same_frame(other, record):
                tip = _tip(record, f"{peer} → {link.key.node}", link, record, Fate.UNKNOWN)
                found[place] = _arrow(record, peer, link.key.node, Fate.UNKNOWN, tip, number)
    return found


def _arrow(record: Record, source: str, target: str, fate: Fate, tip: str, number: str) -> Arrow:
    fields = record["fields"]
    text = summary(record["tag"], fields)
    if number and record["tag"] not in FOLDED_TAGS:  # data flows on one link only
        text = f"{text} · {number}" if text else number
    seq = fields.get("seq")
    seqs = (seq, seq) if isinstance(seq, int) else None
    in_capture = record.fields.get("frame")
    return Arrow(record.time_s, source, target, record["tag"], text, fate, tip, seqs, frame=in_capture)


def _tip(record: Record, way: str, link: LinkLog, received: Record | None, fate: Fate) -> str:
    if received is record:
        when = f"received at {record.time_s:.6f} s"
    elif received is not None:
        later = duration(received.time_s - record.time_s)
        when = f"sent at {record.time_s:.6f} s, received {later} later"
    else:
        end = ", never received" if fate is Fate.LOST else ""
        when = f"sent at {record.time_s:.6f} s{end}"
    ends = link.key.link if link.far is None else f"{link.key.link} and {link.far.key.link}"
    session = "no session" if record["session"] is None else f"session {record['session']}"
    where = f"link {ends}, {session}, frame {record['index']}, byte {record['offset']}, {record['length']} bytes"
    fields = [f"{name}: {show(value)}" for name, value in record["fields"].items()]
    return "\n".join([f"{record['tag']} {way}", when, where, *fields])


def _numbers(links: Iterable[LinkLog]) -> dict[int, str]:
    """Return ``link 2`` and so on for links that are open at the same time between the same nodes."""
    wires: dict[frozenset[str], list[LinkLog]] = defaultdict(list)
    for link in links:
        if link.dialled and link.far is not None:
            wires[frozenset((link.key.node, link.far.key.node))].append(link)
    named: dict[int, str] = {}
    for between in wires.values():
        between.sort(key=lambda link: link.opened or 0)
        for number, (link, crowded) in enumerate(zip(between, _crowded(between), strict=True), 1):
            if crowded:
                named[id(link)] = named[id(link.far)] = f"link {number}"
    return named


def _crowded(links: Sequence[LinkLog]) -> list[bool]:
    """For each of these links, in the order of their opening, True if another was in use at the same time.

    Two links overlap if the later one was first used before either side had closed the earlier one.
    """
    begins, ends = zip(*map(_span, links), strict=True)
    latest_end_before = accumulate(ends, max, initial=-inf)
    earliest_begin_behind = [*accumulate(reversed(begins), min, initial=inf)][-2::-1]
    return [
        begin < end_before or begin_behind < end
        for begin, end, end_before, begin_behind in zip(
            begins, ends, latest_end_before, earliest_begin_behind, strict=False
        )
    ]


def _span(link: LinkLog) -> tuple[float, float]:
    """Return the positions of a link's first frame and of its first close by either end."""
    begin = min((entries[0][0] for entries in (link.tx, link.rx) if entries), default=inf)
    return begin, min(inf if end is None or end.closed is None else end.closed for end in (link, link.far))
