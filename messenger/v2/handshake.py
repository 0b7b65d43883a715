"""Handshake steps of both sides: HELLO, pre-auth signatures, compression (docs/protocol.md §4.3, §4.7, §4.10)."""

import hmac

from messenger.algorithms import Algorithm, CompressionMode
from messenger.cephx.exchange import AuthResult, ConMode
from messenger.cephx.keys import hmac_sha256
from messenger.errors import FaultReason, PeerError
from messenger.v2.link import V2Link
from messenger.v2.wire import SIGNATURE_SIZE, AuthSignature, ControlFrame, Hello

_CONNECT_SEQ_LIMIT = 1 << 63


def take_hello(link: V2Link, frame: ControlFrame) -> Hello:
    """Store the peer's entity type, and this side's address as the peer sees it."""
    assert isinstance(frame, Hello)
    link.peer_type = frame.entity_type
    if link.endpoint.config.ms_learn_addr_from_peer or link.local_addr.is_blank_ip:
        own = link.endpoint.me.addrs.front
        link.local_addr = own if frame.peer_addr == own else frame.peer_addr  # the same object for all links
    return frame


def _sign(session_key: bytes, transcript: bytearray | None) -> bytes:
    """HMAC over the bytes of one direction; zeros if there is no key (§4.7)."""
    assert transcript is not None
    if not session_key:
        return bytes(SIGNATURE_SIZE)
    return hmac_sha256(session_key, transcript)


def start_signing(link: V2Link, result: AuthResult, con_mode: ConMode, now: float) -> None:
    """Install the keys and send the signature, which in secure mode is encrypted already (§4.6)."""
    mine = _sign(result.session_key, link.rx_transcript)
    link.expected_signature = _sign(result.session_key, link.tx_transcript)
    link.finish_authentication(result, con_mode)
    link.trace_auth(now)
    link.send(AuthSignature(mine), now)


def check_signature(link: V2Link, frame: ControlFrame) -> None:
    """Check that the peer's signature covers exactly the bytes that this side sent.

    Raises:
        PeerError: AUTH_SIGNATURE: bytes were changed in transit, or the peer has another key.
    """
    assert isinstance(frame, AuthSignature)
    if not hmac.compare_digest(frame.signature, link.expected_signature):
        raise PeerError(FaultReason.AUTH_SIGNATURE, "the peer did not receive what was sent to it")
    link.lift_limits()
    if link.endpoint.config.ms_learn_addr_from_peer:
        # Not earlier: HELLO is not authenticated.
        link.endpoint.me.learned_addr(link.local_addr)


def compression_wish(link: V2Link) -> tuple[CompressionMode, tuple[Algorithm, ...]]:
    """The compression mode and the algorithms that this side offers or allows on the link (§4.10)."""
    return link.endpoint.config.compression(link.peer_entity, secure=link.con_mode is ConMode.SECURE)


def check_connect_seq(connect_seq: int) -> None:
    """Refuse a connect_seq that cannot be incremented within 64 bits.

    Raises:
        PeerError: MALFORMED.
    """
    if connect_seq > _CONNECT_SEQ_LIMIT:
        raise PeerError(FaultReason.MALFORMED, f"connect_seq {connect_seq} leaves no room above it")
