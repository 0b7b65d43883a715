"""Delivery soon after the last fault."""

from messenger.config import Config
from messenger.session.session import SessionState
from toolkit.checks.history import NETWORK
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.streams import Sent

_BACKOFFS = 4
_ROUND_TRIPS = 10
_MAX_BACKOFF_S = Config().ms_max_backoff
_READY_TIMEOUT_S = Config().ms_connection_ready_timeout
_DISTURBING = ("process", "clock", "inject", "intercept")
_ENDING_STEPS = frozenset({"unblock", "release", "leave"})
"""Steps of a scenario that end a disturbance."""


def liveness_after_heal(index: Index, findings: Findings) -> None:
    """liveness_after_heal: all messages arrive soon after the last fault.

    Soon means: within 4 times the longest pause, plus the timeout of a handshake that can no longer succeed,
    plus 10 round trips. Judged for lossless sessions of the side that dials; a server has to wait for its client.
    """
    healed_s = _last_fault_s(index)
    round_trip_s = _round_trip_s(index)
    arrived = {id(delivery.sent): delivery.position for delivery in index.streams.deliveries}
    for source in index.streams.sources:
        log = source.log
        policy = log.policy
        if policy is None or policy.server or index.lossy(log) or source.ended is not None:
            continue
        longest_s = index.option(log.node, "ms_max_backoff", _MAX_BACKOFF_S)
        handshake_s = index.option(log.node, "ms_connection_ready_timeout", _READY_TIMEOUT_S)
        allowed_s = _BACKOFFS * longest_s + handshake_s + _ROUND_TRIPS * round_trip_s
        for sent in source.sent:
            due_s = max(healed_s, sent.record.time_s) + allowed_s
            if index.end_s <= due_s:
                break  # the messages after it are due later
            _judge_message(index, findings, sent, arrived.get(id(sent)), due_s)


def _judge_message(index: Index, findings: Findings, sent: Sent, arrived: int | None, due_s: float) -> None:
    log = sent.source.log
    records = index.history.records
    if arrived is not None:
        late_s = records[arrived].time_s - due_s
        if late_s > 0:
            findings.add(arrived, f"{index.name(log)}: {sent} arrives {late_s:.3g} s later than it should")
    elif not (sent.excused or sent.overtaken_by) and _is_expected(index, sent):
        text = f"{sent} has not arrived {index.end_s - due_s:.3g} s after it should have"
        findings.add(sent.index, f"{index.name(log)}: {text}")


def _is_expected(index: Index, sent: Sent) -> bool:
    """True if the peer runs and keeps the session."""
    log = sent.source.log
    peer = log.peer_node
    if peer is None or not index.alive(peer) or index.streams.receiver_lost(sent):
        return False
    return log.state == SessionState.READY or not log.of("fault")


def _last_fault_s(index: Index) -> float:
    faults = [entry for kind in _DISTURBING for entry in index.by_kind.get(kind, ())[-1:]]
    network = [entries[-1] for entries in index.by_kind.values() if entries and entries[-1][1].node == NETWORK]
    steps = reversed(index.by_kind.get("step", ()))
    endings = [next((entry for entry in steps if entry[1]["verb"] in _ENDING_STEPS), None)]
    return max((entry[1].time_s for entry in (*faults, *network, *endings) if entry is not None), default=0.0)


def _round_trip_s(index: Index) -> float:
    """Return the longest time in seconds that a dial took, which is one round trip."""
    dialled: dict[tuple[str, str], float] = {}
    longest_s = 0.0
    for _, record in index.by_kind.get("link", ()):
        end = record.node, record["link"]
        if record["action"] == "dial":
            dialled[end] = record.time_s
        elif record["action"] == "open" and end in dialled:
            longest_s = max(longest_s, record.time_s - dialled[end])
    return longest_s
