"""The peer and the policy of a session never change."""

import itertools
import re
from collections import defaultdict

from messenger.loopback import LOOPBACK_ID
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog, addresses

_NONCE = re.compile(r"/[0-9]+")


def session_identity(index: Index, findings: Findings) -> None:
    """session_identity: all records of a session name one peer, the node that its links lead to, and one policy.

    Not judged: peers named by an address that no node or several nodes of the history have, and captures, where
    nodes are named by their own frames.
    """
    heirs = _at_one_address(index)
    for log in index.sessions.values():
        if log.peer_node in heirs:
            continue
        if log.key.session != LOOPBACK_ID and log.last_state is not None:
            if log.peer_node is not None and any(
                peer != log.peer_node and index.resolve((peer,)) not in {None, log.peer_node} for peer in log.peers
            ):
                _judge_peers(index, findings, log, log.peer_node)
            states = log.of("state")
            if len({record.fields["policy"] for _, record in states}) > 1:
                _judge_policy(index, findings, log)


def _at_one_address(index: Index) -> set[str]:
    """Return the nodes that listen at one port one after the other: a dial to one may reach the other."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for _, record in index.by_kind.get("process", ()):
        place = _NONCE.sub("", record.fields.get("addrs") or "")
        if place and not place.endswith(":0"):
            nodes[place].add(record.node)
    return {name for names in nodes.values() if len(names) > 1 for name in names}


def _judge_peers(index: Index, findings: Findings, log: SessionLog, peer_node: str) -> None:
    for position, record in log.entries:
        named = record.fields.get("peer")
        if named is not None and index.resolve(addresses(named)) not in {None, peer_node}:
            findings.add(position, f"{index.name(log)} is with {peer_node}, but its {record.kind} names {named}")


def _judge_policy(index: Index, findings: Findings, log: SessionLog) -> None:
    states = log.of("state")
    for (_, before), (position, record) in itertools.pairwise(states):
        if record.fields["policy"] != before.fields["policy"]:
            text = f"policy changes from {before['policy']} to {record['policy']}"
            findings.add(position, f"{index.name(log)}: {text}")
