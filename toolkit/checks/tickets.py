"""Tickets are renewed in time (docs/protocol.md §5.5, §5.7)."""

import re

from messenger.errors import FaultReason
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.wires import LinkLog

_REFUSED = FaultReason.AUTH_DENIED.name
_LATE = re.compile(r"(?<!own )ticket expired (\d+) s ago")
"""Matches the refusal of a service that received a ticket, not of a client whose own ticket expired."""
_ROUNDED_S = 0.5
"""Half of the last digit of that time."""


def ticket_time(index: Index, findings: Findings) -> None:
    """ticket_time: no ticket is used after it expired, and a refused one is replaced in time."""
    clocks = index.by_kind.get("clock", ())
    for link in index.links.values():
        if link.auth is None:
            continue
        position, record = link.auth
        left_s = record["ticket_left_s"]
        # The handshake judges a ticket by the time at which it began.
        moved = any(at > (link.opened or 0) and clock.node == record.node for at, clock in clocks if at < position)
        if left_s is not None and -left_s > _frozen_s(index, link, record) and not moved:
            findings.add(position, f"{record['link']}: authenticated by a ticket that expired {-left_s:g} s ago")
    refused = [entry for entry in index.by_kind.get("fault", ()) if _is_late(index, entry[1])]
    on_purpose = bool(clocks) or any(record["verb"] == "spoil" for _, record in index.by_kind.get("step", ()))
    for position, record in refused:
        if not on_purpose:
            findings.add(position, f"{record.node}: {record['link']}: {record['detail']}, which was not renewed")
    if refused and index.at_rest:
        _judge_lockouts(index, findings)


def _is_late(index: Index, record: Record) -> bool:
    """True if a fault refuses a ticket that expired before its handshake began."""
    late = _LATE.search(record["detail"]) if record["reason"] == _REFUSED else None
    link = index.link_of(record)
    return late is not None and (link is None or int(late[1]) - _ROUNDED_S > _frozen_s(index, link, record))


def _frozen_s(index: Index, link: LinkLog, record: Record) -> float:
    """Return for how many seconds a record's node was frozen in the link's handshake before it."""
    return index.frozen_s(record.node, index.history[link.opened or 0].time_s, record.time_s)


def _judge_lockouts(index: Index, findings: Findings) -> None:
    for log in index.sessions.values():
        faults = log.of("fault")
        if not log.dialled or not faults or not index.is_open(log) or faults[-1][1]["reason"] != _REFUSED:
            continue
        position = faults[-1][0]
        authenticated = any(link.auth is not None and link.auth[0] > position for link in log.links)
        opened = any(at > position and record["state"] == SessionState.READY for at, record in log.of("state"))
        if (
            not authenticated and not opened
        ):  # the peer's dial, which may have authenticated before, can open it as well
            findings.add(position, f"{index.name(log)} is locked out: {faults[-1][1]['detail']}")
