"""Authorizers on v2: how the holder of a ticket proves itself to a service (docs/protocol.md §5.7)."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from messenger.cephx.authorizer import build_authorizer, open_challenge, open_reply, successor
from messenger.cephx.authorizer_exchange import TicketSource
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.structures import Authorize, TicketBlob
from messenger.cephx.tickets import Ticket
from messenger.v2.wire import AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, Area, Level, Need
from toolkit.conformance.peers import V2Peer
from toolkit.conformance.target import RNG

AUTHORIZER = Area("cephx/authorizer", "5.7", Need.LOGIN, Need.CEPHX, Need.SERVICE)
_REFUSED = ("AUTH_BAD_METHOD", CLOSED)
_NONCE = 0x5EED


def _ticket(attempt: Attempt, peer: V2Peer) -> tuple[Ticket, int]:
    source = cast("TicketSource", attempt.target.auth_client)
    ticket = source.ticket_for(attempt.facts.entity_type, peer.me.wall_s(), RNG)
    return ticket, source.global_id


def _first(
    attempt: Attempt,
    *,
    of_ticket: Callable[[Ticket], Ticket] = lambda ticket: ticket,
    more_id: int = 0,
    of_bytes: Callable[[bytes], bytes] = bytes,
    mode: ConMode | None = None,
) -> tuple[V2Peer, Ticket]:
    """Send the first authorizer with one deviation."""
    peer = attempt.greeted()
    ticket, global_id = _ticket(attempt, peer)
    payload = build_authorizer(of_ticket(ticket), global_id + more_id, Authorize(_NONCE), RNG)
    peer.send(AuthRequest(AuthMethod.CEPHX, [mode or attempt.usual_mode], of_bytes(payload)))
    return peer, ticket


def _second(attempt: Attempt, make: Callable[[int], Authorize]) -> tuple[V2Peer, Ticket]:
    """Answer the challenge with the authorizer that ``make`` builds from it."""
    peer, ticket = _first(attempt)
    challenge = open_challenge(ticket.session_key, peer.expect(AuthReplyMore).auth_payload)
    _, global_id = _ticket(attempt, peer)
    peer.send(AuthRequestMore(build_authorizer(ticket, global_id, make(challenge), RNG)))
    return peer, ticket


def _flipped(place: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


@AUTHORIZER.case("A valid authorizer: AUTH_REPLY_MORE with a challenge", "AUTH_REPLY_MORE")
def _challenged(attempt: Attempt) -> str:
    return _first(attempt)[0].outcome()


@AUTHORIZER.case("Every link gets a different challenge", "another")
def _fresh(attempt: Attempt) -> str:
    found = set()
    for _ in range(2):
        peer, ticket = _first(attempt)
        found.add(open_challenge(ticket.session_key, peer.expect(AuthReplyMore).auth_payload))
    return "another" if len(found) == 2 else "the same"


@AUTHORIZER.case("The challenge plus one as the answer: AUTH_DONE", "AUTH_DONE")
def _answered(attempt: Attempt) -> str:
    return _second(attempt, lambda challenge: Authorize(_NONCE, True, successor(challenge)))[0].outcome()


@AUTHORIZER.case(
    "AUTH_DONE contains the nonce plus one, which proves that the target decrypted the ticket", "nonce plus one"
)
def _proof(attempt: Attempt) -> str:
    peer, ticket = _second(attempt, lambda challenge: Authorize(_NONCE, True, successor(challenge)))
    reply = open_reply(ticket.session_key, peer.expect(AuthDone).auth_payload)
    return "nonce plus one" if reply.nonce_plus_one == _NONCE + 1 else f"0x{reply.nonce_plus_one:x}"


@AUTHORIZER.case("The connection secret of secure mode has 64 bytes", "64", section="4.6", needs=(Need.SECURE,))
def _secret(attempt: Attempt) -> str:
    peer, ticket = _first(attempt, mode=ConMode.SECURE)
    challenge = open_challenge(ticket.session_key, peer.expect(AuthReplyMore).auth_payload)
    _, global_id = _ticket(attempt, peer)
    authorize = Authorize(_NONCE, True, successor(challenge))
    peer.send(AuthRequestMore(build_authorizer(ticket, global_id, authorize, RNG)))
    return str(len(open_reply(ticket.session_key, peer.expect(AuthDone).auth_payload).connection_secret))


@AUTHORIZER.case("The challenge itself as the answer, without plus one: refused", *_REFUSED)
def _wrong_answer(attempt: Attempt) -> str:
    return _second(attempt, lambda challenge: Authorize(_NONCE, True, challenge))[0].outcome()


@AUTHORIZER.case("The answer 0 to the challenge: refused", *_REFUSED)
def _zero(attempt: Attempt) -> str:
    return _second(attempt, lambda _: Authorize(_NONCE, True, 0))[0].outcome()


@AUTHORIZER.case(
    "A second authorizer without an answer to the challenge: refused",
    *_REFUSED,
    "AUTH_REPLY_MORE",
    level=Level.TOLERANT,
)
def _no_answer(attempt: Attempt) -> str:
    return _second(attempt, lambda _: Authorize(_NONCE))[0].outcome()


@AUTHORIZER.case("The answer to the challenge of another link: refused", *_REFUSED)
def _replayed(attempt: Attempt) -> str:
    peer, ticket = _first(attempt)
    old = open_challenge(ticket.session_key, peer.expect(AuthReplyMore).auth_payload)
    return _second(attempt, lambda _: Authorize(_NONCE, True, successor(old)))[0].outcome()


@AUTHORIZER.case("A flipped bit in the encrypted ticket: refused", *_REFUSED)
def _ticket_flipped(attempt: Attempt) -> str:
    def bend(ticket: Ticket) -> Ticket:
        blob = ticket.blob
        return replace(ticket, blob=TicketBlob(blob.secret_id, _flipped(20)(blob.blob)))

    return _first(attempt, of_ticket=bend)[0].outcome()


@AUTHORIZER.case("A ticket encrypted with an unknown service key: refused", *_REFUSED)
def _unknown_key(attempt: Attempt) -> str:
    def bend(ticket: Ticket) -> Ticket:
        return replace(ticket, blob=TicketBlob(999_999_999, ticket.blob.blob))

    return _first(attempt, of_ticket=bend)[0].outcome()


@AUTHORIZER.case("An empty ticket: refused", *_REFUSED)
def _empty_ticket(attempt: Attempt) -> str:
    return _first(attempt, of_ticket=lambda ticket: replace(ticket, blob=TicketBlob()))[0].outcome()


@AUTHORIZER.case("A global_id other than that of the ticket: refused", *_REFUSED)
def _other_id(attempt: Attempt) -> str:
    return _first(attempt, more_id=1)[0].outcome()


@AUTHORIZER.case("A flipped bit in the encrypted part of the authorizer: refused", *_REFUSED)
def _sealed_flipped(attempt: Attempt) -> str:
    return _first(attempt, of_bytes=lambda raw: _flipped(len(raw) - 20)(raw))[0].outcome()


@AUTHORIZER.case("An authorizer without its last 10 bytes: refused", *_REFUSED)
def _cut(attempt: Attempt) -> str:
    return _first(attempt, of_bytes=lambda raw: raw[:-10])[0].outcome()


@AUTHORIZER.case("An authorizer of one byte: refused", *_REFUSED)
def _one_byte(attempt: Attempt) -> str:
    return _first(attempt, of_bytes=lambda raw: raw[:1])[0].outcome()


@AUTHORIZER.case("An authorizer whose first byte is that of a login to a monitor: refused", *_REFUSED)
def _monitor_mode(attempt: Attempt) -> str:
    return _first(attempt, of_bytes=lambda raw: b"\x0a" + raw[1:])[0].outcome()


@AUTHORIZER.case("An authorizer for another service: refused", *_REFUSED)
def _other_service(attempt: Attempt) -> str:
    return _first(attempt, of_bytes=lambda raw: raw[:9] + b"\x40" + raw[10:])[0].outcome()


@AUTHORIZER.case(
    "AUTH_DONE carries the global_id of the ticket", "that of the ticket", section="4.7", level=Level.TOLERANT
)
def _global_id(attempt: Attempt) -> str:
    peer, _ = _second(attempt, lambda challenge: Authorize(_NONCE, True, successor(challenge)))
    _, global_id = _ticket(attempt, peer)
    found = peer.expect(AuthDone).global_id
    return "that of the ticket" if found == global_id else f"{found} instead of {global_id}"
