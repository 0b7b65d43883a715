"""Secure mode: keys, nonces and tags (docs/protocol.md §4.5, §4.6)."""

from typing import Any

from messenger.cephx.exchange import ConMode
from messenger.v2.onwire import stream_ciphers
from messenger.v2.wire import AuthSignature, KeepAlive2
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, Area, Level, Need
from toolkit.conformance.cases.v2_frame import message
from toolkit.conformance.peers import V2Peer
from toolkit.node.raw.frames import ABORTED, RawFrame

SECURE = Area("v2/secure", "4.6", Need.SESSION, Need.SECURE)
_FIRST_PART = 96
_PING = KeepAlive2(77, 0)


def _open(attempt: Attempt, **options: Any) -> V2Peer:
    return attempt.open(mode=ConMode.SECURE, **options)


def _ping(peer: V2Peer, **changes: Any) -> bytes:
    """Return an encrypted KEEPALIVE2."""
    return RawFrame(_PING.TAG, (_PING.encode(),), **changes).encode(peer.seal)


def _flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


@SECURE.case("A session opens and works in secure mode", OPEN)
def _works(attempt: Attempt) -> str:
    return _open(attempt).fate()


@SECURE.case("The target's AUTH_SIGNATURE is already encrypted, with nonce A", "AUTH_SIGNATURE")
def _signature(attempt: Attempt) -> str:
    return attempt.proven(mode=ConMode.SECURE).outcome()


@SECURE.case("A message of one part: it is accepted", OPEN, section="4.5")
def _message(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front"))


@SECURE.case("A message whose parts are not multiples of 16 bytes: it is accepted", OPEN, section="4.5")
def _parts(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"f" * 17, b"", b"d" * 33))


def _sent(attempt: Attempt, frame: RawFrame) -> str:
    peer = _open(attempt)
    peer.put(frame.encode(peer.seal), "an encrypted message")
    return peer.fate()


@SECURE.case("A flipped bit in the ciphertext of the first part: the link is closed", CLOSED)
def _ciphertext(attempt: Attempt) -> str:
    peer = _open(attempt)
    peer.put(_flipped(_ping(peer), 20), "KEEPALIVE2 with a flipped bit")
    return peer.fate()


@SECURE.case("A flipped bit in the tag of the first part: the link is closed", CLOSED)
def _tag(attempt: Attempt) -> str:
    peer = _open(attempt)
    peer.put(_flipped(_ping(peer), _FIRST_PART - 1), "KEEPALIVE2 with a wrong tag")
    return peer.fate()


@SECURE.case("A flipped bit in the part with a message's front: the link is closed", CLOSED)
def _front(attempt: Attempt) -> str:
    peer = _open(attempt)
    raw = message(1, b"front").encode(peer.seal)
    peer.put(_flipped(raw, _FIRST_PART + 1), "a message with a flipped bit in its front")
    return peer.fate()


@SECURE.case("A flipped bit in the tag after a message's parts: the link is closed", CLOSED)
def _last_tag(attempt: Attempt) -> str:
    peer = _open(attempt)
    raw = message(1, b"front").encode(peer.seal)
    peer.put(_flipped(raw, len(raw) - 1), "a message with a wrong last tag")
    return peer.fate()


@SECURE.case("A flipped bit in AUTH_SIGNATURE: the link is closed", CLOSED)
def _handshake(attempt: Attempt) -> str:
    peer = attempt.proven(mode=ConMode.SECURE)
    peer.expect(AuthSignature)
    raw = RawFrame(AuthSignature.TAG, (peer.own_signature,)).encode(peer.seal)
    peer.put(_flipped(raw, 40), "AUTH_SIGNATURE with a flipped bit")
    return peer.outcome()


@SECURE.case("A flipped bit in the part of CLIENT_IDENT after the first one: the link is closed", CLOSED)
def _second_part(attempt: Attempt) -> str:
    peer = attempt.admitted(mode=ConMode.SECURE)
    ident = peer.client_ident()
    raw = RawFrame(ident.TAG, (ident.encode(),)).encode(peer.seal)
    peer.put(_flipped(raw, len(raw) - 1), "CLIENT_IDENT with a wrong tag of its second part")
    return peer.outcome()


@SECURE.case("The same encrypted frame twice, which reuses a nonce: the link is closed", CLOSED)
def _replayed(attempt: Attempt) -> str:
    peer = _open(attempt)
    raw = _ping(peer)
    peer.put(raw + raw, "KEEPALIVE2 and the same bytes again")
    return peer.fate()


@SECURE.case("A skipped nonce: the link is closed", CLOSED)
def _skipped(attempt: Attempt) -> str:
    peer = _open(attempt)
    _ping(peer)
    peer.put(_ping(peer), "the second of two encrypted KEEPALIVE2")
    return peer.fate()


@SECURE.case("Two encrypted frames in the wrong order: the link is closed", CLOSED)
def _swapped(attempt: Attempt) -> str:
    peer = _open(attempt)
    first, second = _ping(peer), _ping(peer)
    peer.put(second + first, "two encrypted KEEPALIVE2 in the wrong order")
    return peer.fate()


@SECURE.case("An encrypted frame of another link: the link is closed", CLOSED)
def _other_link(attempt: Attempt) -> str:
    with Attempt(attempt.target) as other:
        foreign = _ping(_open(other))
    peer = _open(attempt)
    peer.put(foreign, "KEEPALIVE2 encrypted for another link")
    return peer.fate()


@SECURE.case("A frame encrypted with nonce A, which belongs to the target: the link is closed", CLOSED)
def _wrong_direction(attempt: Attempt) -> str:
    peer = _open(attempt)
    _, sending = stream_ciphers(peer.result.connection_secret, connector=False)
    peer.put(RawFrame(_PING.TAG, (_PING.encode(),)).encode(sending.encrypt), "KEEPALIVE2 with nonce A")
    return peer.fate()


@SECURE.case("A plaintext frame on an open session: the link is closed", CLOSED)
def _plaintext(attempt: Attempt) -> str:
    peer = _open(attempt)
    raw = RawFrame(_PING.TAG, (_PING.encode(),)).encode()
    peer.put(raw.ljust(_FIRST_PART, b"\0"), "KEEPALIVE2 in plaintext")
    return peer.fate()


@SECURE.case("AUTH_SIGNATURE in plaintext: the link is closed", CLOSED)
def _plain_signature(attempt: Attempt) -> str:
    peer = attempt.proven(mode=ConMode.SECURE)
    peer.expect(AuthSignature)
    raw = RawFrame(AuthSignature.TAG, (peer.own_signature,)).encode()
    peer.put(raw.ljust(_FIRST_PART, b"\0"), "AUTH_SIGNATURE in plaintext")
    return peer.outcome()


@SECURE.case("A wrong crc of an encrypted preamble: the link is closed", CLOSED, section="4.4")
def _preamble(attempt: Attempt) -> str:
    peer = _open(attempt)
    peer.put(_ping(peer, preamble_mask=1), "KEEPALIVE2 with a wrong preamble crc")
    return peer.fate()


@SECURE.case(
    'An encrypted late status "aborted": the message is dropped, the link stays open',
    OPEN,
    section="4.5",
    kernel=(CLOSED,),
)
def _aborted(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", late_status=ABORTED))


@SECURE.case("An encrypted late status 0: the link is closed", CLOSED, section="4.5")
def _late_status(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", late_status=0))


@SECURE.case(
    "Padding of the first segment other than zeros: it is ignored", OPEN, section="4.5", level=Level.TOLERANT
)
def _padding(attempt: Attempt) -> str:
    peer = _open(attempt)
    assert peer.seal is not None
    plain = RawFrame(_PING.TAG, (_PING.encode(),)).preamble() + _PING.encode()
    peer.put(peer.seal(plain.ljust(80, b"\xff")), "KEEPALIVE2 with padding of 0xFF")
    return peer.fate()


@SECURE.case("Secure mode of msgr 2.0: a session opens and works", OPEN, section="4.5")
def _revision_0(attempt: Attempt) -> str:
    return _open(attempt, features=0).fate()
