"""Acknowledgements, and deliveries against what came over the wire (docs/protocol.md §3.6)."""

from toolkit.checks.index import Index
from toolkit.checks.model.problems import About
from toolkit.checks.result import Findings


def acknowledged(index: Index, findings: Findings) -> None:
    """acknowledged: what a session acknowledges is what it has received, and delivered.

    That holds for ACK, for ack_seq of a message, and for the in_seq of a handshake. On other shards, and where
    deliveries are delayed on purpose, an ack may come before the delivery.
    """
    for problem in index.models.problems[About.ACK]:
        findings.add(problem.record, problem.text)


def received_once(index: Index, findings: Findings) -> None:
    """received_once: each new message that comes is delivered once, and nothing is delivered that did not come.

    Not delivered are messages that break their link, and those of a session that the application has ended.
    """
    for problem in index.models.problems[About.RECEIPT]:
        findings.add(problem.record, problem.text)
