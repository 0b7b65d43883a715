"""SESSION_RECONNECT, and CLIENT_IDENT for an existing session (docs/protocol.md §4.9)."""

from dataclasses import replace
from typing import Any

from messenger.denc.address import AddrVec
from messenger.v2.wire import SessionReconnectOk, SessionReset, SessionRetry, SessionRetryGlobal, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, Area, Level, Need
from toolkit.conformance.peers import V2Peer

UNKNOWN = Area("v2/reconnect", "4.9", Need.SESSION)
KNOWN = Area("v2/resume", "4.9", Need.LOSSLESS, destructive=True)
TAKEOVER = Area("v2/takeover", "4.9", Need.LOSSLESS, destructive=True)
_FULL, _PARTIAL = "SESSION_RESET full=1", "SESSION_RESET full=0"
_OK = "SESSION_RECONNECT_OK"
_HIGH = 1000


# ---- sessions that the target does not have


def _unknown(attempt: Attempt) -> V2Peer:
    peer = attempt.admitted()
    peer.send(peer.session_reconnect(server_cookie=77))
    return peer


@UNKNOWN.case("SESSION_RECONNECT for an unknown session: a full SESSION_RESET", _FULL)
def _reset(attempt: Attempt) -> str:
    return _unknown(attempt).outcome()


@UNKNOWN.case("CLIENT_IDENT on the same link after SESSION_RESET: SERVER_IDENT, and the session works", OPEN)
def _after_reset(attempt: Attempt) -> str:
    peer = _unknown(attempt)
    peer.expect(SessionReset)
    attempt.ident(peer)
    return peer.fate()


@UNKNOWN.case(
    "SESSION_RECONNECT on the same link after SESSION_RESET: SESSION_RESET again",
    _FULL,
    crimson=(CLOSED,),
    level=Level.TOLERANT,
)
def _reset_again(attempt: Attempt) -> str:
    peer = _unknown(attempt)
    peer.expect(SessionReset)
    peer.send(peer.session_reconnect(server_cookie=77, global_seq=2))
    return peer.outcome()


@UNKNOWN.case("SESSION_RECONNECT with both cookies 0: a full SESSION_RESET", _FULL, level=Level.TOLERANT)
def _no_cookies(attempt: Attempt) -> str:
    peer = attempt.admitted()
    peer.send(peer.session_reconnect(client_cookie=0, server_cookie=0))
    return peer.outcome()


@UNKNOWN.case(
    "KEEPALIVE2 after SESSION_RESET, before a session is open: the link is closed", CLOSED, section="4.8"
)
def _keepalive_after_reset(attempt: Attempt) -> str:
    peer = _unknown(attempt)
    peer.expect(SessionReset)
    return peer.fate()


@UNKNOWN.case("A truncated SESSION_RECONNECT: the link is closed", CLOSED, section="4.3")
def _cut(attempt: Attempt) -> str:
    peer = attempt.admitted()
    raw = peer.session_reconnect().encode()
    peer.payload(Tag.SESSION_RECONNECT, raw[:-5], "SESSION_RECONNECT without its last 5 bytes")
    return peer.outcome()


@UNKNOWN.case("SESSION_RECONNECT with extra bytes after its fields: they are ignored", _FULL, section="4.3")
def _trailing(attempt: Attempt) -> str:
    peer = attempt.admitted()
    raw = peer.session_reconnect(server_cookie=77).encode()
    peer.payload(Tag.SESSION_RECONNECT, raw + b"more", "SESSION_RECONNECT with four bytes more")
    return peer.outcome()


@UNKNOWN.case(
    "SESSION_RECONNECT for an open lossy session: SESSION_RESET, full or not",
    _FULL,
    _PARTIAL,
    needs=(Need.LOSSY,),
)
def _lossy(attempt: Attempt) -> str:
    attempt.open()
    return _reconnect(attempt, server_cookie=77).outcome()


# ---- sessions that the target has


def _reconnect(attempt: Attempt, **changes: Any) -> V2Peer:
    """Open a new link and send SESSION_RECONNECT on it."""
    peer = attempt.admitted()
    peer.send(peer.session_reconnect(**changes))
    return peer


def _session(attempt: Attempt, messages: int = 0) -> tuple[V2Peer, dict[str, Any]]:
    """Open a session; return its link, still open, and the fields of the SESSION_RECONNECT that resumes it."""
    peer = attempt.open()
    if messages:
        peer.send_messages(*range(1, messages + 1))
        peer.fate()
    return peer, {"server_cookie": peer.server_cookie, "connect_seq": 1}


def _broken(attempt: Attempt, messages: int = 0) -> dict[str, Any]:
    """Open a session and close its link; return the fields of the SESSION_RECONNECT that resumes it."""
    peer, fields = _session(attempt, messages)
    peer.hang_up()
    return fields


@KNOWN.case("SESSION_RECONNECT after the link broke: SESSION_RECONNECT_OK, and the session works", OPEN)
def _resumed(attempt: Attempt) -> str:
    peer = _reconnect(attempt, **_broken(attempt))
    peer.expect(SessionReconnectOk)
    return peer.fate()


@KNOWN.case(
    "SESSION_RECONNECT with a higher connect_seq while the link is open: the new link takes over the session",
    OPEN,
)
def _taken_over(attempt: Attempt) -> str:
    _, fields = _session(attempt)
    peer = _reconnect(attempt, **fields)
    peer.expect(SessionReconnectOk)
    return peer.fate()


@KNOWN.case("The link that a reconnect replaces is closed", CLOSED)
def _old_link(attempt: Attempt) -> str:
    old, fields = _session(attempt)
    _reconnect(attempt, **fields).expect(SessionReconnectOk)
    return _drained(old)


def _drained(peer: V2Peer) -> str:
    answer = peer.outcome()
    while answer not in (CLOSED, "silence"):
        answer = peer.outcome()
    return answer


@KNOWN.case("SESSION_RECONNECT_OK has in_seq 0 if no message has arrived", "0", section="3.6")
def _in_seq_0(attempt: Attempt) -> str:
    return str(_reconnect(attempt, **_broken(attempt)).expect(SessionReconnectOk).msg_seq)


@KNOWN.case("SESSION_RECONNECT_OK has the seq of the last message received", "3", section="3.6")
def _in_seq_3(attempt: Attempt) -> str:
    return str(_reconnect(attempt, **_broken(attempt, messages=3)).expect(SessionReconnectOk).msg_seq)


@KNOWN.case("A message sent again after a reconnect is dropped: in_seq stays the same", "2", section="3.6")
def _replayed(attempt: Attempt) -> str:
    fields = _broken(attempt, messages=2)
    peer = _reconnect(attempt, **fields)
    peer.expect(SessionReconnectOk)
    peer.send_messages(2)
    peer.hang_up()
    again = _reconnect(attempt, **fields | {"connect_seq": 9})
    return str(again.expect(SessionReconnectOk).msg_seq)


@KNOWN.case("SESSION_RECONNECT with the client_cookie of another session: SESSION_RESET", _FULL, _PARTIAL)
def _other_client_cookie(attempt: Attempt) -> str:
    fields = _broken(attempt)
    return _reconnect(attempt, **fields, client_cookie=attempt.client_cookie ^ 1).outcome()


@KNOWN.case(
    "SESSION_RECONNECT with the server_cookie of another session: a SESSION_RESET that is not full",
    _PARTIAL,
    classic=(_OK,),
    crimson=(_OK,),
    level=Level.TOLERANT,
)
def _other_server_cookie(attempt: Attempt) -> str:
    fields = _broken(attempt) | {"server_cookie": 77}
    return _reconnect(attempt, **fields).outcome()


@KNOWN.case("SESSION_RECONNECT from another address: a full SESSION_RESET", _FULL)
def _other_address(attempt: Attempt) -> str:
    fields = _broken(attempt)
    addr = attempt.addr()
    return _reconnect(attempt, **fields, addrs=AddrVec((replace(addr, nonce=addr.nonce ^ 1),))).outcome()


def _at_connect_seq(attempt: Attempt, connect_seq: int) -> dict[str, Any]:
    """Open a session whose last connection had this ``connect_seq``, and close its link."""
    fields = _broken(attempt) | {"connect_seq": connect_seq}
    peer = _reconnect(attempt, **fields)
    peer.expect(SessionReconnectOk)
    peer.hang_up()
    return fields


@KNOWN.case(
    "SESSION_RECONNECT with a lower connect_seq: SESSION_RETRY with the target's connect_seq",
    "connect_seq 5 or more",
)
def _retry(attempt: Attempt) -> str:
    fields = _at_connect_seq(attempt, 5) | {"connect_seq": 2}
    retry = _reconnect(attempt, **fields).expect(SessionRetry)
    return "connect_seq 5 or more" if 5 <= retry.connect_seq <= 6 else str(retry)


@KNOWN.case(
    "SESSION_RECONNECT on the same link with the connect_seq of SESSION_RETRY plus one: the session works", OPEN
)
def _after_retry(attempt: Attempt) -> str:
    fields = _at_connect_seq(attempt, 5) | {"connect_seq": 2}
    peer = _reconnect(attempt, **fields)
    retry = peer.expect(SessionRetry)
    peer.send(peer.session_reconnect(**fields | {"connect_seq": retry.connect_seq + 1}))
    peer.expect(SessionReconnectOk)
    return peer.fate()


@KNOWN.case(
    "SESSION_RECONNECT with a lower global_seq: SESSION_RETRY_GLOBAL with the highest that the target has seen",
    "1000",
)
def _retry_global(attempt: Attempt) -> str:
    peer = attempt.admitted()
    attempt.ident(peer, global_seq=_HIGH)
    peer.hang_up()
    answer = _reconnect(attempt, server_cookie=peer.server_cookie, global_seq=3).expect(SessionRetryGlobal)
    return str(answer.global_seq)


@KNOWN.case(
    "SESSION_RECONNECT on the same link with a global_seq above that of SESSION_RETRY_GLOBAL: the session works",
    OPEN,
)
def _after_retry_global(attempt: Attempt) -> str:
    first = attempt.admitted()
    attempt.ident(first, global_seq=_HIGH)
    first.hang_up()
    peer = _reconnect(attempt, server_cookie=first.server_cookie, global_seq=3)
    answer = peer.expect(SessionRetryGlobal)
    fields = {"server_cookie": first.server_cookie, "global_seq": answer.global_seq + 1}
    peer.send(peer.session_reconnect(**fields))
    peer.expect(SessionReconnectOk)
    return peer.fate()


@KNOWN.case(
    "SESSION_RECONNECT with a lower connect_seq and global_seq: SESSION_RETRY_GLOBAL takes precedence",
    f"SESSION_RETRY_GLOBAL global_seq={_HIGH}",
)
def _global_first(attempt: Attempt) -> str:
    fields = _at_connect_seq(attempt, 5) | {"connect_seq": 9, "global_seq": _HIGH}
    peer = _reconnect(attempt, **fields)
    peer.expect(SessionReconnectOk)
    peer.hang_up()
    return _reconnect(attempt, **fields | {"connect_seq": 2, "global_seq": 3}).outcome()


@KNOWN.case("SESSION_RECONNECT with the same global_seq as before: it is not outdated", _OK)
def _same_global(attempt: Attempt) -> str:
    peer = attempt.admitted()
    attempt.ident(peer, global_seq=_HIGH)
    peer.hang_up()
    return _reconnect(attempt, server_cookie=peer.server_cookie, global_seq=_HIGH).outcome()


@KNOWN.case(
    "SESSION_RECONNECT with the target's connect_seq: a connection race, decided by the addresses", _OK, "WAIT"
)
def _race(attempt: Attempt) -> str:
    return _reconnect(attempt, **_at_connect_seq(attempt, 5)).outcome()


@KNOWN.case(
    "SESSION_RECONNECT with an in_seq that the target never sent: it is accepted", _OK, level=Level.TOLERANT
)
def _in_seq_beyond(attempt: Attempt) -> str:
    return _reconnect(attempt, **_broken(attempt), msg_seq=50).outcome()


@KNOWN.case(
    "CLIENT_IDENT on the same link after SESSION_RETRY: a new session replaces the old one",
    "SERVER_IDENT",
    crimson=(CLOSED,),
    level=Level.TOLERANT,
)
def _ident_after_retry(attempt: Attempt) -> str:
    peer = _reconnect(attempt, **_at_connect_seq(attempt, 5) | {"connect_seq": 2})
    peer.expect(SessionRetry)
    peer.send(peer.client_ident())
    return peer.outcome()


@KNOWN.case("Five reconnects in a row: each resumes the session", OPEN)
def _often(attempt: Attempt) -> str:
    fields = _broken(attempt)
    for connect_seq in range(1, 6):
        peer = _reconnect(attempt, **fields | {"connect_seq": connect_seq})
        peer.expect(SessionReconnectOk)
        fate = peer.fate()
        if fate != OPEN:
            return fate
        peer.hang_up()
        fields["connect_seq"] += 1
    return OPEN


# ---- CLIENT_IDENT of a peer that has a session


@TAKEOVER.case("CLIENT_IDENT with the same cookie, as after a lost SERVER_IDENT: SERVER_IDENT", "SERVER_IDENT")
def _interrupted(attempt: Attempt) -> str:
    _broken(attempt)
    return _ident_again(attempt)


@TAKEOVER.case(
    "CLIENT_IDENT with another cookie and a higher global_seq, as after a restart: SERVER_IDENT", "SERVER_IDENT"
)
def _restarted(attempt: Attempt) -> str:
    _broken(attempt)
    return _ident_again(attempt, client_cookie=attempt.client_cookie ^ 1)


def _ident_again(attempt: Attempt, **changes: Any) -> str:
    peer = attempt.admitted()
    peer.send(peer.client_ident(**changes))
    return peer.outcome()


@TAKEOVER.case("CLIENT_IDENT with the same cookie and a lower global_seq: outdated, the link is closed", CLOSED)
def _outdated(attempt: Attempt) -> str:
    attempt.ident(attempt.admitted(), global_seq=_HIGH)
    return _ident_again(attempt, global_seq=3)


@TAKEOVER.case(
    "CLIENT_IDENT with another cookie and a lower global_seq after the link broke: treated as a restarted peer",
    "SERVER_IDENT",
    classic=(CLOSED,),
    crimson=(CLOSED,),
    level=Level.TOLERANT,
)
def _restarted_lower(attempt: Attempt) -> str:
    peer = attempt.admitted()
    attempt.ident(peer, global_seq=_HIGH)
    peer.hang_up()
    return _ident_again(attempt, client_cookie=attempt.client_cookie ^ 1, global_seq=3)


@TAKEOVER.case("A new session after a restart has another server_cookie", "another")
def _new_cookie(attempt: Attempt) -> str:
    first = attempt.ident(attempt.admitted()).server_cookie
    peer = attempt.admitted()
    second = attempt.ident(peer, client_cookie=attempt.client_cookie ^ 1).server_cookie
    return "another" if first != second else "the same"


@TAKEOVER.case("The link of the session before a restart is closed", CLOSED)
def _old_session(attempt: Attempt) -> str:
    old = attempt.open()
    attempt.ident(attempt.admitted(), client_cookie=attempt.client_cookie ^ 1)
    return _drained(old)


@TAKEOVER.case("After a restart of the peer the target accepts seq 1 again", "1", section="3.6")
def _counts_again(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send_messages(1, 2, 3)
    peer.fate()
    cookie = attempt.client_cookie = attempt.client_cookie ^ 1
    anew = attempt.open()
    anew.send_messages(1)
    anew.fate()
    anew.hang_up()
    fields = {"client_cookie": cookie, "server_cookie": anew.server_cookie, "connect_seq": 1}
    return str(_reconnect(attempt, **fields).expect(SessionReconnectOk).msg_seq)


@TAKEOVER.case("SESSION_RECONNECT for the session before a restart: SESSION_RESET", _FULL, _PARTIAL)
def _resume_old(attempt: Attempt) -> str:
    peer = attempt.open()
    attempt.ident(attempt.admitted(), client_cookie=attempt.client_cookie ^ 1)
    return _reconnect(attempt, server_cookie=peer.server_cookie).outcome()
