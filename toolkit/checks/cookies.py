"""Cookies: the identifiers of a v2 session (docs/protocol.md §4.9)."""

from collections import defaultdict

from messenger.session.session import SessionState
from messenger.v2.wire import FLAG_LOSSY
from toolkit.checks.index import Index
from toolkit.checks.model.problems import About
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import LinkLog

_COOKIES = ("client_cookie", "server_cookie")
_IDENTS = ("CLIENT_IDENT", "SERVER_IDENT")


def cookies(index: Index, findings: Findings) -> None:
    """cookies: an open session has both cookies or none; they survive a reconnect, and a reset replaces them.

    Where frames are recorded, both ends have the cookies that their handshake agreed on.
    """
    for problem in index.models.problems[About.COOKIE]:
        findings.add(problem.record, problem.text)
    disputed = _disputed(index)
    for log in index.sessions.values():
        _judge_states(index, findings, log, disputed)
    _judge_reconnects(index, findings)


def _disputed(index: Index) -> set[frozenset[str]]:
    """Return the pairs of nodes that disagree about lossy: each sets its cookie by its own flag."""
    words: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for tag in "CLIENT_IDENT", "SERVER_IDENT":
        for _, link, record in index.by_tag.get(tag, ()):
            ends = (link.key.link, link.key.node, index.peer_of(link) or "")
            words[ends][tag] = record["fields"].get("flags", 0) & FLAG_LOSSY
    return {frozenset(ends[1:]) for ends, announced in words.items() if len(set(announced.values())) > 1}


def _judge_states(index: Index, findings: Findings, log: SessionLog, disputed: set[frozenset[str]]) -> None:
    """An open session has both cookies, or none if it is v1 or lossy; a reset replaces them."""
    before: Record | None = None
    reset_at = -1
    resets = iter(log.remote_resets)
    pending = next(resets, None)
    for position, record in log.of("state"):
        if record["state"] != SessionState.READY:
            continue
        while pending is not None and pending < position:
            reset_at, pending = pending, next(resets, None)
        one_only = bool(record["client_cookie"]) is not bool(record["server_cookie"])
        if one_only and not (frozenset((record.node, record["peer"])) in disputed or _one_was_lossy(log)):
            which, other = _COOKIES if record["client_cookie"] else reversed(_COOKIES)
            findings.add(position, f"{index.name(log)} is open with a {which}, but no {other}")
        elif before is not None and reset_at >= 0 and record["server_cookie"]:
            same = [name for name in _COOKIES if record[name] == before[name]]
            if same:
                findings.add(position, f"{index.name(log)} has the {same[0]} it had before its remote_reset")
        before, reset_at = record, -1


def _one_was_lossy(log: SessionLog) -> bool:
    """True if connector or acceptor announced a lossy session.

    The connector's policy decides about client_cookie, the acceptor's about server_cookie and the session (§4.9).
    """
    frames = (record for link in log.links for _, record in link.talk if record["tag"] in _IDENTS)
    return any(record["fields"].get("flags", 0) & FLAG_LOSSY for record in frames)


def _judge_reconnects(index: Index, findings: Findings) -> None:
    """A session that was resumed has the cookies that SESSION_RECONNECT named.

    If two sides take over each other's dials at the same time, both assign a server_cookie. Acceptors do not
    compare these later (§4.9); the connector then sends its own.
    """
    given = {
        record["fields"].get("server_cookie"): link.key.node
        for _, link, record in index.by_tag.get("SERVER_IDENT", ())
        if record["direction"] == "tx"
    }
    asked: dict[LinkLog, Record] = {}
    done: dict[SessionLog, list[tuple[int, Record]]] = defaultdict(list)
    frames = [*index.by_tag.get("SESSION_RECONNECT", ()), *index.by_tag.get("SESSION_RECONNECT_OK", ())]
    for position, link, record in sorted(frames, key=lambda frame: frame[0]):
        if record["tag"] == "SESSION_RECONNECT":
            asked[link] = record
        elif link in asked and (log := index.session_of(link)) is not None and log.peer_node is not None:
            done[log].append((position, asked[link]))  # peers without records are not judged
    for log, reconnects in done.items():
        opened = [entry for entry in log.of("state") if entry[1]["state"] == SessionState.READY]
        for position, request in reconnects:
            after = next((entry for entry in opened if entry[0] > position), None)
            if after is None:
                continue
            at, state = after
            for name in _COOKIES:
                announced = request["fields"].get(name)
                # If earlier records have left the history, the peer may have given it before.
                unknown = log.peer_node if log.earlier is not None else None
                crossed = name == "server_cookie" and given.get(announced, unknown) == log.peer_node
                if isinstance(announced, int) and state[name] != announced and not crossed:
                    text = f"{name} is {state[name]:x} after a reconnect of session {announced:x}"
                    findings.add(at, f"{index.name(log)}: {text}")
