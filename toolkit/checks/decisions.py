"""Decisions about incoming links: the answer carries the decision out (docs/protocol.md §3.4, §4.9)."""

from collections import defaultdict

from messenger.errors import FaultReason
from messenger.session.existing import Verdict
from messenger.v1.existing import Verdict as V1Verdict
from toolkit.checks.index import Index
from toolkit.checks.openings import GRANTS
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog

_ANSWERS = {
    Verdict.WAIT.name: "WAIT",
    Verdict.RESET.name: "SESSION_RESET",
    Verdict.RETRY.name: "SESSION_RETRY",
    Verdict.RETRY_GLOBAL.name: "SESSION_RETRY_GLOBAL",
    Verdict.CLOSE_INCOMING.name: FaultReason.STALE.name,
}
_STALE = FaultReason.STALE.name
_GRANTED = {"CLIENT_IDENT": "SERVER_IDENT", "SESSION_RECONNECT": "SESSION_RECONNECT_OK"}
_DECIDED = ("CONNECT_REPLY", *sorted({*_ANSWERS.values(), *_GRANTED.values()} - {_STALE}))
"""Answers of v2 that follow from a decision."""
_V1_DECIDED = frozenset({verdict.name for verdict in V1Verdict} | {"SEQ", "READY"})
"""Tags of CONNECT_REPLY that follow from a decision."""


def decided_answer(index: Index, findings: Findings) -> None:
    """decided_answer: an acceptor's answer carries out its decision, and no dial is answered without one."""
    if not index.by_kind.get("state") or not index.by_kind.get("link"):
        return  # as in captures, which have no records of decisions
    answers: dict[LinkLog, list[Entry]] = defaultdict(list)
    for tag in _DECIDED:
        for position, link, record in index.by_tag.get(tag, ()):
            if not link.dialled and record.fields["direction"] == "tx" and _follows_decision(record):
                answers[link].append((position, record))
    for link in index.links.values():
        if not link.dialled:
            stale = [entry for entry in link.faults if entry[1].fields["reason"] == _STALE]
            if stale or link.decisions or link in answers:
                _judge_link(findings, link, [*answers.get(link, ()), *stale, *link.decisions])


def _follows_decision(record: Record) -> bool:
    return record.fields["tag"] != "CONNECT_REPLY" or record.fields["fields"].get("tag") in _V1_DECIDED


def _judge_link(findings: Findings, link: LinkLog, entries: list[Entry]) -> None:
    due: Entry | None = None
    for position, record in sorted(entries):
        if record.kind == "decision":
            due = position, record
            continue
        given = _word(record)
        if due is None:
            findings.add(position, f"{link.key.link}: {given} without a decision")
        elif given not in _allowed(due[1]["verdict"], _request(link, due[0])):
            findings.add(position, f"{link.key.link}: {given} is the answer where {due[1]['verdict']} was decided")
        due = None


def _word(record: Record) -> str:
    if record.kind == "fault":
        return _STALE
    tag = record.fields["tag"]
    return str(record.fields["fields"].get("tag")) if tag == "CONNECT_REPLY" else str(tag)


def _request(link: LinkLog, position: int) -> str:
    """Return the tag of the frame that the decision is about; empty if there is none."""
    return next(
        (record.fields["tag"] for at, record in reversed(link.talk) if at < position and _is_received(record)), ""
    )


def _is_received(record: Record) -> bool:
    return bool(record.fields["direction"] == "rx")


def _allowed(verdict: str, request: str) -> set[str]:
    """Return the answers that carry out a verdict."""
    if request == "CONNECT":
        if verdict in GRANTS:
            return {"SEQ", "READY"}
        return {"RETRY_GLOBAL"} if verdict.startswith("REPLACE") else {verdict}
    if verdict in GRANTS:
        return {_GRANTED.get(request, "")}
    return {_ANSWERS.get(verdict, "")}
