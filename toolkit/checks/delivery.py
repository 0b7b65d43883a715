"""INV-1 and INV-2: messages arrive once, whole and in order, unless an event explains a loss."""

from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.streams import Sent, Source


def lossless_delivery(index: Index, findings: Findings) -> None:
    """INV-1: delivered is a prefix of sent, and at rest all of it, up to an event that explains a loss.

    These losses are explained: messages that were not delivered before the sender's remote_reset, reset, mark_down
    or end; messages of a session that the receiver ended while the sender may be unaware of it; and messages for a
    peer that has ended, or that alone may dial and has no session.
    """
    _judge(index, findings, lossy=False)


def lossy_delivery(index: Index, findings: Findings) -> None:
    """INV-2: messages arrive at most once and in order; a reset event follows each loss.

    No message is sent twice. The reset event may be missing while the sender is unaware of the loss: the peer has
    closed its end of the link, and the sender notices that only when it writes again.
    """
    _judge(index, findings, lossy=True)
    for log in index.sessions.values():
        if index.lossy(log):
            never_resent(index, findings, log)


def never_resent(index: Index, findings: Findings, log: SessionLog) -> None:
    """Report messages that a lossy session writes more than once, on any of its links."""
    written: set[int] = set()
    for position, seq in sorted(entry for link in log.links for entry in link.messages("tx")):
        if seq in written:
            findings.add(position, f"{index.name(log)}: seq {seq} is written again, by a lossy session")
        written.add(seq)


def _judge(index: Index, findings: Findings, *, lossy: bool) -> None:
    streams = index.streams
    for problem in streams.problems:
        if problem.lossy is lossy:
            findings.add(problem.record, problem.text)
    for stranger in sorted(streams.strangers):
        findings.note(f"{stranger} receives from a peer without a history, which was not compared")
    judge_losses(index, findings, lossy=lossy)
    note_silence(index, findings)


def note_silence(index: Index, findings: Findings) -> None:
    """Note that delivery was not judged: the history has messages on the wire, but no send or deliver records."""
    if index.by_kind.get("send") or index.by_kind.get("deliver"):
        return
    if any(link.messages("tx") or link.messages("rx") for link in index.links.values()):
        findings.note("no application's own records, so what it sent and got was not compared")


def judge_losses(index: Index, findings: Findings, *, lossy: bool) -> None:
    """Report every message that neither arrived nor is explained by an event."""
    for source in index.streams.sources:
        if index.lossy(source.log) is lossy:
            _judge_missing(index, findings, source, lossy=lossy)


def _judge_missing(index: Index, findings: Findings, source: Source, *, lossy: bool) -> None:
    name = index.name(source.log)
    waiting = []
    for sent in source.sent:
        if sent.inbox is not None or sent.excused:
            continue
        if sent.overtaken_by is not None:
            text = f"{name}: {sent} never arrived, but {sent.overtaken_by}, sent later, did"
            findings.add(sent.overtaken_at, text)
        elif not _explained(index, sent, lossy=lossy):
            waiting.append(sent)
    if not waiting:
        return
    if source.log.peer_node is None:
        findings.note(f"{name} sends to a peer without a history, whose receiving was not judged")
    elif not index.at_rest:
        findings.note("the run did not come to rest, so arrival was not judged")
    else:
        lost = max(0, len(waiting) - _held(index, source.log))
        for sent in waiting[:lost]:
            text = f"{name}: {sent} to {source.log.peer_node} never arrived, and no event explains it"
            findings.add(sent.index, text)


def _explained(index: Index, sent: Sent, *, lossy: bool) -> bool:
    """True if an event explains that the message is missing, or the peer has ended or has no session."""
    source = sent.source
    if source.ended is not None:
        return True  # dropped by the event that ended the source, or sent after it
    peer = source.log.peer_node
    if peer is None:
        return False
    if not index.alive(peer):
        return True
    if lossy:
        return _receives_nothing(source.log) and index.streams.receiver_lost(sent)
    unaware = source.restarts_silently or source.log.state != SessionState.READY
    return (unaware and index.streams.receiver_lost(sent)) or index.waits_for_dial(source.log)


def _receives_nothing(log: SessionLog) -> bool:
    """True if the peer closed its end and this side has not written since: TCP reports the loss only then."""
    link = log.links[-1] if log.links else None
    if link is None or link.closed is not None or link.far is None or link.far.closed is None:
        return False
    return bool(link.tx) and link.tx[-1][0] < link.far.closed


def _held(index: Index, log: SessionLog) -> int:
    """Return the number of undelivered messages that the session may still hold; INV-6 judges these."""
    end = index.ends.get(log.node)
    at_rest_empty = end is not None and end[1]["queued"] + end[1]["sent"] == 0
    return 0 if at_rest_empty or log.state == SessionState.READY else log.held_at_most()
