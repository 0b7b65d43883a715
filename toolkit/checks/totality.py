"""INV-12: each received frame has a transition in the tables, or causes a named fault."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, lru_cache
from math import inf
from typing import Any

from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.v1 import acceptor as v1_acceptor
from messenger.v1 import connector as v1_connector
from messenger.v1.states import LinkState as V1State
from messenger.v1.wire import Piece
from messenger.v2 import acceptor as v2_acceptor
from messenger.v2 import connector as v2_connector
from messenger.v2.states import LinkState as V2State
from messenger.v2.wire import Tag
from toolkit.checks.audit.order import link_protocol
from toolkit.checks.index import Index
from toolkit.checks.records import FOLDED
from toolkit.checks.replies import REPLY, Words, word_of
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog

_TABLES: Mapping[tuple[Protocol, bool], tuple[StrEnum, Mapping[Any, Any]]] = {
    (Protocol.V2, True): (V2State.HELLO_CONNECTING, v2_connector.CONNECTOR),
    (Protocol.V2, False): (V2State.HELLO_ACCEPTING, v2_acceptor.ACCEPTOR),
    (Protocol.V1, True): (V1State.CONNECTING_WAIT_BANNER_AND_IDENTIFY, v1_connector.CONNECTOR),
    (Protocol.V1, False): (V1State.ACCEPTING, v1_acceptor.ACCEPTOR),
}
"""By protocol and whether this end dialled: the state after the banner, and the transitions from there."""
_OPEN = frozenset({V2State.READY.value}), frozenset({V1State.OPENED.value})
_DATA: Mapping[Protocol, frozenset[str]] = {
    Protocol.V1: frozenset(Piece) - {Piece.BANNER, Piece.IDENTIFY, Piece.CONNECT, Piece.CONNECT_REPLY, Piece.SEQ},
    Protocol.V2: frozenset(
        {"ABORTED", *(tag.name for tag in (Tag.MESSAGE, Tag.ACK, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK))}
    ),
}
"""Frames that an open link accepts. ABORTED stands for a frame that its sender aborted."""
_IN_CALLBACK = "a dispatcher"
_FROM_CONNECTORS = frozenset({("tx", "AUTH_REQUEST"), ("tx", "CONNECT")})


def _caused_exceptions(index: Index) -> set[int]:
    """Return the positions of exceptions that the application caused, as the history shows.

    Either a step of the scenario made a callback raise, or a message that could not be encoded broke its link.
    """
    caused: set[int] = set()
    unsent = {(record.node, record["session"], record.time_s) for _, record in index.by_kind.get("unsent", ())}
    raising = Counter(
        record["args"].partition(",")[0]
        for _, record in index.by_kind.get("step", ())
        if record["verb"] == "react" and record["args"].endswith(", raise")
    )
    for position, record in index.by_kind.get("exception", ()):
        if (record.node, record.fields.get("session"), record.time_s) in unsent:
            caused.add(position)
        elif record["where"] == _IN_CALLBACK and raising[record.node]:
            raising[record.node] -= 1
            caused.add(position)
    return caused


def table_total(index: Index, findings: Findings) -> None:
    """INV-12: every frame is in the table of its state or causes a named fault; no exception escapes."""
    caused = _caused_exceptions(index)
    for position, record in index.by_kind.get("exception", ()):
        if position in caused:
            continue
        findings.add(position, f"{record.node}: {record['error']} escaped in {record['where']}")
    for position, record in index.by_kind.get("process", ()):
        if record["action"] == "exit":
            findings.add(position, f"{record.node}: the process ended by itself")
    for position, record in index.by_kind.get("fault", ()):
        if record["reason"] not in FaultReason.__members__:
            findings.add(
                position, f"{record.node}: {record['link']} breaks for no known reason: {record['reason']}"
            )
    for link in index.links.values():
        if len(link.talk) > 1 or len(link.rx) > 1:
            _judge_talk(index, findings, link)


def _judge_talk(index: Index, findings: Findings, link: LinkLog) -> None:
    """Judge the frames that a link receives in its handshake."""
    protocol = link_protocol(link)
    if len(link.rx) > 1 and (protocol is None or link.rx[1][1]["index"] != 1):
        findings.note(f"{link.key.link} was not recorded from its beginning, so its handshake was not judged")
        return
    if protocol is None:
        return
    words = tuple([word_of(record.fields) for _, record in link.talk])
    taken = next((position for position, record in link.data if record.fields["direction"] == "rx"), inf)
    dialled = link.dialled if link.opened is not None else any(word in _FROM_CONNECTORS for word in words)
    known = sum(position < taken for position, _ in link.talk) if taken < inf else len(words) + 1
    if len(link.rx) > 1 and not _are_taken(protocol, dialled, words, known):
        _judge_taken(index, findings, link, protocol, dialled=dialled)


@lru_cache(maxsize=4096)
def _are_taken(
    protocol: Protocol,
    dialled: bool,  # noqa: FBT001 - part of a cache's key
    words: Words,
    known: int,
) -> bool:
    """True if every received frame has a transition, and data only arrives in an open state.

    ``known`` is the number of handshake frames before the first data frame that was received; more than ``words``
    if there is none.
    """
    states = frozenset({_TABLES[protocol, dialled][0].value})
    received = [(number, word) for number, (direction, word) in enumerate(words) if direction == "rx"]
    for number, word in received[1:]:
        if number >= known and states not in _OPEN:
            return False
        if states in _OPEN and word in _DATA[protocol]:
            continue
        states = _next(protocol, dialled, states, word.removeprefix(REPLY), word in _DATA[protocol])
        if not states:
            return False
    return known > len(words) or states in _OPEN


def _judge_taken(index: Index, findings: Findings, link: LinkLog, protocol: Protocol, *, dialled: bool) -> None:
    states = frozenset({_TABLES[protocol, dialled][0].value})
    data = _DATA[protocol] | {FOLDED}
    is_open = False
    for at in range(1, len(link.rx)):
        fields = link.rx[at][1].fields
        tag = fields["tag"]
        if is_open and tag in data:
            continue
        key = fields["fields"].get("tag") if tag == Piece.CONNECT_REPLY else tag
        before = states
        states = _next(protocol, dialled, states, str(key), tag in data)
        is_open = states in _OPEN
        if not states:
            _judge_unexpected(index, findings, link, at, before, str(key))
            return


@cache
def _next(
    protocol: Protocol,
    dialled: bool,  # noqa: FBT001 - part of a cache's key
    states: frozenset[str],
    key: str,
    is_data: bool,  # noqa: FBT001 - as above
) -> frozenset[str]:
    """Return the states after ``key`` arrives in one of ``states``; empty if it is unexpected in all of them."""
    found: set[str] = set()
    for (state, tag), row in _TABLES[protocol, dialled][1].items():
        if state.value in states and tag.name == key:
            found.update(target.value for target in row.leads_to)
    if is_data:
        found.update(state for state in states if {state} in _OPEN)
    return frozenset(found)


def _judge_unexpected(
    index: Index, findings: Findings, link: LinkLog, at: int, states: frozenset[str], key: str
) -> None:
    """A frame without a transition must break its link by a named fault."""
    position = link.rx[at][0]
    where = " or ".join(sorted(states))
    if at + 1 < len(link.rx):
        after: Entry = link.rx[at + 1]
        text = f"{after[1]['tag']} is taken after {key}, which no table has in {where}"
        findings.add(after[0], f"{link.key.link}: {text}")
    elif (
        not any(fault > position for fault, _ in link.faults)
        and (link.closed or 0) < position
        and _goes_on(index, link, position)
    ):
        findings.add(position, f"{link.key.link}: {key} in {where} leads to no fault")


def _goes_on(index: Index, link: LinkLog, position: int) -> bool:
    """True if the node would have recorded a fault: it records links (captures do not), and the run continues."""
    records = index.history.records
    now_s = records[position].time_s  # the fault has the same time
    return link.opened is not None and any(
        record.node == link.key.node and record.time_s > now_s for record in records[position + 1 :]
    )
