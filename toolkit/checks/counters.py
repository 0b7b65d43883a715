"""INV-7: the numbers that order connection attempts only move as protocol.md §3.6 and §4.9 say."""

from collections import defaultdict

from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionLog


def monotonic_attempts(index: Index, findings: Findings) -> None:
    """INV-7: connect_seq and global_seq never fall; connect_seq grows only after the session was READY."""
    for log in index.sessions.values():
        _judge_connect_seq(index, findings, log)
    _judge_global_seq(index, findings)


def _judge_connect_seq(index: Index, findings: Findings, log: SessionLog) -> None:
    """A reset, seen by its event or by a new server_cookie, starts a session whose connect_seq is 0 again."""
    resets = log.remote_resets
    beginnings = _beginnings(log)
    last, cookie, last_at, was_ready = 0, 0, 0, False
    for position, record in log.of("state"):
        value, is_ready = record["connect_seq"], record["state"] == SessionState.READY
        restarted = (
            cookie != record["server_cookie"]
            or any(last_at < at < position for at in resets)
            or (not record["in_seq"] and any(last_at < at < position for at in beginnings))
            or (not cookie and log.policy is not None and not log.policy.resetcheck)
        )
        if value < last and not restarted:
            text = f"connect_seq falls from {last} to {value} in one session"
            findings.add(position, f"{index.name(log)}: {text}")
        # v1, which has no cookies, counts the first open too.
        elif value > last and not was_ready and not (is_ready and not record["server_cookie"]):
            text = f"connect_seq grows from {last} to {value}, but the session has never been READY"
            findings.add(position, f"{index.name(log)}: {text}")
        was_ready = is_ready or (was_ready and not (restarted and value == 0))
        last, cookie, last_at = value, record["server_cookie"], position


def _beginnings(log: SessionLog) -> list[int]:
    """Where a v1 peer said that it begins from 0; nobody is told if nothing had been exchanged before."""
    return [
        position
        for link in log.links
        for position, record in link.rx
        if (record["tag"] == "CONNECT" and record["fields"].get("connect_seq") == 0)
        or (record["tag"] == "CONNECT_REPLY" and record["fields"].get("tag") == "RESETSESSION")
    ]


def _judge_global_seq(index: Index, findings: Findings) -> None:
    """Never lower in a session; and a new attempt towards a peer has one above those before it."""
    highest: dict[tuple[Process, str], int] = defaultdict(int)
    last: dict[SessionLog, int] = {}
    for position, log, record in index.transitions():
        value, peer = record["global_seq"], record["peer"]
        before, top = last.get(log, 0), highest[log.key.process, peer]
        if value < before:
            findings.add(position, f"{index.name(log)}: global_seq falls from {before} to {value}")
        elif value != before and value < top:
            text = f"new global_seq {value} towards {peer} is below {top}, used before"
            findings.add(position, f"{index.name(log)}: {text}")
        last[log] = value
        highest[log.key.process, peer] = max(top, value)
