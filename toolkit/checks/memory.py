"""Bounds on the resources that a peer can use: memory, and time before it authenticates.

See docs/protocol.md §4.7.
"""

from messenger.config import Config
from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.wires import LinkLog

_PHASES = ("handshake", "data")
_READY_TIMEOUT_S = Config().ms_connection_ready_timeout
_LATE_S = 5.0
"""Tolerance in seconds: timers of live nodes fire late on a busy machine."""


def bounded_memory(index: Index, findings: Findings) -> None:
    """bounded_memory: each link holds incomplete data only up to its limits, in the handshake and after it."""
    for position, record in index.by_kind.get("usage", ()):
        for phase in _PHASES:
            held, limit = record[f"{phase}_bytes"], record[f"{phase}_limit_bytes"]
            if held > limit:
                text = f"{record['link']} held {held} bytes in its {phase} phase, its limit is {limit}"
                findings.add(position, text)


def bounded_strangers(index: Index, findings: Findings) -> None:
    """An acceptor closes a connection that does not authenticate within ms_connection_ready_timeout."""
    for link in index.links.values():
        if link.opened is not None and not link.dialled and link.auth is None and link.session is None:
            _judge_stranger(index, findings, link)


def _judge_stranger(index: Index, findings: Findings, link: LinkLog) -> None:
    records = index.history.records
    opened, closed = link.opened, link.closed
    assert opened is not None
    if closed is None:
        closed = index.process_ends.get(index.process_of(link), len(records) - 1)
    timeout_s = index.option(link.key.node, "ms_connection_ready_timeout", _READY_TIMEOUT_S)
    stayed_s = records[closed].time_s - records[opened].time_s
    frozen = any(opened < position <= closed for position in index.frozen.get(link.key.node, ()))
    if stayed_s > timeout_s + _LATE_S and not frozen:
        text = f"{link.key.link} stayed {stayed_s:.3g} s without authenticating, {timeout_s:g} s are allowed"
        findings.add(opened, text)
