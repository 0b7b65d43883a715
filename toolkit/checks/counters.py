"""INV-7: the numbers that order connection attempts change only as docs/protocol.md §3.6 and §4.9 allow."""

from bisect import bisect_right
from collections import defaultdict
from operator import itemgetter

from messenger.outputs import EventKind
from messenger.session.session import SessionState
from messenger.v1.existing import Verdict
from toolkit.checks.conversations import v1_beginnings
from toolkit.checks.index import Index
from toolkit.checks.model.problems import About
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionLog

_COUNTED = frozenset(
    verdict.name
    for verdict in (
        Verdict.OPEN,
        Verdict.STOP_EXISTING,
        Verdict.REPLACE,
        Verdict.REPLACE_FRESH,
        Verdict.REPLACE_RESET,
    )
)
"""Decisions of v1 after which connect_seq may grow: the link opens the session, or begins a takeover that
fails."""


def monotonic_attempts(index: Index, findings: Findings) -> None:
    """INV-7: connect_seq and global_seq never fall; connect_seq grows only after the session was READY.

    Where frames are recorded, the numbers of a session are those of its handshakes, and connect_seq grows by one
    with each dial that resumes the session.
    """
    for problem in index.models.problems[About.ATTEMPT]:
        findings.add(problem.record, problem.text)
    others = [log for log in index.sessions.values() if log not in index.models.followed]
    for log in others:
        _judge_connect_seq(index, findings, log)
    if others:
        _judge_global_seq(index, findings)


def _judge_connect_seq(index: Index, findings: Findings, log: SessionLog) -> None:
    """Judge connect_seq without frames: a remote_reset or a new server_cookie starts again at 0."""
    resets = log.remote_resets
    beginnings = v1_beginnings(log)
    raises = _raises(log)
    accepts = [position for position, record in log.of("event") if record["event"] == EventKind.ACCEPT]
    last, cookie, last_at, was_ready = 0, 0, 0, False
    for position, record in log.of("state"):
        value, is_ready = record["connect_seq"], record["state"] == SessionState.READY
        if position == log.earlier:
            last, cookie, last_at, was_ready = value, record["server_cookie"], position, True
        restarted = (
            cookie != record["server_cookie"]
            or any(last_at < at < position for at in resets)
            or (not record["in_seq"] and any(last_at < at < position for at in beginnings))
            or (not cookie and log.policy is not None and not log.policy.resetcheck)
        )
        # A connector resumes a granted session (one with a server_cookie) by SESSION_RECONNECT, even if it never
        # was READY here: the link may break as the answer is written.
        granted = record["server_cookie"] != 0
        if value < last and not restarted:
            text = f"connect_seq falls from {last} to {value} in one session"
            findings.add(position, f"{index.name(log)}: {text}")
        elif (
            value > last
            and not was_ready
            and not granted
            and not any(at < position for at in accepts)
            and not _may_count(record)
            and not any(last_at < at < position for at in raises)
            and not _v1_counted(index, log, range(last_at + 1, position))
        ):
            text = f"connect_seq grows from {last} to {value}, but the session has never been READY"
            findings.add(position, f"{index.name(log)}: {text}")
        was_ready = is_ready or (was_ready and not (restarted and value == 0))
        last, cookie, last_at = value, record["server_cookie"], position


def _may_count(record: Record) -> bool:
    """True if connect_seq may be larger than before although the session was never READY here.

    v1 has no cookies: an acceptor counts the first open before it writes the answer, which may fail. On v2 the
    peer may be READY before this side: the answer arrived, but this side's link broke while it was written.
    """
    if record["state"] == SessionState.READY and record["why"] == EventKind.ACCEPT:
        return True
    return not record["server_cookie"] and record["state"] in {SessionState.READY, SessionState.CLOSED}


def _v1_counted(index: Index, log: SessionLog, places: range) -> bool:
    """True if, at one of the positions, a v1 acceptor opened the session or a link began a takeover.

    Either may fail at once.
    """
    links = {(link.key.node, link.key.link) for link in log.links if not link.dialled}
    return any(
        position in places and record["verdict"] in _COUNTED and (record.node, record["link"]) in links
        for position, record in index.by_kind.get("decision", ())
    )


def _raises(log: SessionLog) -> list[int]:
    """Return the positions where a v1 acceptor demanded a higher connect_seq, as it may at the first attempt."""
    return [
        position
        for link in log.links
        for position, record in link.talk
        if record.fields["fields"].get("tag") == "RETRY_SESSION" and record.fields["direction"] == "rx"
    ]


def _judge_global_seq(index: Index, findings: Findings) -> None:
    """global_seq never falls in a session, and a new attempt towards a peer draws one above all earlier ones."""
    rises: dict[tuple[Process, str], list[tuple[int, int]]] = defaultdict(lambda: [(-1, 0)])
    """By process and peer, positions and the highest global_seq from there on."""
    last: dict[SessionLog, int] = {}
    changed_at: dict[SessionLog, int] = {}
    """Position of a session's last number; it may have drawn the next one since."""
    for position, log, record in index.transitions:
        value = record["global_seq"]
        before, known = last.get(log, 0), rises[log.key.process, record["peer"]]
        since = changed_at[log] if log in changed_at else _first_asked(log, position)
        _, top = known[bisect_right(known, since, key=itemgetter(0)) - 1]
        if value < before:
            findings.add(position, f"{index.name(log)}: global_seq falls from {before} to {value}")
        elif value != before and value < top:
            text = f"new global_seq {value} towards {record['peer']} is below {top}, used before"
            findings.add(position, f"{index.name(log)}: {text}")
        last[log], changed_at[log] = value, position
        if value > known[-1][1]:
            known.append((position, value))


def _first_asked(log: SessionLog, position: int) -> int:
    """Return the position from which a session may have drawn its first number: that of an accepted link."""
    asked = (link.opened for link in log.links if not link.dialled and link.opened is not None)
    return min(asked, default=position)
