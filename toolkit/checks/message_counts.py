"""INV-8: messages are counted without a gap, and the counts of both sides agree (docs/protocol.md §3.6)."""

from bisect import bisect_left
from collections import defaultdict
from math import inf
from typing import Any

from messenger.session.session import SessionState
from toolkit.checks.conversations import Conversation
from toolkit.checks.index import Index
from toolkit.checks.model.problems import About
from toolkit.checks.records import EARLIER
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import Entry

_IN_SEQ_TAGS = ("SESSION_RECONNECT", "SESSION_RECONNECT_OK")


def sequence_accounting(index: Index, findings: Findings) -> None:
    """INV-8: in_seq counts deliveries; acked <= in_seq of the peer <= out_seq; sent holds acked+1..out_seq.

    The in_seq that the peer announces when it reconnects is in that range, too. A gap is a note instead of a
    violation if the peer never wrote the missing numbers. If frames are recorded, each number must follow from the
    frames, and at rest a node keeps for replay exactly the messages that are not acknowledged.
    """
    for problem in index.models.problems[About.SEQ]:
        findings.add(problem.record, problem.text)
    followed = index.models.followed
    by_cookies: dict[tuple[int, int], list[Conversation]] = defaultdict(list)
    for log in index.sessions.values():
        for conversation in index.conversations(log):
            _judge_states(index, findings, conversation)
            if conversation.cookies[1]:
                by_cookies[conversation.cookies].append(conversation)
    for group in by_cookies.values():
        for ours in group:
            for theirs in group:
                if theirs.log.node != ours.log.node and not {ours.log, theirs.log} <= followed:
                    _judge_agreement(index, findings, ours, theirs)
    agreed = {link: position for position, link, _ in index.by_tag.get("SESSION_RECONNECT_OK", ())}
    for tag in _IN_SEQ_TAGS:
        for position, link, record in index.by_tag.get(tag, ()):
            # A SESSION_RECONNECT with another answer may name a session that this node does not have.
            if record["direction"] == "rx" and position <= agreed.get(link, -1):
                _judge_acknowledged(index, findings, (position, record), index.session_of(link))


def _judge_acknowledged(index: Index, findings: Findings, entry: Entry, log: SessionLog | None) -> None:
    """The in_seq that the peer announces is at least what it acknowledged, and at most what was sent to it.

    Not judged for peers without records in the history.
    """
    position, in_seq = entry[0], entry[1]["fields"].get("msg_seq")
    if log is None or log.peer_node is None or not isinstance(in_seq, int):
        return
    current = next((one for one in index.conversations(log) if one.start <= position < (one.stop or inf)), None)
    sent = None if current is None else current.sent()
    if current is None or sent is None:
        return
    before = bisect_left(current.acked, (position, 0))
    acked = current.acked[before - 1][1] if before else 0
    if any(link.has_bad_frames for link in log.links):
        return  # the history lacks messages of the session
    if "frame" in entry[1].fields and _is_resumed(log):
        return
    if in_seq > sent and not _died_behind(index, current):
        findings.add(position, f"{index.name(log)}: the peer reports in_seq {in_seq}, but {sent} is the last sent")
    elif in_seq < acked and acked != current.first("acked_seq"):  # the first one may belong to a former peer
        findings.add(
            position, f"{index.name(log)}: the peer reports in_seq {in_seq}, but has acknowledged {acked}"
        )


def _is_resumed(log: SessionLog) -> bool:
    """True if the first known link of a session resumes it: a capture lacks those before."""
    first = min(log.links, key=lambda link: link.opened or 0)
    return any(record["tag"] in _IN_SEQ_TAGS for _, record in first.talk)


def delivered_seqs(index: Index, findings: Findings) -> None:
    """Delivered seqs grow by one, and in_seq is never lower than the last one."""
    for log in index.sessions.values():
        for conversation in index.conversations(log):
            _judge_deliveries(index, findings, conversation)


def _judge_deliveries(index: Index, findings: Findings, conversation: Conversation) -> None:
    name = index.name(conversation.log)
    last = 0
    for position, record in conversation.entries:
        kind = record.kind
        if kind == "deliver" and position > (conversation.log.earlier or -1):
            seq = record.fields["seq"]
            if seq <= last:
                findings.add(position, f"{name}: seq {seq} is delivered after seq {last}")
            elif seq > last + 1:
                _judge_gap(index, findings, conversation, position, last)
            last = max(last, seq)
        elif kind == "state" and EARLIER in record.fields:
            last = record["in_seq"]
        elif kind == "state" and record["state"] != SessionState.CLOSED and record["in_seq"] < last:
            findings.add(position, f"{name}: in_seq is {record['in_seq']}, but seq {last} has been delivered")


def _judge_gap(index: Index, findings: Findings, conversation: Conversation, position: int, last: int) -> None:
    name, seq = index.name(conversation.log), index.history[position]["seq"]
    if not last and conversation.after_reset and not conversation.cookies[1]:
        return  # after a reset v1 starts at a random seq (§3.6)
    if conversation.log.peer_node is None:
        findings.note(f"{name} skips from seq {last} to {seq}; its peer has no history that explains it")
        return
    far = [link.far for link in conversation.links() if link.far is not None]
    on_wire = [number for link in far for _, number in link.messages("tx") if last < number < seq]
    if on_wire or not far:
        missing = on_wire[0] if on_wire else last + 1
        findings.add(position, f"{name}: seq {seq} is delivered after seq {last}; seq {missing} is missing")


def _judge_states(index: Index, findings: Findings, conversation: Conversation) -> None:
    """A session keeps for replay exactly the messages sent and not acknowledged; a lossy one keeps none."""
    lossy = index.lossy(conversation.log)
    for position, record in conversation.entries:
        if record.kind == "state" and record.fields["state"] != SessionState.CLOSED:
            text = _wrong_replay(record.fields, lossy=lossy)
            if text:
                findings.add(position, f"{index.name(conversation.log)}: {text}")


def _wrong_replay(state: dict[str, Any], *, lossy: bool) -> str:
    out_seq, acked, sent = state["out_seq"], state["acked_seq"], state["sent"]
    if acked > out_seq:
        return f"acked_seq {acked} is beyond out_seq {out_seq}"
    if lossy:
        return f"a lossy session keeps {sent} messages for replay" if sent else ""
    if sent != out_seq - acked:
        return f"{sent} messages are kept for replay, but seq {acked + 1}..{out_seq} are unacknowledged"
    return ""


def _judge_agreement(index: Index, findings: Findings, ours: Conversation, theirs: Conversation) -> None:
    """The peer has received what it acknowledged to us, and we have sent what it received."""
    name, peer = index.name(ours.log), index.name(theirs.log)
    received = theirs.received()
    # A session keeps its acked_seq when a new conversation begins.
    if not _died_behind(index, theirs) and ours.highest("acked_seq") > max(received, ours.first("acked_seq")):
        where = next(
            at for at, record in ours.entries if record.kind == "state" and record["acked_seq"] > received
        )
        text = f"acked_seq {ours.highest('acked_seq')} is beyond in_seq {received} of {peer}"
        findings.add(where, f"{name}: {text}")
    sent = ours.sent()
    if sent is not None and received > sent and not _died_behind(index, ours):
        where = theirs.entries[-1][0]
        findings.add(where, f"{peer}: in_seq {received} is beyond out_seq {sent} of {name}")


def _died_behind(index: Index, conversation: Conversation) -> bool:
    """True if the process may have done more than it recorded: it died, and had connections on other shards.

    Other shards acknowledge messages before these reach the application, and write messages before these are
    recorded.
    """
    process = conversation.log.key.process
    return process in index.sharded and process in index.process_ends
