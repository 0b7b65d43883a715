"""The life of a link: opened once, closed once, no frames before or after."""

import itertools
from collections import defaultdict

from messenger.errors import FaultReason
from messenger.session.session import SessionState
from toolkit.checks.audit.talk import REORDERED_S
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionLog
from toolkit.checks.wires import LinkLog

_BY_THIS_SIDE = (FaultReason.MARKED_DOWN.value, FaultReason.SHUTDOWN.value, FaultReason.REPLACED.value)
"""Reasons for which this side closes a link without a fault."""
_LIVES = frozenset(
    {("accept",), ("accept", "close"), ("dial",), ("dial", "close"), ("dial", "open"), ("dial", "open", "close")}
)
"""The sequences of actions that a link may have."""
_FROM_HOME = FaultReason.KEEPALIVE_TIMEOUT.value
"""Reason for which the home shard closes a link that another shard carries; then no shard records a fault."""


def link_lifecycle(index: Index, findings: Findings) -> None:
    """link_lifecycle: a link is dialled or accepted once and closed once, and is silent before and after.

    A link that breaks has a fault record before its close. A session has one link at a time: its former link is
    closed before the next one is dialled or takes over. At rest the node counts as many open links as its records
    show.
    """
    if not index.by_kind.get("link"):
        return
    traced = {log.key.process for log in index.sessions.values() if log.last_state is not None}
    for link in index.links.values():
        process = index.process_of(link)
        _judge_actions(findings, link)
        _judge_silence(findings, link)
        if link.closed is not None and process in traced:
            _judge_end(findings, link, link.closed, sharded=process in index.sharded)
    for log in index.sessions.values():
        if len(log.links) > 1 or log.state == SessionState.CLOSED:
            _judge_session(index, findings, log)
    _judge_counts(index, findings)


def _judge_actions(findings: Findings, link: LinkLog) -> None:
    actions = tuple([record.fields["action"] for _, record in link.actions])
    if actions in _LIVES:
        return
    seen: set[str] = set()
    for (position, _), action in zip(link.actions, actions, strict=True):
        begins = action in {"dial", "accept"}
        if action in seen or (begins and seen):
            findings.add(position, f"{link.key.link}: {action} comes a second time")
        elif action == "open" and "dial" not in seen:
            findings.add(position, f"{link.key.link}: open without a dial before it")
        seen.add(action)
    if link.opened is None:
        first = min(entries[0][0] for entries in (link.actions, link.tx, link.rx) if entries)
        findings.add(first, f"{link.key.link} was neither dialled nor accepted")


def _judge_silence(findings: Findings, link: LinkLog) -> None:
    """No frame comes before the stream is open, and no record after the close."""
    begins = link.opened
    if link.dialled:
        begins = next((at for at, record in link.actions if record.fields["action"] == "open"), begins)
    closed = link.closed
    for frames in (link.tx, link.rx):
        if frames and begins is not None and frames[0][0] < begins:
            position, record = frames[0]
            findings.add(position, f"{link.key.link}: {record['tag']} before the link is open")
        if frames and closed is not None and frames[-1][0] > closed:
            position, record = frames[-1]
            findings.add(position, f"{link.key.link}: {record['tag']} after the end of the link")
    if closed is None:
        return
    last = [entries[-1] for entries in (link.faults, link.decisions) if entries]
    for entry in (*last, link.auth, link.usage):
        if entry is not None and entry[0] > closed:
            findings.add(entry[0], f"{link.key.link}: {entry[1].kind} after the end of the link")


def _judge_end(findings: Findings, link: LinkLog, closed: int, *, sharded: bool) -> None:
    """The fault that breaks a link is recorded before the close that it causes."""
    if link.usage is None:
        findings.add(closed, f"{link.key.link} closes without a usage record")
    detail = next((record.fields.get("detail", "") for at, record in link.actions if at == closed), "")
    if not detail or detail.startswith(_BY_THIS_SIDE) or (sharded and detail.startswith(_FROM_HOME)):
        return
    if not any(at < closed and record.fields["detail"] == detail for at, record in link.faults):
        findings.add(closed, f"{link.key.link} closes ({detail}) without a fault")


def _judge_session(index: Index, findings: Findings, log: SessionLog) -> None:
    """A session has one link at a time, and none once it is closed."""
    links = sorted((link for link in log.links if link.opened is not None), key=_carries_from)
    for before, link in itertools.pairwise(links):
        begins = _carries_from(link)
        if _ended_about(before, link):
            continue
        if link.dialled and (before.closed is None or before.closed > begins):
            findings.add(begins, f"{index.name(log)} dials {link.key.link} while it has {before.key.link}")
        elif before.closed is None:
            findings.add(begins, f"{before.key.link} is still open when {link.key.link} takes its place")
    if log.state == SessionState.CLOSED and log.key.process not in index.process_ends:
        for link in links[-1:]:
            if link.closed is None:
                findings.add(_carries_from(link), f"{link.key.link} is open, but {index.name(log)} is over")


def _ended_about(before: LinkLog, link: LinkLog) -> bool:
    """True if a link of a capture ended so close to the next one's beginning that their order is unknown."""
    ends = [record for position, record in before.actions if position == before.closed]
    begins = [record for position, record in link.actions if position == link.opened]
    is_captured = any("frame" in record.fields for _, record in (*link.tx[:1], *link.rx[:1]))
    return is_captured and bool(ends) and ends[0].time_s - begins[0].time_s <= REORDERED_S


def _carries_from(link: LinkLog) -> int:
    """Return the position at which a link becomes its session's: the dial, or the decision about it."""
    assert link.opened is not None
    return link.opened if link.dialled or not link.decisions else link.decisions[-1][0]


def _judge_counts(index: Index, findings: Findings) -> None:
    """A node at rest counts as many links as it has opened and not closed."""
    links: dict[Process, list[LinkLog]] = defaultdict(list)
    for link in index.links.values():
        links[index.process_of(link)].append(link)
    for node, (position, record) in index.ends.items():
        known = [link for link in links[index.process(node)] if link.opened is not None and link.opened < position]
        if not index.alive(node) or not known:
            continue
        still = sum(link.closed is None or link.closed > position for link in known)
        if still != record["links"]:
            text = f"{node} has {record['links']} links at rest, but {still} were opened and not closed"
            findings.add(position, text)
