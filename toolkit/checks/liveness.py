"""INV-6: without faults on the network, queued messages leave and sent ones are acknowledged."""

from messenger.errors import FaultReason
from messenger.loopback import LOOPBACK_ID
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog

_REFUSALS = frozenset(
    reason.name
    for reason in (
        FaultReason.V1_PEER,
        FaultReason.NOT_MSGR,
        FaultReason.BANNER_FEATURES,
        FaultReason.MISSING_FEATURES,
        FaultReason.PEER_TYPE,
        FaultReason.WRONG_TARGET,
        FaultReason.AUTH_METHOD,
        FaultReason.AUTH_DENIED,
    )
)
"""Faults with which the peer refuses the session, independent of the network."""


def liveness(index: Index, findings: Findings) -> None:
    """INV-6: at rest no session has queued or unacknowledged messages to a running peer that accepts it.

    A session with data is READY; one without data may also be in STANDBY.
    """
    if not index.at_rest:
        findings.skip("the run did not come to rest, so liveness was not judged")
        return
    for node, (position, record) in index.ends.items():
        if index.alive(node):
            _judge_node(index, findings, node, position, record["queued"] + record["sent"])


def _judge_node(index: Index, findings: Findings, node: str, position: int, held: int) -> None:
    process = index.process(node)
    logs = [
        log
        for log in index.sessions.values()
        if log.key.process == process and log.key.session != LOOPBACK_ID and index.is_open(log)
    ]
    excuses = {log.key: _excuse(index, log) for log in logs}
    able = [log for log in logs if not excuses[log.key]]
    for log in logs:
        if excuses[log.key] and log.held_at_most():
            findings.note(f"{index.name(log)} was not judged: {excuses[log.key]}")
    for log in able:
        if log.state not in {SessionState.READY, SessionState.STANDBY}:
            findings.add(position, f"{index.name(log)} with {_peer(log)} is still {log.state} at rest")
    excused = sum(log.held_at_most() for log in logs if excuses[log.key])
    if held > excused:
        stuck = [f"session {log.key.session} ({log.state})" for log in able if log.held_at_most()]
        where = f"; candidates: {', '.join(stuck)}" if stuck else ""
        text = f"{node}: {held - excused} messages are queued or unacknowledged at rest{where}"
        findings.add(position, text)


def _excuse(index: Index, log: SessionLog) -> str:
    """Return the reason why a session need not be READY at rest; empty if it must be."""
    peer = log.peer_node
    faults = log.of("fault")
    reason = faults[-1][1]["reason"] if faults else ""
    if peer is not None and not index.alive(peer):
        return f"{peer} is gone"
    if log.state != SessionState.READY and reason in _REFUSALS:
        return f"the peer refuses it ({reason})"
    if peer is None and log.state != SessionState.READY and reason == FaultReason.REFUSED.name:
        return "nothing listens at its address"
    if log.state != SessionState.READY and index.waits_for_dial(log):
        return "only the peer may dial, and it has no session"
    return ""


def _peer(log: SessionLog) -> str:
    return log.peer_node or (log.last_state["peer"] if log.last_state else "its peer")
