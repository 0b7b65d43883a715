"""The login to a monitor over v2 (docs/protocol.md §5.5)."""

from typing import cast

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import Authenticate, RequestHeader, RequestType, ServerChallenge
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.v2.wire import AuthBadMethod, AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, CRASHED, Area, Level, Need
from toolkit.conformance.peers import V2Peer
from toolkit.conformance.target import RNG

LOGIN = Area("cephx/login", "5.5", Need.LOGIN, Need.CEPHX, Need.MONITOR)
_REFUSED = ("AUTH_BAD_METHOD", CLOSED)
_NAME_AT = 5
"""Offset of the entity id in the payload of AUTH_REQUEST: after auth mode and entity type."""


def _client(attempt: Attempt) -> CephxClient:
    """Return a client with the key of the run, but without a global_id."""
    known = cast("CephxClient", attempt.target.auth_client)
    return CephxClient(known.name, known.key)


def _challenge(attempt: Attempt, client: CephxClient) -> tuple[V2Peer, int]:
    """Send the entity name; return the monitor's challenge."""
    peer = attempt.greeted(auth_client=client)
    peer.auth_request()
    payload = peer.expect(AuthReplyMore).auth_payload
    return peer, ServerChallenge.decode(Decoder(payload)).server_challenge


def _logged_in(attempt: Attempt, client: CephxClient) -> AuthDone:
    peer = attempt.greeted(auth_client=client)
    peer.auth_request()
    reply = peer.expect(AuthReplyMore)
    peer.send(AuthRequestMore(peer.exchange.more(reply.auth_payload)))
    done = peer.expect(AuthDone)
    peer.exchange.done(done.global_id, ConMode(done.con_mode), done.auth_payload)
    return done


def _requested(attempt: Attempt, payload: bytes) -> str:
    peer = attempt.greeted()
    peer.send(AuthRequest(AuthMethod.CEPHX, [attempt.usual_mode], payload))
    return peer.outcome()


def _answered(attempt: Attempt, proof: bytes) -> str:
    peer, _ = _challenge(attempt, _client(attempt))
    peer.send(AuthRequestMore(proof))
    return peer.outcome()


@LOGIN.case("A known name: AUTH_REPLY_MORE with a challenge that is not 0", "a challenge")
def _challenged(attempt: Attempt) -> str:
    return "a challenge" if _challenge(attempt, _client(attempt))[1] else "0"


@LOGIN.case("Every link gets a different challenge", "another")
def _fresh(attempt: Attempt) -> str:
    found = {_challenge(attempt, _client(attempt))[1] for _ in range(2)}
    return "another" if len(found) == 2 else "the same"


@LOGIN.case("The correct proof: AUTH_DONE", "AUTH_DONE")
def _right(attempt: Attempt) -> str:
    client = _client(attempt)
    peer, challenge = _challenge(attempt, client)
    peer.send(AuthRequestMore(client.prove(challenge, None, client.wanted_services, RNG)))
    return peer.outcome()


@LOGIN.case("A new client gets a global_id", "a global_id")
def _global_id(attempt: Attempt) -> str:
    return "a global_id" if _logged_in(attempt, _client(attempt)).global_id else "0"


@LOGIN.case("Two new clients get different global_ids", "different")
def _global_ids(attempt: Attempt) -> str:
    found = {_logged_in(attempt, _client(attempt)).global_id for _ in range(2)}
    return "different" if len(found) == 2 else "the same"


@LOGIN.case("AUTH_DONE carries an AUTH ticket that the key decrypts", "a ticket")
def _ticket(attempt: Attempt) -> str:
    client = _client(attempt)
    _logged_in(attempt, client)
    return "a ticket" if EntityType.AUTH in client.tickets else "none"


@LOGIN.case("AUTH_DONE carries tickets of the requested services", "osd")
def _service_tickets(attempt: Attempt) -> str:
    client = _client(attempt)
    _logged_in(attempt, client)
    return "osd" if EntityType.OSD in client.tickets else "none"


@LOGIN.case("A client that presents its AUTH ticket keeps its global_id", "the same", section="5.5")
def _reclaimed(attempt: Attempt) -> str:
    client = _client(attempt)
    found = {_logged_in(attempt, client).global_id for _ in range(2)}
    return "the same" if len(found) == 1 else "different"


@LOGIN.case("A proof made with another key: refused", *_REFUSED)
def _other_key(attempt: Attempt) -> str:
    client = _client(attempt)
    key = client.key
    other = CephxClient(client.name, CryptoKey(key.type, RNG.randbytes(len(key.secret))))
    peer, challenge = _challenge(attempt, client)
    peer.send(AuthRequestMore(other.prove(challenge, None, 0, RNG)))
    return peer.outcome()


@LOGIN.case("A proof made with another key: the result is -EACCES or -EPERM", "denied", section="4.7")
def _denied(attempt: Attempt) -> str:
    client = _client(attempt)
    peer, challenge = _challenge(attempt, client)
    peer.send(AuthRequestMore(client.prove(challenge ^ 1, None, 0, RNG)))
    result = peer.expect(AuthBadMethod).result
    return "denied" if result in (-13, -1) else str(result)


@LOGIN.case("A proof for the challenge of another link: refused", *_REFUSED)
def _replayed(attempt: Attempt) -> str:
    client = _client(attempt)
    _, old = _challenge(attempt, client)
    return _answered(attempt, client.prove(old, None, 0, RNG))


@LOGIN.case("A proof of zeros: refused", *_REFUSED)
def _zeros(attempt: Attempt) -> str:
    return _answered(attempt, encoded(RequestHeader(RequestType.GET_AUTH_SESSION_KEY), Authenticate(0, 0)))


@LOGIN.case("A request for service tickets instead of the proof: refused", *_REFUSED, section="5.5")
def _wrong_request(attempt: Attempt) -> str:
    return _answered(attempt, encoded(RequestHeader(RequestType.GET_PRINCIPAL_SESSION_KEY)))


@LOGIN.case("An unknown request instead of the proof: refused", *_REFUSED)
def _unknown_request(attempt: Attempt) -> str:
    return _answered(attempt, b"\x34\x12" + bytes(20))


@LOGIN.case("A truncated proof: refused", *_REFUSED)
def _cut(attempt: Attempt) -> str:
    client = _client(attempt)
    peer, challenge = _challenge(attempt, client)
    peer.send(AuthRequestMore(client.prove(challenge, None, 0, RNG)[:-8]))
    return peer.outcome()


@LOGIN.case("An empty proof: refused", *_REFUSED)
def _empty(attempt: Attempt) -> str:
    return _answered(attempt, b"")


def _introduction(attempt: Attempt, name: AuthName | None = None) -> bytes:
    client = _client(attempt)
    if name is not None:
        client = CephxClient(name, client.key)
    return client.exchange(EntityType.MON, 0.0, RNG).start().payload


@LOGIN.case("A name without a key: refused, at once or after a challenge", *_REFUSED, "AUTH_REPLY_MORE")
def _unknown_name(attempt: Attempt) -> str:
    return _requested(attempt, _introduction(attempt, AuthName(EntityType.CLIENT, "no-such-client")))


@LOGIN.case("A well-formed proof for a name without a key: refused", *_REFUSED)
def _unknown_proof(attempt: Attempt) -> str:
    client = CephxClient(AuthName(EntityType.CLIENT, "no-such-client"), _client(attempt).key)
    peer = attempt.greeted(auth_client=client)
    peer.auth_request()
    reply = peer.await_next()
    if not isinstance(reply, AuthReplyMore):
        return "AUTH_BAD_METHOD" if isinstance(reply, AuthBadMethod) else peer.outcome()
    peer.send(AuthRequestMore(peer.exchange.more(reply.auth_payload)))
    return peer.outcome()


@LOGIN.case("A truncated name: refused", *_REFUSED)
def _cut_name(attempt: Attempt) -> str:
    return _requested(attempt, _introduction(attempt)[: _NAME_AT + 5])


@LOGIN.case("An unknown auth mode: refused", *_REFUSED)
def _mode(attempt: Attempt) -> str:
    return _requested(attempt, b"\x05" + _introduction(attempt)[1:])


@LOGIN.case("A name of 4 GiB: refused", *_REFUSED, level=Level.STRICT)
def _long_name(attempt: Attempt) -> str:
    payload = _introduction(attempt)
    return _requested(attempt, payload[:_NAME_AT] + b"\xff" * 4 + payload[_NAME_AT + 4 :])


@LOGIN.case(
    "The correct proof with a request for no tickets: AUTH_DONE",
    "AUTH_DONE",
    classic=(CRASHED,),
    destructive=True,
)
def _no_tickets(attempt: Attempt) -> str:
    client = _client(attempt)
    peer, challenge = _challenge(attempt, client)
    peer.send(AuthRequestMore(client.prove(challenge, None, 0, RNG)))
    return peer.outcome()
