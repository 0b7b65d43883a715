"""Order, content and gaps of deliveries: details of INV-1, INV-2 and INV-8."""

from toolkit.checks.delivery import judge_losses, note_silence
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.streams import ProblemKind

_HEAD = ("size", "type", "priority", "version")


def order(index: Index, findings: Findings) -> None:
    """order: messages of one priority arrive in the order in which they were sent."""
    for problem in index.streams.of[ProblemKind.ORDER]:
        findings.add(problem.record, problem.text)
    note_silence(index, findings)


def payload(index: Index, findings: Findings) -> None:
    """payload: bytes, size, type, priority, tid and version arrive as they were sent."""
    streams = index.streams
    for problem in (*streams.of[ProblemKind.CONTENT], *streams.of[ProblemKind.STRANGE]):
        findings.add(problem.record, problem.text)
    records = index.history.records
    for position, log, sent in streams.deliveries:
        if sent is None:
            continue
        there, here = sent.record.fields, records[position].fields
        for name in _HEAD:
            if name in here and here[name] != there.get(name, here[name]):
                text = f"{sent} arrives with {name} {here[name]}, sent with {there[name]}"
                findings.add(position, f"{index.name(log)}: {text}")
    for stranger in sorted(streams.strangers):
        findings.note(f"{stranger} receives from a peer without a history, which was not compared")
    note_silence(index, findings)


def no_silent_gap(index: Index, findings: Findings) -> None:
    """no_silent_gap: an event reports each loss before a message of the next session is delivered."""
    for problem in index.streams.of[ProblemKind.SILENT]:
        findings.add(problem.record, problem.text)
    for lossy in (False, True):
        judge_losses(index, findings, lossy=lossy)
    note_silence(index, findings)
