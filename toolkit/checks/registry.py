"""INV-5: one session per peer, and a registry that holds living sessions only."""

from collections import defaultdict

from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionKey, SessionLog

_SETTLED = (SessionState.READY, SessionState.STANDBY)


def one_session_per_peer(index: Index, findings: Findings) -> None:
    """INV-5: a registry holds at most one living session per peer, and no closed session."""
    addrs = _addrs(index)
    one_addr = {
        tuple(record["args"].split(", ")[:2])
        for _, record in index.by_kind.get("step", ())
        if record["verb"] == "dial_one"
    }
    living: dict[Process, dict[SessionKey, Record]] = defaultdict(dict)
    for position, log, record in index.transitions:
        of_process = living[log.key.process]
        of_process.pop(log.key, None)
        if record["state"] not in _SETTLED or not _registers(log):
            continue
        peer = record["peer"]
        for key, other_record in of_process.items():
            other = index.sessions[key]
            if other_record["peer"] != peer:
                continue
            if (log.node, peer) in one_addr and not (_has_met(log, record) and _has_met(other, other_record)):
                continue  # dialled at an address that may be another peer's
            if not _elsewhere(log, other, addrs):
                text = f"{index.name(log)} is {record['state']} with {peer} while {index.name(other)} lives"
                findings.add(position, text)
        of_process[log.key] = record
    _judge_registries(index, findings)


def _addrs(index: Index) -> dict[Process, str]:
    """Return the addresses of each process that recorded them."""
    return {
        Process(record.node, record["incarnation"]): record["addrs"]
        for _, record in index.by_kind.get("process", ())
        if record["action"] == "start" and "addrs" in record.fields
    }


def _has_met(log: SessionLog, state: Record) -> bool:
    """True if a session was open before a state, so that its node knows all addresses of the peer."""
    return bool(log.partners and state["peer_global_seq"])


def _elsewhere(log: SessionLog, other: SessionLog, addrs: dict[Process, str]) -> bool:
    """True if two sessions lead to processes of one node at different addresses: two peers for a registry."""
    ours, theirs = ({addrs.get(partner.process) for partner in each.partners} for each in (log, other))
    return bool(ours and theirs) and None not in ours | theirs and not ours & theirs


def _registers(log: SessionLog) -> bool:
    """True if the registry can hold a session, so that it is found by its peer's address."""
    policy = log.policy
    if log.is_loopback or (log.last_state is not None and log.last_state.fields.get("anonymous")):
        return False
    return policy is None or policy.register_lossy_clients or not policy.lossy


def _judge_registries(index: Index, findings: Findings) -> None:
    for node, (position, record) in index.ends.items():
        process = index.process(node)
        logs = [log for log in index.sessions.values() if log.key.process == process and index.is_open(log)]
        registered = [log for log in logs if _registers(log)]
        least = sum(log.state in _SETTLED for log in registered)
        size = record["registry"]
        if not index.alive(node) and size:
            findings.add(position, f"{node}: {size} sessions are registered after the shutdown")
        elif size > len(registered):
            findings.add(position, f"{node}: {size} sessions are registered, but only {len(registered)} live")
        elif size < least:
            findings.add(position, f"{node}: {size} sessions are registered, but {least} live")
