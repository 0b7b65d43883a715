"""Acknowledgements, and deliveries against what came over the wire (protocol.md §3.6)."""

from toolkit.checks.index import Index
from toolkit.checks.model.problems import About
from toolkit.checks.records import MESSAGE_TAGS
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog

_TELLS_IN_SEQ = {"SESSION_RECONNECT": "msg_seq", "SESSION_RECONNECT_OK": "msg_seq", "SEQ": "seq"}
_BEGINS = frozenset({"SERVER_IDENT", "CONNECT"})


def acknowledged(index: Index, findings: Findings) -> None:
    """acknowledged: what a session acknowledges is what it has received, and delivered.

    That holds for ACK, for ack_seq of a message, and for the in_seq of a handshake. On other shards, and where
    deliveries are delayed on purpose, an ack may come before the delivery. Of a capture only this is judged:
    nothing is acknowledged that has not passed.
    """
    for problem in index.models.problems[About.ACK]:
        findings.add(problem.record, problem.text)
    for log in index.sessions.values():
        if log.last_state is None and log.links:
            _judge_capture(index, findings, log)


def received_once(index: Index, findings: Findings) -> None:
    """received_once: each new message that comes is delivered once, and nothing is delivered that did not come.

    Not delivered are messages that break their link, and those of a session that the application has ended.
    """
    for problem in index.models.problems[About.RECEIPT]:
        findings.add(problem.record, problem.text)


def _judge_capture(index: Index, findings: Findings, log: SessionLog) -> None:
    """Nobody tells of the session but its frames; before its handshake is seen nothing is known."""
    in_seq: int | None = None
    for position, record in sorted(entry for link in log.links for entry in (*link.tx, *link.rx)):
        fields, tag = record.fields["fields"], record.fields["tag"]
        sent = record.fields["direction"] == "tx"
        if tag in _BEGINS:
            in_seq = 0
        elif sent and tag in _TELLS_IN_SEQ:
            in_seq = fields.get(_TELLS_IN_SEQ[tag])
        elif not sent and tag in MESSAGE_TAGS and in_seq is not None:
            in_seq = max(in_seq, fields.get("seq", 0))
        elif sent and in_seq is not None:
            told = fields.get("seq" if tag == "ACK" else "ack_seq")
            if told is not None and told > in_seq:
                text = f"{tag} acknowledges seq {told}, the last one that passed is {in_seq}"
                findings.add(position, f"{index.name(log)}: {text}")
                return
