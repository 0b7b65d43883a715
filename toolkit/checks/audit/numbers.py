"""Rules about the numbers and cookies of connection attempts, over all links of a session.

See docs/protocol.md §3.6, §4.9.
"""

from toolkit.checks.audit.compared import FRESH_CLIENT, FRESH_SERVER, GLOBAL_SEQ, sent
from toolkit.checks.audit.rule import Book, Rule, Side
from toolkit.checks.audit.talk import number
from toolkit.checks.index import Index
from toolkit.checks.openings import FINAL_REPLIES
from toolkit.checks.wires import LinkKey

CONNECT_SEQ = Rule(
    "connect_seq",
    "3.6 4.9",
    Side.DIALLER,
    "On v2 each dial that resumes a session has a higher connect_seq than the previous one; on v1 the connect_seq "
    "is 0 or not lower than the previous one.",
    "no session was dialled twice",
)
RESUMED = Rule(
    "resumed_cookies",
    "4.9",
    Side.DIALLER,
    "SESSION_RECONNECT has a client_cookie and a server_cookie that earlier idents agreed on.",
    "no session was resumed whose beginning is in the history",
)
RULES = (GLOBAL_SEQ, CONNECT_SEQ, RESUMED, FRESH_SERVER, FRESH_CLIENT)


def judge_numbers(index: Index, book: Book) -> None:
    """Judge all links of a history, or of a part of it."""
    _judge_connect_seq(index, book)
    _judge_v1(index, book)
    _judge_resumed(index, book)


def _judge_connect_seq(index: Index, book: Book) -> None:
    last: dict[object, tuple[LinkKey, int]] = {}
    for position, link, fields in sent(index, "SESSION_RECONNECT"):
        value = number(fields, "connect_seq")
        session = (link.key[:2], fields.get("client_cookie"), fields.get("server_cookie"))
        if value is None:
            continue
        before = last.get(session)
        if before is None or before[0] != link.key:  # on one link an answer demands the next number
            least = 0 if before is None else before[1]
            text = "connect_seq {} of a session whose connect_seq was {}"
            book.judge(CONNECT_SEQ, link, position, holds=value > least, text=text, values=(value, least))
        last[session] = (link.key, value)


def _judge_v1(index: Index, book: Book) -> None:
    """v1: a session dials with connect_seq 0 again, or with one that is not lower than before.

    A READY reply raises it only once SEQ has passed, which the frames alone do not prove.
    """
    last: dict[object, int] = {}
    frames = [*index.by_tag.get("CONNECT", ()), *index.by_tag.get("CONNECT_REPLY", ())]
    for position, link, record in sorted(frames, key=lambda frame: frame[0]):
        fields, session = record.fields["fields"], (link.key[:2], link.session)
        value = number(fields, "connect_seq")
        if value is None or link.session is None:
            continue
        if not link.dialled:
            if fields.get("tag") in FINAL_REPLIES and session in last:
                # A peer that restarted, or whose first handshake broke, has dialled: the session goes on with the
                # numbers of the peer's new one.
                last[session] = min(last[session], value)
        elif record.fields["tag"] == "CONNECT":
            least = last.get(session, 0)
            if least:
                text = "connect_seq {} of a session that has dialled with {}"
                holds = value == 0 or value >= least
                book.judge(CONNECT_SEQ, link, position, holds=holds, text=text, values=(value, least))
            last[session] = value
        elif fields.get("tag") == "RESETSESSION":
            last.pop(session, None)


def _judge_resumed(index: Index, book: Book) -> None:
    clients, servers = (_seen(index, *where) for where in _COOKIES)
    unanswered = _unanswered_in_captures(index)
    of_peers = {
        (link.key[:2], number(record.fields["fields"], "client_cookie"))
        for _, link, record in index.by_tag.get("CLIENT_IDENT", ())
        if record.fields["direction"] == "rx"
    }
    for position, link, fields in sent(index, "SESSION_RECONNECT"):
        client, server = number(fields, "client_cookie"), number(fields, "server_cookie")
        if client is None or server is None:
            continue
        if client in unanswered:
            continue
        known = client in clients, server in servers
        # A peer's client_cookie may appear with a server_cookie whose SERVER_IDENT was never written.
        if known[1] or (known[0] and (link.key[:2], client) not in of_peers):
            text = "client_cookie {:x} and server_cookie {:x}; idents have agreed on one of them only"
            book.judge(RESUMED, link, position, holds=all(known), text=text, values=(client, server))


_COOKIES = (("CLIENT_IDENT", "client_cookie"), ("SERVER_IDENT", "server_cookie"))


def _seen(index: Index, tag: str, name: str) -> set[int | None]:
    """Return the cookies in all idents of a tag, sent or received; those that left the history were in states."""
    begins = (log.beginning for log in index.sessions.values())
    earlier: set[int | None] = {state[name] for state in begins if state is not None}
    return earlier | {number(record.fields["fields"], name) for _, _, record in index.by_tag.get(tag, ())}


def _unanswered_in_captures(index: Index) -> set[int | None]:
    """Return the client_cookies of links whose SERVER_IDENT may be among the frames that a capture lacks."""
    return {
        number(record.fields["fields"], "client_cookie")
        for _, link, record in index.by_tag.get("CLIENT_IDENT", ())
        if link.has_bad_frames and all(frame["tag"] != "SERVER_IDENT" for _, frame in link.talk)
    }
