"""Handshakes and links without traffic end in time (docs/protocol.md §3.9, §7.1)."""

from bisect import bisect_right
from operator import itemgetter

from messenger.config import Config
from messenger.interception import BLOCK_LIMIT_S
from toolkit.checks.index import Index
from toolkit.checks.records import Record, traffic_until_s
from toolkit.checks.result import Findings
from toolkit.checks.wires import LinkLog

_DEFAULTS = Config()
_LATE_S = 5.0
"""Tolerance in seconds: timers of live nodes fire late on a busy machine."""


def link_timeouts(index: Index, findings: Findings) -> None:
    """link_timeouts: handshakes end within ms_connection_ready_timeout, and idle links are closed.

    A link is idle after ms_connection_idle_timeout without traffic, as far as the frames of both ends show it.
    """
    if not index.by_kind.get("state"):
        return  # as in captures, where a link ends with its last captured frame
    opened: dict[LinkLog, int] = {}
    for openings in index.openings.values():
        for opening in openings:
            if opening.ready is not None and (confirmed := opening.confirmed) is not None:
                opened[opening.link] = confirmed
    for link in index.links.values():
        if link.opened is not None:
            _judge_handshake(index, findings, link, opened.get(link))
            if link in opened and link.far is not None:
                _judge_traffic(index, findings, link, opened[link])


def _judge_handshake(index: Index, findings: Findings, link: LinkLog, opened: int | None) -> None:
    begun = link.opened
    assert begun is not None
    end = _end(index, link) if opened is None else opened
    allowed_s = _allowed_s(index, link, "ms_connection_ready_timeout", begun)
    stayed_s = _passed_s(index, link, begun, end)
    if stayed_s > allowed_s:
        text = f"{link.key.link} is {stayed_s:.3g} s in its handshake, {allowed_s - _LATE_S:g} s are allowed"
        findings.add(begun, text)


def _judge_traffic(index: Index, findings: Findings, link: LinkLog, opened: int) -> None:
    records = index.history.records
    allowed_s = _allowed_s(index, link, "ms_connection_idle_timeout", opened)
    end = _end(index, link)
    if records[end].time_s - records[opened].time_s <= allowed_s:
        return
    arrived = [] if link.far is None else link.far.rx  # while frames arrive there, their bytes leave here
    frames = sorted(entry for frames in (link.tx, link.rx, arrived) for entry in frames if opened < entry[0] < end)
    last, busy_until_s = opened, records[opened].time_s
    for position, record in [*frames, (end, records[end])]:
        if record.time_s - busy_until_s > allowed_s and not _leaves(link, last, position):
            silent_s = _passed_s(index, link, last, _began(link, position, record))
            if silent_s > allowed_s:
                text = f"{link.key.link} is kept without traffic for {silent_s:.3g} s"
                findings.add(last, f"{text}, {allowed_s - _LATE_S:g} s are allowed")
                return
        last, busy_until_s = position, max(busy_until_s, traffic_until_s(record))


def _leaves(link: LinkLog, since: int, until: int) -> bool:
    """True if bytes of a frame may be in transit all that time: it was written before, and has not arrived."""
    arrived = [] if link.far is None else link.far.rx
    written = bisect_right(link.tx, since, key=itemgetter(0))
    return bisect_right(arrived, until, key=itemgetter(0)) < written


def _began(link: LinkLog, position: int, record: Record) -> int:
    """Return the position before which no byte can have arrived: bytes of a frame may arrive since it was sent."""
    sent = link.far.tx if link.far is not None else []
    if record.kind != "frame":
        return min(position, sent[len(link.rx)][0]) if len(sent) > len(link.rx) else position
    if record.fields["direction"] == "tx" or record.fields["link"] != link.key.link:
        return position
    return next((at for at, frame in sent if frame.fields["index"] == record.fields["index"]), 0)


def _allowed_s(index: Index, link: LinkLog, option: str, at: int) -> float:
    return index.option(link.key.node, option, getattr(_DEFAULTS, option), at) + _LATE_S


def _end(index: Index, link: LinkLog) -> int:
    """Return the position at which the link was closed, or its process or the history ended."""
    if link.closed is not None:
        return link.closed
    return index.process_ends.get(index.process_of(link), len(index.history) - 1)


def _passed_s(index: Index, link: LinkLog, since: int, until: int) -> float:
    """Return the seconds between two positions in which the node ran and no interceptor held the link."""
    since_s, until_s = (index.history[place].time_s for place in (since, until))
    held_s = sum(
        max(0.0, min(until_s, at_s + BLOCK_LIMIT_S) - max(since_s, at_s)) for at_s in index.held_since_s(link)
    )
    return until_s - since_s - index.frozen_s(link.key.node, since_s, until_s) - held_s
