"""Cookies: what tells one session of msgr v2 from all others (protocol.md §4.9)."""

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


def cookies(index: Index, findings: Findings) -> None:
    """cookies: set where due, unique per session, the same over a reconnect, others after a reset.

    Where frames are recorded, both ends have the cookies that their handshake agreed on.
    """
    for problem in index.models.problems[About.COOKIE]:
        findings.add(problem.record, problem.text)
    _judge_idents(index, findings)
    _judge_uniqueness(index, findings)
    disputed = _disputed(index)
    for log in index.sessions.values():
        _judge_states(index, findings, log, disputed)
    _judge_reconnects(index, findings)


def _judge_idents(index: Index, findings: Findings) -> None:
    """Lossless sessions are opened with cookies, lossy ones without."""
    for tag, name in (("CLIENT_IDENT", "client_cookie"), ("SERVER_IDENT", "server_cookie")):
        for position, link, record in index.by_tag.get(tag, ()):
            fields = record["fields"]
            cookie, flags = fields.get(name), fields.get("flags")
            if record["direction"] != "tx" or not isinstance(cookie, int) or not isinstance(flags, int):
                continue
            lossy = bool(flags & FLAG_LOSSY)
            if lossy is bool(cookie):
                kind, has = ("lossy", "has a") if lossy else ("lossless", "has no")
                findings.add(position, f"{link.key.link}: {tag} of a {kind} session {has} {name}")


def _judge_uniqueness(index: Index, findings: Findings) -> None:
    """Every SERVER_IDENT has a new cookie; no two sessions of a process dial with the same one of their own.

    A session that the peer has opened goes on with the peer's cookie, whoever dials for it later; so may the next
    session, if the peer does not know that this side has ended the first.
    """
    servers: set[int] = set()
    for position, link, record in index.by_tag.get("SERVER_IDENT", ()):
        cookie = record["fields"].get("server_cookie")
        if record["direction"] == "tx" and isinstance(cookie, int) and cookie:
            if cookie in servers:
                findings.add(position, f"{link.key.link}: server_cookie {cookie:x} was given out before")
            servers.add(cookie)
    clients: dict[tuple[object, ...], int | None] = {}
    peers: set[tuple[object, ...]] = set()
    for position, link, record in index.by_tag.get("CLIENT_IDENT", ()):
        cookie = record["fields"].get("client_cookie")
        if record["direction"] == "rx":
            peers.add((*link.key[:2], cookie))
        elif isinstance(cookie, int) and cookie and (*link.key[:2], cookie) not in peers:
            first = clients.setdefault((*link.key[:2], cookie), record["session"])
            if first != record["session"]:
                text = f"client_cookie {cookie:x} of session {record['session']} is that of session {first}"
                findings.add(position, f"{link.key.link}: {text}")


def _disputed(index: Index) -> set[frozenset[str]]:
    """Pairs of nodes of which one says lossy and the other does not: each gives the cookie by its own word."""
    words: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for tag in "CLIENT_IDENT", "SERVER_IDENT":
        for _, link, record in index.by_tag.get(tag, ()):
            ends = (link.key.link, link.key.node, index.peer_of(link) or "")
            words[ends][tag] = record["fields"].get("flags", 0) & FLAG_LOSSY
    return {frozenset(ends[1:]) for ends, said in words.items() if len(set(said.values())) > 1}


def _judge_states(index: Index, findings: Findings, log: SessionLog, disputed: set[frozenset[str]]) -> None:
    """An open session has both cookies or, on v1 and where it is lossy, none; a reset brings new ones."""
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
        if one_only and not (frozenset((record.node, record["peer"])) in disputed or _client_was_lossy(log)):
            which, other = _COOKIES if record["client_cookie"] else reversed(_COOKIES)
            findings.add(position, f"{index.name(log)} is open with a {which}, but no {other}")
        elif before is not None and reset_at >= 0 and record["server_cookie"]:
            same = [name for name in _COOKIES if record[name] == before[name]]
            if same:
                findings.add(position, f"{index.name(log)} has the {same[0]} it had before its remote_reset")
        before, reset_at = record, -1


def _client_was_lossy(log: SessionLog) -> bool:
    """Whether the client expected a lossy session, which has no client_cookie; the server's word counts (§4.9)."""
    frames = (record for link in log.links for _, record in link.talk)
    return any(
        record["tag"] == "CLIENT_IDENT" and record["fields"].get("flags", 0) & FLAG_LOSSY for record in frames
    )


def _judge_reconnects(index: Index, findings: Findings) -> None:
    """SESSION_RECONNECT names the session it belongs to, and the session stays that.

    Two sides that take over each other's dials at the same time both give out a server_cookie. Nobody compares
    them later (§4.9); who asks then names its own.
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
            done[log].append((position, asked[link]))  # what strangers ask for is not judged: nobody compares it
    for log, reconnects in done.items():
        opened = [entry for entry in log.of("state") if entry[1]["state"] == SessionState.READY]
        for position, request in reconnects:
            after = next((entry for entry in opened if entry[0] > position), None)
            if after is None:
                continue
            at, state = after
            for name in _COOKIES:
                said = request["fields"].get(name)
                crossed = name == "server_cookie" and given.get(said) == log.peer_node
                if isinstance(said, int) and state[name] != said and not crossed:
                    text = f"{name} is {state[name]:x} after a reconnect of session {said:x}"
                    findings.add(at, f"{index.name(log)}: {text}")
