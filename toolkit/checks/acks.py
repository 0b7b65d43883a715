"""Acknowledgements, and deliveries compared with the frames received (docs/protocol.md §3.6)."""

from toolkit.checks.index import Index
from toolkit.checks.loopback import judge_loopback
from toolkit.checks.model.problems import About
from toolkit.checks.result import Findings


def acknowledged(index: Index, findings: Findings) -> None:
    """acknowledged: a session acknowledges exactly the messages that it has received and delivered.

    That holds for ACK, for the ack_seq of a message, and for the in_seq of a handshake. An ACK may precede the
    delivery on other shards, and where an injector delays deliveries.
    """
    for problem in index.models.problems[About.ACK]:
        findings.add(problem.record, problem.text)


def received_once(index: Index, findings: Findings) -> None:
    """received_once: each new message that arrives is delivered once, and nothing else is delivered.

    Messages that break their link, and messages of a session that the application has ended, are not delivered.
    What a node sends to itself is delivered once, in the order of sending.
    """
    judge_loopback(index, findings)
    for problem in index.models.problems[About.RECEIPT]:
        findings.add(problem.record, problem.text)
