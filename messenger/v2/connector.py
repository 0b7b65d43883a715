"""The connector's handshake: from HELLO to SERVER_IDENT or SESSION_RECONNECT_OK (docs/protocol.md §4.7, §4.9)."""

from messenger.cephx.exchange import AuthOpening, ClientExchange, ConMode
from messenger.denc.features import MSG_ADDR2
from messenger.errors import FaultReason, PeerError
from messenger.link import Row
from messenger.randomness import nonzero_u64
from messenger.session.events import EventKind
from messenger.session.identity import check_number
from messenger.session.session import Session
from messenger.session.states import Change
from messenger.v2.compression import agreed_algorithm, compression_request
from messenger.v2.handshake import (
    check_connect_seq,
    check_signature,
    compression_wish,
    start_signing,
    take_hello,
)
from messenger.v2.link import Table, V2Link
from messenger.v2.states import LinkState
from messenger.v2.wire import (
    FLAG_LOSSY,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    ClientIdent,
    CompressionDone,
    ControlFrame,
    IdentMissingFeatures,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
)

_MAX_RETRIES = 8
"""Most retries on one link; after one more the link faults and the connector backs off."""
_GLOBAL_SEQ_LIMIT = (1 << 32) - 2
"""Every implementation counts in 32 bits, though the frame has 64; the next number must fit, too."""


def _session(link: V2Link) -> Session:
    assert link.session is not None
    return link.session


def _exchange(link: V2Link) -> ClientExchange:
    assert link.exchange is not None
    return link.exchange  # type: ignore[return-value]  # a connector's exchange is the client's half


def _on_hello(link: V2Link, frame: ControlFrame, now: float) -> None:
    hello = take_hello(link, frame)
    expected = _session(link).peer_type
    if hello.entity_type is not expected:
        raise PeerError(
            FaultReason.PEER_TYPE, f"dialled a {expected.label}, but the peer is a {hello.entity_type.label}"
        )

    def authenticate(at: float) -> None:
        link.exchange = link.endpoint.me.client_exchange(expected, link.endpoint.wall_time_s(at))
        link.state = LinkState.AUTH_CONNECTING
        _send_auth_request(link, _exchange(link).start(), at)

    link.endpoint.internal_delay(link, authenticate, now, learning=True)


def _send_auth_request(link: V2Link, opening: AuthOpening, now: float) -> None:
    modes = link.endpoint.me.connection_modes(link.peer_entity, connecting=True)
    link.send(AuthRequest(opening.method, list(modes), opening.payload), now)


def _on_bad_method(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, AuthBadMethod)
    modes = link.endpoint.me.connection_modes(link.peer_entity, connecting=True)
    if frame.allowed_modes and not set(frame.allowed_modes) & set(modes):
        names = ", ".join(_mode_label(mode) for mode in frame.allowed_modes)
        raise PeerError(FaultReason.AUTH_METHOD, f"the peer allows only connection mode {names}")
    _send_auth_request(link, _exchange(link).bad_method(frame.result, frame.allowed_methods), now)


def _mode_label(mode: int) -> str:
    return ConMode(mode).name.lower() if mode in list(ConMode) else str(mode)


def _on_reply_more(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, AuthReplyMore)
    link.send(AuthRequestMore(_exchange(link).more(frame.auth_payload)), now)


def _on_auth_done(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, AuthDone)
    modes = link.endpoint.me.connection_modes(link.peer_entity, connecting=True)
    if frame.con_mode not in modes:
        # Obeying the peer would let a man in the middle disable encryption.
        raise PeerError(FaultReason.AUTH_METHOD, f"the peer chose mode {_mode_label(frame.con_mode)}, not offered")
    con_mode = ConMode(frame.con_mode)
    result = _exchange(link).done(frame.global_id, con_mode, frame.auth_payload)
    link.state = LinkState.AUTH_CONNECTING_SIGN
    link.endpoint.log_keys(link, frame.auth_payload, result)
    start_signing(link, result, con_mode, now)


def _on_signature(link: V2Link, frame: ControlFrame, now: float) -> None:
    check_signature(link, frame)
    if not link.negotiates_compression:
        _open_session(link, now)
        return
    link.state = LinkState.COMPRESSION_CONNECTING
    link.compression_request = compression_request(*compression_wish(link))
    link.send(link.compression_request, now)


def _on_compression_done(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, CompressionDone)
    assert link.compression_request is not None
    link.start_compressing(agreed_algorithm(link.compression_request, frame))
    _open_session(link, now)


def _open_session(link: V2Link, now: float) -> None:
    if _session(link).server_cookie:
        _send_reconnect(link, now)
    else:
        _send_client_ident(link, now)


def _send_client_ident(link: V2Link, now: float) -> None:
    endpoint, session = link.endpoint, _session(link)
    if not session.lossy and not session.client_cookie:
        session.client_cookie = nonzero_u64(endpoint.rng)
    link.state = LinkState.SESSION_CONNECTING
    link.send(
        ClientIdent(
            addrs=endpoint.me.addrs,
            target_addr=link.dialled_addr,
            gid=endpoint.me.name.num,
            global_seq=session.global_seq,
            features_supported=endpoint.config.features_supported,
            features_required=session.policy.features_required | MSG_ADDR2,
            flags=FLAG_LOSSY if session.lossy else 0,
            client_cookie=session.client_cookie,
        ),
        now,
    )


def _send_reconnect(link: V2Link, now: float) -> None:
    session = _session(link)
    link.state = LinkState.SESSION_RECONNECTING
    link.send(
        SessionReconnect(
            addrs=link.endpoint.me.addrs,
            client_cookie=session.client_cookie,
            server_cookie=session.server_cookie,
            global_seq=session.global_seq,
            connect_seq=session.connect_seq,
            msg_seq=session.in_seq,
        ),
        now,
    )


def _on_server_ident(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, ServerIdent)
    endpoint, session = link.endpoint, _session(link)
    exact = endpoint.config.server_addresses == "exact"
    if link.dialled_addr not in ((frame.addrs.msgr2_addr(),) if exact else frame.addrs):
        raise PeerError(FaultReason.WRONG_TARGET, f"dialled {link.dialled_addr}, the peer is {frame.addrs}")
    missing = (session.policy.features_required | MSG_ADDR2) & ~frame.features_supported
    if missing:
        raise PeerError(FaultReason.MISSING_FEATURES, f"the peer lacks 0x{missing:x}")
    check_number(session, frame.gid, endpoint.config)
    endpoint.end_doubles(session, frame.addrs, frame.gid, now)
    endpoint.registry.rename_peer(session, frame.addrs, frame.gid)
    session.peer_auth_name = None  # belongs to an earlier session of the peer
    session.server_cookie = frame.server_cookie
    session.features = frame.features_supported & endpoint.config.features_supported
    session.peer_global_seq = frame.global_seq
    session.peer_seq_at = endpoint.numbers.next_moment()
    session.decide_lossy(by_server=bool(frame.flags & FLAG_LOSSY))
    session.forget_peer_state()
    endpoint.open_session(session, link, EventKind.CONNECT, now)


def _on_missing_features(_link: V2Link, frame: ControlFrame, _now: float) -> None:
    assert isinstance(frame, IdentMissingFeatures)
    raise PeerError(FaultReason.MISSING_FEATURES, f"the peer requires 0x{frame.features:x} too")


def _on_reconnect_ok(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, SessionReconnectOk)
    session = _session(link)
    if link.endpoint.config.in_seq_beyond_sent == "fault":
        session.check_peer_in_seq(frame.msg_seq)
    session.discard_requeued_up_to(frame.msg_seq)
    session.ack_due = 0  # SESSION_RECONNECT acknowledged up to in_seq
    link.endpoint.open_session(session, link, EventKind.CONNECT, now)


def _on_session_reset(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, SessionReset)
    session = _session(link)
    if frame.full:
        link.endpoint.reset_session(session, "the peer does not know the session", now)
        link.endpoint.after_events(link, lambda at: _send_client_ident(link, at))
        return
    if link.endpoint.config.partial_reset == "fault":
        raise PeerError(FaultReason.UNEXPECTED_FRAME, "SESSION_RESET that is not full")
    session.server_cookie = 0
    session.connect_seq = 0
    session.forget_peer_state()
    _send_client_ident(link, now)


def _on_retry(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, SessionRetry)
    session = _session(link)
    check_connect_seq(frame.connect_seq)
    if frame.connect_seq < session.connect_seq:
        raise PeerError(
            FaultReason.UNEXPECTED_FRAME, f"SESSION_RETRY {frame.connect_seq} is behind {session.connect_seq}"
        )
    session.connect_seq = frame.connect_seq + 1
    _retry(link, now)


def _on_retry_global(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, SessionRetryGlobal)
    if frame.global_seq > _GLOBAL_SEQ_LIMIT:
        raise PeerError(FaultReason.MALFORMED, f"SESSION_RETRY_GLOBAL {frame.global_seq} leaves no room above it")
    _session(link).global_seq = link.endpoint.numbers.next_global_seq(frame.global_seq)
    _retry(link, now)


def _retry(link: V2Link, now: float) -> None:
    link.retries += 1
    if link.retries > _MAX_RETRIES:
        raise PeerError(FaultReason.STALE, f"{link.retries} retries on one link")
    _send_reconnect(link, now)


def _on_wait(link: V2Link, _frame: ControlFrame, now: float) -> None:
    if link.endpoint.config.server_wait == "fault":
        raise PeerError(FaultReason.UNEXPECTED_FRAME, "WAIT from the dialled peer")
    link.endpoint.change_session(_session(link), Change.LOSE_RACE, "the peer's own dial wins", now)
    raise PeerError(FaultReason.RACE, "WAIT: the peer dials")


CONNECTOR: Table = {
    (LinkState.HELLO_CONNECTING, Tag.HELLO): Row(_on_hello, LinkState.AUTH_CONNECTING),
    (LinkState.AUTH_CONNECTING, Tag.AUTH_BAD_METHOD): Row(_on_bad_method, LinkState.AUTH_CONNECTING),
    (LinkState.AUTH_CONNECTING, Tag.AUTH_REPLY_MORE): Row(_on_reply_more, LinkState.AUTH_CONNECTING),
    (LinkState.AUTH_CONNECTING, Tag.AUTH_DONE): Row(_on_auth_done, LinkState.AUTH_CONNECTING_SIGN),
    (LinkState.AUTH_CONNECTING_SIGN, Tag.AUTH_SIGNATURE): Row(
        _on_signature,
        LinkState.COMPRESSION_CONNECTING,
        LinkState.SESSION_CONNECTING,
        LinkState.SESSION_RECONNECTING,
    ),
    (LinkState.COMPRESSION_CONNECTING, Tag.COMPRESSION_DONE): Row(
        _on_compression_done, LinkState.SESSION_CONNECTING, LinkState.SESSION_RECONNECTING
    ),
    (LinkState.SESSION_CONNECTING, Tag.SERVER_IDENT): Row(_on_server_ident, LinkState.READY),
    (LinkState.SESSION_CONNECTING, Tag.IDENT_MISSING_FEATURES): Row(_on_missing_features),
    (LinkState.SESSION_CONNECTING, Tag.WAIT): Row(_on_wait),
    (LinkState.SESSION_RECONNECTING, Tag.SESSION_RECONNECT_OK): Row(_on_reconnect_ok, LinkState.READY),
    (LinkState.SESSION_RECONNECTING, Tag.SESSION_RESET): Row(_on_session_reset, LinkState.SESSION_CONNECTING),
    (LinkState.SESSION_RECONNECTING, Tag.SESSION_RETRY): Row(_on_retry, LinkState.SESSION_RECONNECTING),
    (LinkState.SESSION_RECONNECTING, Tag.SESSION_RETRY_GLOBAL): Row(
        _on_retry_global, LinkState.SESSION_RECONNECTING
    ),
    (LinkState.SESSION_RECONNECTING, Tag.WAIT): Row(_on_wait),
}
"""The connector's handshake table: the handler for each frame in each state, and the states that may follow."""
