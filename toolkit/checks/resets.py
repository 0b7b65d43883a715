"""Sessions that the peer reset: each reset raises one remote_reset event, and no other cause does.

See docs/protocol.md §3.4, §4.9.
"""

from math import inf

from messenger.outputs import EventKind
from messenger.session.existing import Verdict
from messenger.v1.existing import Verdict as V1Verdict
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import LinkLog

_OPENING = (EventKind.ACCEPT, EventKind.CONNECT)
_RESETTING = frozenset({Verdict.REUSE_RESET.name, V1Verdict.REPLACE_RESET.name})
"""Decisions by which a peer's new session resets the session on this side."""


def one_remote_reset(index: Index, findings: Findings) -> None:
    """Each reset by the peer raises one remote_reset event, and nothing else does.

    On v1 a reset raises no event if the session was never open at both ends.
    """
    causes = _causes(index)
    for log in index.sessions.values():
        if log.of("event") and (log in causes or log.remote_resets):
            _judge(index, findings, log, sorted(causes.get(log, ())))


def _causes(index: Index) -> dict[SessionLog, list[tuple[int, bool, bool]]]:
    """Return the resets of each session: position, True if it certainly took effect, and True if it is of v1."""
    found: dict[SessionLog, list[tuple[int, bool, bool]]] = {}
    for tag in ("SESSION_RESET", "CONNECT_REPLY"):
        for position, link, record in index.by_tag.get(tag, ()):
            log = index.session_of(link)
            if log is not None and record["direction"] == "rx" and _resets(record) and not link.refused(position):
                certain = not index.is_held(link, tag)
                found.setdefault(log, []).append((position, certain, tag == "CONNECT_REPLY"))
    for position, record in index.by_kind.get("decision", ()):
        if record["verdict"] in _RESETTING and (taker := index.link_of(record)) is not None:
            log = index.session_of(taker)
            if log is not None:
                by_v1 = record["verdict"] == V1Verdict.REPLACE_RESET.name
                found.setdefault(log, []).append((position, _answers(taker, position), by_v1))
    return found


def _resets(record: Record) -> bool:
    fields = record.fields["fields"]
    return fields.get("full") is True or fields.get("tag") == "RESETSESSION"


def _answers(link: LinkLog, position: int) -> bool:
    """True if the link was still open when the session was bound to it."""
    return bool(link.tx) and link.tx[-1][0] > position


def _judge(index: Index, findings: Findings, log: SessionLog, causes: list[tuple[int, bool, bool]]) -> None:
    opened = [at for at, event in log.of("event") if event["event"] in _OPENING]
    explained: set[int] = set()
    for number, (position, certain, by_v1) in enumerate(causes):
        later = [at for at in opened if at > position] + [at for at, _, _ in causes[number + 1 : number + 2]]
        raised = [at for at in log.remote_resets if position < at < min(later, default=inf)]
        explained.update(raised)
        due = certain and index.ended(log) is None and _counts(index, log, position, opened, by_v1=by_v1)
        if len(raised) > 1 or (due and not raised):
            text = f"raises remote_reset {len(raised)} times for one reset by its peer"
            findings.add(position, f"{index.name(log)} {text}")
    for position in log.remote_resets:
        if log.shows_frames and position not in explained:
            findings.add(position, f"{index.name(log)} raises remote_reset, but its peer has reset nothing")


def _counts(index: Index, log: SessionLog, position: int, opened: list[int], *, by_v1: bool) -> bool:
    """True if the reset must raise an event: the session was open since its last reset, on v1 at both ends."""
    last = max((at for at in log.remote_resets if at < position), default=-1)
    if by_v1:
        confirmed = (opening.confirmed for opening in index.openings.get(log, ()))
        return any(at is not None and last < at < position for at in confirmed)
    never_reset = last < 0 and log.earlier is None
    return any(last < at < position for at in opened) or (never_reset and log.dialled)
