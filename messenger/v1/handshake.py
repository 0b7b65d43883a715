"""Handshake steps that connector and acceptor share (docs/protocol.md §3.2 to §3.6)."""

from typing import TYPE_CHECKING

from messenger.cephx.exchange import AuthResult
from messenger.cephx.signature import message_signer
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.features import Feature, has_feature
from messenger.v1.framing import Signer
from messenger.v1.wire import as_legacy

if TYPE_CHECKING:
    from messenger.home import Home
    from messenger.session.session import Session

_OUT_SEQ_BITS = 31
"""Bits of a random out_seq, which is at most 0x7FFFFFFF."""


def my_legacy_addr(addrs: AddrVec) -> EntityAddr:
    """This messenger's address for v1 peers: bound to v1, or a client's; with port 0 if it listens for v2 only."""
    legacy = addrs.legacy_addr()
    if legacy.is_blank:
        front = addrs.front
        legacy = EntityAddr(
            nonce=front.nonce,
            port=front.port if front.type is AddressType.ANY else 0,
            ip=front.ip,
            flowinfo=front.flowinfo,
            scope_id=front.scope_id,
        )
    return as_legacy(legacy)


def signer_for(config: Config, result: AuthResult | None, features: int) -> Signer | None:
    """The signer of a connection's messages; None if they are not signed (§3.7)."""
    if result is None or not config.cephx_sign_messages or not has_feature(features, Feature.MSG_AUTH):
        return None
    return message_signer(result, features)


def session_reset(endpoint: "Home", session: "Session", why: str, now: float) -> None:
    """Reset the session because the peer has lost it; keep peer_global_seq (§3.6).

    If the session was never open on both sides, the peer has lost nothing: the queue is kept, and no event is
    raised. With MSG_AUTH, out_seq is random until the peer announces its in_seq by SEQ: only the first message
    after a last reply READY has such a seq.
    """
    peer_global_seq = session.peer_global_seq
    if session.confirmed:
        endpoint.reset_session(session, why, now)
    else:
        session.connect_seq = 0
        session.peer_auth_name = None
        session.forget_peer_state()
    session.peer_global_seq = peer_global_seq
    if has_feature(session.features, Feature.MSG_AUTH):
        session.out_seq = session.acked_seq = endpoint.rng.getrandbits(_OUT_SEQ_BITS)
