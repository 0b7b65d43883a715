"""The acceptor's handshake: from HELLO to SERVER_IDENT or SESSION_RECONNECT_OK (docs/protocol.md §4.7, §4.9)."""

from errno import EOPNOTSUPP
from typing import cast

from messenger.cephx.exchange import AuthDone as AuthFinished
from messenger.cephx.exchange import AuthMethod, AuthMore, AuthStep, ConMode, ServerExchange
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import NEW_ENTITY_NUM, AuthName, EntityName
from messenger.denc.features import MSG_ADDR2
from messenger.errors import AuthError, Fault, FaultReason, PeerError
from messenger.link import Row, Step
from messenger.randomness import nonzero_u64
from messenger.session.events import EventKind
from messenger.session.existing import Decision, Verdict, judge_client_ident, judge_reconnect
from messenger.session.identity import check_claim, check_hello_addr, check_not_own, check_port, check_v2_addr
from messenger.session.policy import Policy
from messenger.session.session import Session
from messenger.v2.compression import answer_request
from messenger.v2.compressor import Algorithm
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
    CompressionRequest,
    ControlFrame,
    IdentMissingFeatures,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
    Wait,
)


def _on_hello(link: V2Link, frame: ControlFrame, now: float) -> None:
    hello = take_hello(link, frame)
    check_hello_addr(hello.peer_addr, link.endpoint.me.addrs, link.endpoint.config)
    link.exchange = link.endpoint.me.server_exchange(hello.entity_type, link.endpoint.wall_time_s(now))
    link.state = LinkState.AUTH_ACCEPTING


# ---- authentication


def _exchange(link: V2Link) -> ServerExchange:
    return cast("ServerExchange", link.exchange)


def _allowed_modes(link: V2Link, method: int) -> tuple[ConMode, ...]:
    """The modes allowed for a method: with ``none`` only crc, because there are no keys (§4.7)."""
    modes = link.endpoint.me.connection_modes(link.peer_entity, connecting=False)
    return tuple(m for m in modes if m is ConMode.CRC) if method == AuthMethod.NONE else modes


def _refuse(link: V2Link, error: AuthError, now: float) -> None:
    """Send AUTH_BAD_METHOD: the peer may try again on this link. If busy, close the link silently (§4.7)."""
    if error.reason is FaultReason.AUTH_BUSY:
        raise error
    link.endpoint.refused_peer(link, error, now)
    link.state = LinkState.AUTH_ACCEPTING
    link.exchange = link.endpoint.me.server_exchange(link.peer_entity, link.endpoint.wall_time_s(now))
    methods, modes = _exchange(link).allowed_methods, _allowed_modes(link, link.auth_method)
    link.send(AuthBadMethod(link.auth_method, -error.errno, [*methods], [*modes]), now)


def _on_auth_request(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, AuthRequest)
    exchange = _exchange(link)
    link.auth_method = frame.method
    try:
        if frame.method not in exchange.allowed_methods:
            raise AuthError(FaultReason.AUTH_METHOD, f"method {frame.method} is not allowed", EOPNOTSUPP)
        allowed = _allowed_modes(link, frame.method)
        con_mode = next((ConMode(mode) for mode in frame.preferred_modes if mode in allowed), None)
        if con_mode is None:
            raise AuthError(FaultReason.AUTH_METHOD, f"modes {frame.preferred_modes} are not allowed", EOPNOTSUPP)
        link.con_mode = con_mode
        _after_step(link, exchange.start(AuthMethod(frame.method), con_mode, frame.auth_payload), now)
    except AuthError as error:
        _refuse(link, error, now)


def _on_auth_request_more(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, AuthRequestMore)
    try:
        _after_step(link, _exchange(link).more(frame.auth_payload), now)
    except AuthError as error:
        _refuse(link, error, now)


def _after_step(link: V2Link, step: AuthStep, now: float) -> None:
    if isinstance(step, AuthMore):
        link.state = LinkState.AUTH_ACCEPTING_MORE
        link.send(AuthReplyMore(step.payload), now)
        return
    check_claim(link.peer_entity, step.result.name)
    link.state = LinkState.AUTH_ACCEPTING_SIGN
    link.send(
        AuthDone(step.result.global_id, link.con_mode, step.payload),
        now,
        then=lambda at: _sign(link, step, at),
    )


def _sign(link: V2Link, done: AuthFinished, now: float) -> None:
    link.signed_at = link.endpoint.numbers.next_moment()
    link.endpoint.log_keys(link, done.payload, done.result)
    start_signing(link, done.result, link.con_mode, now)


def _on_signature(link: V2Link, frame: ControlFrame, _now: float) -> None:
    check_signature(link, frame)
    link.state = LinkState.COMPRESSION_ACCEPTING if link.negotiates_compression else LinkState.SESSION_ACCEPTING


def _on_compression_request(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, CompressionRequest)
    done = answer_request(*compression_wish(link), frame)
    link.state = LinkState.SESSION_ACCEPTING
    # The answer itself is not compressed.
    link.send(done, now, then=lambda _at: link.start_compressing(Algorithm(done.method)))


# ---- session


def _on_client_ident(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, ClientIdent)
    endpoint = link.endpoint
    _check_addrs(link, frame.addrs)
    if not endpoint.me.is_own(frame.target_addr, link.local_addr):
        mine = endpoint.me.addrs_on(link.local_addr)
        raise PeerError(FaultReason.WRONG_TARGET, f"the peer looks for {frame.target_addr}, this is {mine}")
    policy = endpoint.policies.towards(link.peer_entity)
    check_port(frame.addrs.front, policy, endpoint.config)
    missing = (policy.features_required | MSG_ADDR2) & ~frame.features_supported
    if missing:
        endpoint.refused_peer(link, PeerError(FaultReason.MISSING_FEATURES, f"the peer lacks 0x{missing:x}"), now)
        link.send(IdentMissingFeatures(missing), now)
        return
    endpoint.internal_delay(link, lambda at: _decide_ident(link, frame, policy, at), now)


def _decide_ident(link: V2Link, frame: ClientIdent, policy: Policy, now: float) -> None:
    endpoint = link.endpoint
    _check_identity(link, frame.addrs, now, frame.gid)
    endpoint.end_other_protocol(frame.addrs, link.PROTOCOL, now)
    if policy.server and policy.lossy and not policy.register_lossy_clients:
        decision = Decision(Verdict.OPEN, "lossy clients are not registered")
        existing = None
    else:
        existing = endpoint.registry.find(frame.addrs)
        rules = endpoint.config
        sent_later = existing is not None and link.signed_at > existing.peer_seq_at
        my_addr = endpoint.me.addrs.msgr2_addr()
        decision = judge_client_ident(existing, frame, my_addr, rules, sent_later=sent_later)
    endpoint.trace_decision(link, existing, decision, now)
    _carry_out_ident(link, frame, existing, decision, now)


def _check_addrs(link: V2Link, addrs: AddrVec) -> None:
    if not addrs or addrs.front.is_blank:
        raise PeerError(FaultReason.MALFORMED, f"the peer gives no address of its own: {addrs}")
    check_not_own(addrs, link.endpoint.me, link.local_addr)
    check_v2_addr(addrs.front, link.remote_addr, link.peer_front, link.endpoint.config)
    link.peer_front = addrs.front


def _check_identity(link: V2Link, addrs: AddrVec, now: float, num: int = NEW_ENTITY_NUM) -> None:
    """Check that the sessions under the peer's addresses belong to this peer, or end them."""
    link.endpoint.yield_to(EntityName(link.peer_entity, num), _auth_name(link), addrs, now)


def _auth_name(link: V2Link) -> AuthName | None:
    """The entity as which the peer authenticated; None without authentication."""
    return None if link.auth_result is None else link.auth_result.name


def _carry_out_ident(
    link: V2Link, ident: ClientIdent, existing: Session | None, decision: Decision, now: float
) -> None:
    verdict = decision.verdict
    endpoint = link.endpoint
    if verdict is Verdict.CLOSE_INCOMING:
        raise PeerError(FaultReason.STALE, decision.why)
    if existing is None or verdict in {Verdict.OPEN, Verdict.STOP_EXISTING}:
        if existing is not None:
            endpoint.stop_session(existing, Fault(FaultReason.REPLACED, decision.why), now)
        policy = endpoint.policies.towards(link.peer_entity)
        session = endpoint.new_session(
            link.peer_entity, ident.addrs, _dial_target(ident.addrs), policy, accepted=True
        )
    elif verdict is Verdict.WAIT:
        _send_wait(link, existing, now)
        return
    else:
        session = existing
        resets = verdict is Verdict.REUSE_RESET

        def taken_over(at: float) -> None:
            if resets:
                endpoint.reset_session(session, decision.why, at)
            _answer_ident(link, session, ident, at)

        endpoint.take_over(session, link, taken_over, now, resets=resets)
        return
    _answer_ident(link, session, ident, now)


def _answer_ident(link: V2Link, session: Session, ident: ClientIdent, now: float) -> None:
    session.client_cookie = ident.client_cookie
    link.endpoint.registry.rename_peer(session, ident.addrs, ident.gid)
    session.peer_auth_name = _auth_name(link)
    session.features = ident.features_supported & link.endpoint.config.features_supported
    session.peer_global_seq = ident.global_seq
    session.peer_seq_at = link.endpoint.numbers.next_moment()
    _send_server_ident(link, session, now)


def _dial_target(addrs: AddrVec) -> EntityAddr:
    return next((addr for addr in addrs if addr.type is not AddressType.LEGACY), addrs.front)


def _send_wait(link: V2Link, existing: Session, now: float) -> None:
    """Send WAIT to the loser of the race, and queue a keepalive so that our dial continues (§4.9)."""
    existing.peer_waits = True
    link.send(Wait(), now, then=lambda at: link.endpoint.send_keepalive(existing, at))


def _send_server_ident(link: V2Link, session: Session, now: float) -> None:
    endpoint = link.endpoint
    session.forget_peer_state()
    session.server_cookie = 0 if session.lossy else nonzero_u64(endpoint.rng)
    session.global_seq = endpoint.numbers.next_global_seq(session.global_seq)
    link.session = session
    session.link = link
    if session.policy.register_lossy_clients or not session.lossy:
        endpoint.registry.register(session)
    ident = ServerIdent(
        addrs=endpoint.me.addrs_on(link.local_addr),
        gid=endpoint.me.name.num,
        global_seq=session.global_seq,
        features_supported=endpoint.config.features_supported,
        features_required=session.policy.features_required | MSG_ADDR2,
        flags=FLAG_LOSSY if session.lossy else 0,
        server_cookie=session.server_cookie,
    )

    def opened(at: float) -> None:
        endpoint.open_announced(session, link, at)

    endpoint.internal_delay(link, lambda at: _announce_and_send(link, session, ident, opened, at), now)


def _announce_and_send(link: V2Link, session: Session, answer: ControlFrame, then: Step, now: float) -> None:
    """Raise the accept event, then send the answer: the application knows each (re)opening first (§4.9).

    If it then marks the session down, the peer gets no answer, and so loses nothing.
    """
    endpoint = link.endpoint
    endpoint.session_event(session, EventKind.ACCEPT, None, now)
    endpoint.after_events(link, lambda at: link.send(answer, at, then=then))


def _on_reconnect(link: V2Link, frame: ControlFrame, now: float) -> None:
    assert isinstance(frame, SessionReconnect)
    endpoint = link.endpoint
    check_connect_seq(frame.connect_seq)
    _check_addrs(link, frame.addrs)
    endpoint.internal_delay(link, lambda at: _decide_reconnect(link, frame, at), now)


def _decide_reconnect(link: V2Link, frame: SessionReconnect, now: float) -> None:
    endpoint = link.endpoint
    _check_identity(link, frame.addrs, now)
    endpoint.end_other_protocol(frame.addrs, link.PROTOCOL, now)
    existing = endpoint.registry.find(frame.addrs)
    rules = endpoint.config
    resetcheck = endpoint.policies.towards(link.peer_entity).resetcheck
    decision = judge_reconnect(existing, frame, endpoint.me.addrs.msgr2_addr(), rules, resetcheck=resetcheck)
    endpoint.trace_decision(link, existing, decision, now)
    if existing is None or decision.verdict is Verdict.RESET:
        link.send(SessionReset(decision.full), now)
    elif decision.verdict is Verdict.RETRY:
        link.send(SessionRetry(existing.connect_seq), now)
    elif decision.verdict is Verdict.RETRY_GLOBAL:
        link.send(SessionRetryGlobal(existing.peer_global_seq), now)
    elif decision.verdict is Verdict.WAIT:
        _send_wait(link, existing, now)
    else:
        _resume(link, existing, frame, now)


def _resume(link: V2Link, session: Session, frame: SessionReconnect, now: float) -> None:
    endpoint = link.endpoint

    def resumed(at: float) -> None:
        session.ack_due = 0  # the frame just sent acknowledges up to in_seq
        endpoint.open_announced(session, link, at)

    def taken_over(at: float) -> None:
        if endpoint.config.in_seq_beyond_sent == "fault":
            session.check_peer_in_seq(frame.msg_seq)
        session.connect_seq = frame.connect_seq
        session.peer_global_seq = frame.global_seq
        session.peer_seq_at = endpoint.numbers.next_moment()
        session.peer_auth_name = _auth_name(link)
        session.discard_requeued_up_to(frame.msg_seq)
        ok = SessionReconnectOk(session.in_seq)
        endpoint.internal_delay(link, lambda then: _announce_and_send(link, session, ok, resumed, then), at)

    endpoint.take_over(session, link, taken_over, now)


ACCEPTOR: Table = {
    (LinkState.HELLO_ACCEPTING, Tag.HELLO): Row(_on_hello, LinkState.AUTH_ACCEPTING),
    (LinkState.AUTH_ACCEPTING, Tag.AUTH_REQUEST): Row(
        _on_auth_request, LinkState.AUTH_ACCEPTING, LinkState.AUTH_ACCEPTING_MORE, LinkState.AUTH_ACCEPTING_SIGN
    ),
    (LinkState.AUTH_ACCEPTING_MORE, Tag.AUTH_REQUEST_MORE): Row(
        _on_auth_request_more,
        LinkState.AUTH_ACCEPTING,
        LinkState.AUTH_ACCEPTING_MORE,
        LinkState.AUTH_ACCEPTING_SIGN,
    ),
    (LinkState.AUTH_ACCEPTING_SIGN, Tag.AUTH_SIGNATURE): Row(
        _on_signature, LinkState.COMPRESSION_ACCEPTING, LinkState.SESSION_ACCEPTING
    ),
    (LinkState.COMPRESSION_ACCEPTING, Tag.COMPRESSION_REQUEST): Row(
        _on_compression_request, LinkState.SESSION_ACCEPTING
    ),
    (LinkState.SESSION_ACCEPTING, Tag.CLIENT_IDENT): Row(
        _on_client_ident, LinkState.SESSION_ACCEPTING, LinkState.READY
    ),
    (LinkState.SESSION_ACCEPTING, Tag.SESSION_RECONNECT): Row(
        _on_reconnect, LinkState.SESSION_ACCEPTING, LinkState.READY
    ),
}
"""The acceptor's handshake table: the handler for each frame in each state, and the states that may follow."""
