"""Messages that nodes send to themselves: no frame shows them (``messenger/loopback.py``)."""

from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import Entry


def judge_loopback(index: Index, findings: Findings) -> None:
    """Judge the deliveries of loopback sessions: each message once, in the order of sending, before the end."""
    for log in index.sessions.values():
        if log.is_loopback:
            _judge_deliveries(index, log, findings)
            _judge_rest(index, log, findings)


def _judge_deliveries(index: Index, log: SessionLog, findings: Findings) -> None:
    sends = log.of("send")
    for number, (position, record) in enumerate(log.of("deliver")):
        wrong = _wrong(number, position, record, sends)
        if wrong:
            findings.add(position, f"{index.name(log)}, to itself: tid {record['tid']} {wrong}")


def _wrong(number: int, position: int, record: Record, sends: list[Entry]) -> str:
    """Return what is wrong with a delivery, the ``number``-th from 0; empty if nothing is."""
    if number >= len(sends):
        return "is delivered, and nothing was sent"
    sent_at, sent = sends[number]
    if (record["tid"], record["digest"]) != (sent["tid"], sent["digest"]):
        return f"is delivered, the next one sent was tid {sent['tid']}"
    if position < sent_at:
        return "is delivered before it is sent"
    return "" if record["seq"] == number + 1 else f"has seq {record['seq']}, due is {number + 1}"


def _judge_rest(index: Index, log: SessionLog, findings: Findings) -> None:
    """Judge what is not delivered when all nodes are at rest, and what nobody takes."""
    delivered = {record["seq"] for _, record in log.of("deliver")}
    for position, record in log.of("unhandled"):
        if record["seq"] in delivered:
            findings.add(position, f"{index.name(log)}, to itself: seq {record['seq']} is delivered and unhandled")
    end = index.ends.get(log.node)
    if end is None or not index.at_rest or index.process(log.node) != log.key.process:
        return
    in_time = sum(position < end[0] for position, _ in log.of("deliver")) + len(log.of("unhandled"))
    if in_time < len(log.of("send")):
        findings.add(end[0], f"{index.name(log)}: {len(log.of('send')) - in_time} messages to itself are missing")
