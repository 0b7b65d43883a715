"""At rest no timers, sockets or buffers are in use beyond those of the open links."""

from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings

_EMPTY = ("receive_bytes", "unwritten_bytes")
_RELEASED = ("registry", "links", "timers", "sockets", "dispatch_bytes", *_EMPTY)


def quiescence(index: Index, findings: Findings) -> None:
    """quiescence: at rest each open session has one link, one timer and one socket, and nothing else is in use."""
    if not index.at_rest:
        findings.skip("the run did not come to rest, so what stayed in use was not judged")
        return
    for node, (position, record) in index.ends.items():
        if index.alive(node):
            _judge_living(index, findings, position, record)
        elif index.process_ends[index.process(node)] < position:
            left = [f"{record[name]} {name}" for name in _RELEASED if record.fields.get(name)]
            if left:
                findings.add(position, f"{node} is shut down, but still has {', '.join(left)}")


def _judge_living(index: Index, findings: Findings, position: int, record: Record) -> None:
    node, fields = record.node, record.fields
    process = index.process(node)
    ready = sum(
        log.key.process == process and log.state == SessionState.READY and index.is_open(log)
        for log in index.sessions.values()
    )
    links = fields["links"]
    if links > ready:
        findings.add(position, f"{node} has {links} links at rest, but only {ready} open sessions")
    if fields.get("timers", 0) > links:
        findings.add(position, f"{node} has {fields['timers']} timers at rest, but only {links} links")
    if fields.get("sockets", links) != links:
        findings.add(position, f"{node} has {fields['sockets']} sockets at rest, but {links} links")
    for name in _EMPTY:
        if fields.get(name):
            findings.add(position, f"{node} has {name} {fields[name]} at rest")
    if "timers" not in fields:
        findings.note(f"{node} does not record its timers and buffers")
