"""Negotiation of method and mode, and signatures (docs/protocol.md §4.7)."""

import hmac
from collections.abc import Callable
from struct import pack

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.v2.wire import (
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    KeepAlive2,
    Tag,
)
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, Area, Level, Need
from toolkit.conformance.peers import V2Peer, introduction

AUTH = Area("v2/auth", "4.7")
SIGNATURE = Area("v2/signature", "4.7", Need.LOGIN)
_NO_METHOD = 77
_MANY = 100_000
"""Number of modes announced: Ceph's daemons allocate the list first, and 2^32 - 1 would block them for minutes."""
_IN = ("AUTH_REPLY_MORE", "AUTH_DONE")


def _refused(attempt: Attempt, method: int, *modes: int) -> tuple[V2Peer, AuthBadMethod]:
    peer = attempt.greeted()
    peer.send(AuthRequest(method, list(modes), introduction()))
    return peer, peer.expect(AuthBadMethod)


def _opening(attempt: Attempt, peer: V2Peer) -> bytes:
    """Return the payload of a valid AUTH_REQUEST, with which the exchange can continue."""
    target = attempt.target
    peer.exchange = peer.me.auth_client.exchange(target.facts.entity_type, peer.me.wall_s(), peer.me.rng)
    return peer.exchange.start().payload


def _requested(attempt: Attempt, modes: list[int], mode: ConMode = ConMode.CRC) -> V2Peer:
    """Send a valid AUTH_REQUEST with these modes; return the link."""
    peer = attempt.greeted(mode=mode)
    peer.send(AuthRequest(attempt.method, modes, _opening(attempt, peer)))
    return peer


@AUTH.case("The unknown method 0: AUTH_BAD_METHOD", "AUTH_BAD_METHOD")
def _method_0(attempt: Attempt) -> str:
    _refused(attempt, AuthMethod.UNKNOWN, ConMode.SECURE, ConMode.CRC)
    return "AUTH_BAD_METHOD"


@AUTH.case("The unknown method 77: AUTH_BAD_METHOD names it", "method 77")
def _method_named(attempt: Attempt) -> str:
    return f"method {_refused(attempt, _NO_METHOD, ConMode.SECURE, ConMode.CRC)[1].method}"


@AUTH.case("The unknown method 77: the result is -EOPNOTSUPP", "-95", classic=("-13",))
def _method_errno(attempt: Attempt) -> str:
    return str(_refused(attempt, _NO_METHOD, ConMode.SECURE, ConMode.CRC)[1].result)


@AUTH.case("AUTH_BAD_METHOD lists the allowed methods", "methods")
def _lists_methods(attempt: Attempt) -> str:
    return "methods" if _refused(attempt, _NO_METHOD, ConMode.CRC)[1].allowed_methods else "no methods"


@AUTH.case("AUTH_BAD_METHOD for a known method lists the allowed modes", "modes")
def _lists_modes(attempt: Attempt) -> str:
    return "modes" if _refused(attempt, _known(attempt), 99)[1].allowed_modes else "no modes"


def _known(attempt: Attempt) -> int:
    methods = attempt.facts.methods
    return methods[0] if methods else AuthMethod.CEPHX


@AUTH.case("Only an unknown mode: AUTH_BAD_METHOD", "AUTH_BAD_METHOD")
def _unknown_mode(attempt: Attempt) -> str:
    _refused(attempt, _known(attempt), 99)
    return "AUTH_BAD_METHOD"


@AUTH.case("Only an unknown mode: the result is -EOPNOTSUPP", "-95")
def _mode_errno(attempt: Attempt) -> str:
    return str(_refused(attempt, _known(attempt), 99)[1].result)


@AUTH.case("No mode at all: AUTH_BAD_METHOD", "AUTH_BAD_METHOD")
def _no_mode(attempt: Attempt) -> str:
    _refused(attempt, _known(attempt))
    return "AUTH_BAD_METHOD"


@AUTH.case("A known method that is not allowed: AUTH_BAD_METHOD", "AUTH_BAD_METHOD")
def _not_allowed(attempt: Attempt) -> str:
    method = AuthMethod.GSS if AuthMethod.GSS not in attempt.facts.methods else _NO_METHOD
    _refused(attempt, method, ConMode.SECURE, ConMode.CRC)
    return "AUTH_BAD_METHOD"


@AUTH.case("A second unacceptable AUTH_REQUEST on the same link is refused like the first", "AUTH_BAD_METHOD")
def _refused_twice(attempt: Attempt) -> str:
    peer, _ = _refused(attempt, _NO_METHOD, ConMode.CRC)
    peer.send(AuthRequest(_NO_METHOD, [ConMode.CRC], introduction()))
    return peer.outcome()


@AUTH.case("A valid AUTH_REQUEST after AUTH_BAD_METHOD on the same link is accepted", *_IN, needs=(Need.LOGIN,))
def _second_chance(attempt: Attempt) -> str:
    peer, _ = _refused(attempt, _NO_METHOD, ConMode.CRC)
    peer.send(AuthRequest(attempt.method, [attempt.usual_mode], _opening(attempt, peer)))
    return peer.outcome()


@AUTH.case("An unknown mode before an allowed one: it is skipped", *_IN, needs=(Need.LOGIN,))
def _unknown_first(attempt: Attempt) -> str:
    return _requested(attempt, [99, attempt.usual_mode]).outcome()


def _chosen(attempt: Attempt, modes: list[int]) -> str:
    """Return the mode in AUTH_DONE."""
    peer = _requested(attempt, modes)
    while isinstance(reply := peer.await_next(), AuthReplyMore):
        peer.send(AuthRequestMore(peer.exchange.more(reply.auth_payload)))
    return ConMode(reply.con_mode).name if isinstance(reply, AuthDone) else str(reply)


@AUTH.case("The first of the peer's modes that is allowed is chosen: crc before secure", "CRC", needs=(Need.CRC,))
def _crc_first(attempt: Attempt) -> str:
    return _chosen(attempt, [ConMode.CRC, ConMode.SECURE])


@AUTH.case(
    "The first of the peer's modes that is allowed is chosen: secure before crc", "SECURE", needs=(Need.SECURE,)
)
def _secure_first(attempt: Attempt) -> str:
    return _chosen(attempt, [ConMode.SECURE, ConMode.CRC])


@AUTH.case("AUTH_REQUEST with a truncated payload: the link is closed", CLOSED, section="4.3")
def _cut(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.payload(Tag.AUTH_REQUEST, AuthRequest(2, [1], introduction()).encode()[:-9], "AUTH_REQUEST, cut off")
    return peer.outcome()


@AUTH.case("AUTH_REQUEST that announces more modes than it contains: the link is closed", CLOSED, section="4.3")
def _many_modes(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.payload(Tag.AUTH_REQUEST, pack("<III", 2, _MANY, 1), "AUTH_REQUEST with 100000 modes")
    return peer.outcome()


@AUTH.case(
    "AUTH_REQUEST with extra bytes after its fields: they are ignored", *_IN, section="4.3", needs=(Need.LOGIN,)
)
def _trailing(attempt: Attempt) -> str:
    peer = attempt.greeted()
    request = AuthRequest(attempt.method, [attempt.usual_mode], _opening(attempt, peer))
    peer.payload(Tag.AUTH_REQUEST, request.encode() + b"more", "AUTH_REQUEST with four bytes more")
    return peer.outcome()


@AUTH.case("An allowed method with an empty payload: refused, or the link is closed", "AUTH_BAD_METHOD", CLOSED)
def _empty_payload(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.send(AuthRequest(_known(attempt), [ConMode.CRC, ConMode.SECURE], b""))
    return peer.outcome()


@AUTH.case("An allowed method with a random payload: refused, or the link is closed", "AUTH_BAD_METHOD", CLOSED)
def _random_payload(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.send(AuthRequest(_known(attempt), [ConMode.CRC, ConMode.SECURE], bytes(range(200, 256))))
    return peer.outcome()


@AUTH.case(
    "A second AUTH_REQUEST while the target waits for AUTH_REQUEST_MORE: the link is closed",
    CLOSED,
    needs=(Need.CEPHX,),
)
def _request_in_between(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.auth_request()
    peer.expect(AuthReplyMore)
    peer.auth_request()
    return peer.outcome()


@AUTH.case("AUTH_DONE names a mode that the peer offered", "offered", needs=(Need.LOGIN,))
def _offered(attempt: Attempt) -> str:
    mode = attempt.usual_mode
    return "offered" if _chosen(attempt, [mode]) == mode.name else "another"


# ---- AUTH_SIGNATURE


def _signed(attempt: Attempt, signature: bytes, what: str) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    return _send_signature(peer, signature, what)


def _send_signature(peer: V2Peer, signature: bytes, what: str) -> str:
    peer.payload(Tag.AUTH_SIGNATURE, signature, what)
    peer.send(peer.client_ident())
    return peer.outcome()


@SIGNATURE.case(
    "The target sends AUTH_SIGNATURE right after AUTH_DONE, before the peer's AUTH_SIGNATURE", "AUTH_SIGNATURE"
)
def _unasked(attempt: Attempt) -> str:
    return attempt.proven().outcome()


@SIGNATURE.case("The target's signature covers all bytes that it has received", "right")
def _over_received(attempt: Attempt) -> str:
    peer = attempt.proven()
    return "right" if peer.expect(AuthSignature).signature == peer.expected_signature else "wrong"


@SIGNATURE.case("The target's signature is 32 zero bytes if, and only if, there is no session key", "right")
def _zeros(attempt: Attempt) -> str:
    found = attempt.proven().expect(AuthSignature).signature
    return "right" if (found == bytes(32)) is not attempt.target.by_cephx else found.hex()


def _flipped(peer: V2Peer, place: int) -> bytes:
    raw = bytearray(peer.own_signature)
    raw[place] ^= 1
    return bytes(raw)


@SIGNATURE.case("A signature with a bit of its first byte flipped: the link is closed", CLOSED)
def _first_bit(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    return _send_signature(peer, _flipped(peer, 0), "a signature with a wrong first byte")


@SIGNATURE.case("A signature with a bit of its last byte flipped: the link is closed", CLOSED)
def _last_bit(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    return _send_signature(peer, _flipped(peer, -1), "a signature with a wrong last byte")


@SIGNATURE.case(
    "A signature of zeros although there is a session key: the link is closed", CLOSED, needs=(Need.CEPHX,)
)
def _of_zeros(attempt: Attempt) -> str:
    return _signed(attempt, bytes(32), "a signature of zeros")


@SIGNATURE.case("The target's own signature, sent back: the link is closed", CLOSED, needs=(Need.CEPHX,))
def _reflected(attempt: Attempt) -> str:
    peer = attempt.proven()
    signature = peer.expect(AuthSignature).signature
    return _send_signature(peer, signature, "the target's own signature")


@SIGNATURE.case("A signature of 31 bytes: the link is closed", CLOSED)
def _short(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    return _send_signature(peer, peer.own_signature[:31], "a signature of 31 bytes")


@SIGNATURE.case("An empty signature: the link is closed", CLOSED)
def _empty(attempt: Attempt) -> str:
    return _signed(attempt, b"", "an empty signature")


@SIGNATURE.case(
    "The peer's mode list was tampered with in transit, so its signature does not match: the link is closed",
    CLOSED,
    needs=(Need.CEPHX,),
)
def _downgraded(attempt: Attempt) -> str:
    return _tampered(attempt, lambda raw: raw.replace(bytes([ConMode.CRC]), bytes([ConMode.SECURE])))


@SIGNATURE.case(
    "The target's banner was tampered with in transit, so the peer's signature does not match: the link is closed",
    CLOSED,
    needs=(Need.CEPHX,),
)
def _banner_changed(attempt: Attempt) -> str:
    return _tampered(attempt, lambda raw: raw[:10] + bytes([raw[10] ^ 2]) + raw[11:])


def _tampered(attempt: Attempt, change: Callable[[bytes], bytes]) -> str:
    """Send a signature over the received bytes after ``change``, as if they had been altered in transit."""
    peer = attempt.proven()
    received = peer.signed_bytes
    changed = change(received)
    assert changed != received
    peer.expect(AuthSignature)
    signature = hmac.digest(peer.result.session_key, changed, "sha256")
    return _send_signature(peer, signature, "a signature over changed bytes")


@SIGNATURE.case("CLIENT_IDENT instead of AUTH_SIGNATURE: the link is closed", CLOSED)
def _skipped(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    peer.send(peer.client_ident())
    return peer.outcome()


@SIGNATURE.case("KEEPALIVE2 instead of AUTH_SIGNATURE: the link is closed", CLOSED)
def _keepalive(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    peer.send(KeepAlive2(1, 0))
    return peer.outcome()


@SIGNATURE.case("AUTH_SIGNATURE twice: the link is closed", CLOSED)
def _twice(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.signature()
    return _send_signature(peer, peer.own_signature, "the signature again")


@SIGNATURE.case(
    "The correct signature with extra bytes after it: they are ignored",
    OPEN,
    section="4.3",
    level=Level.TOLERANT,
    needs=(Need.SESSION,),
)
def _signature_trailing(attempt: Attempt) -> str:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    answer = _send_signature(peer, peer.own_signature + b"more", "the signature with four bytes more")
    return peer.fate() if answer == "SERVER_IDENT" else answer
