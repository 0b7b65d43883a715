"""The acceptor's handshake: from the banner to READY or SEQ (docs/protocol.md §3.2 to §3.4)."""

from typing import cast

from messenger.cephx.exchange import AuthDone, AuthMore, AuthStep, ServerExchange
from messenger.cephx.v1 import judge_connect as judge_authorizer
from messenger.denc.address import AddressType, AddrVec
from messenger.denc.entity import EntityName
from messenger.denc.features import Feature, has_feature
from messenger.errors import AuthError, DecodeError, Fault, FaultReason, PeerError
from messenger.link import Row
from messenger.session.events import EventKind
from messenger.session.identity import check_claim, check_host, check_not_own, check_port
from messenger.session.policy import Policy
from messenger.session.session import Session
from messenger.v1.existing import (
    Decision,
    Verdict,
    judge_connect,
    judge_terms,
    protocol_version,
    required_features,
)
from messenger.v1.handshake import my_legacy_addr, session_reset, signer_for
from messenger.v1.link import Table, V1Link
from messenger.v1.states import LinkState
from messenger.v1.wire import (
    CONNECT_SEQ_LIMIT,
    FLAG_LOSSY,
    ClientIdentify,
    Connect,
    ConnectReply,
    Frame,
    Piece,
    Seq,
    Tag,
    as_legacy,
)


def _on_identify(link: V1Link, frame: Frame, _now: float) -> None:
    """Store the peer's address, with the IP address of the socket if the peer does not know its own (§3.2)."""
    assert isinstance(frame, ClientIdentify)
    addr = frame.client_addr
    check_host(addr, link.remote_addr, link.endpoint.config)
    link.peer_addr = as_legacy(addr.with_ip_of(link.remote_addr) if addr.is_blank_ip else addr)
    check_not_own(AddrVec((link.peer_addr,)), link.endpoint.me, link.local_addr)
    link.state = LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH


# ---- CONNECT, step by step as listed in §3.4


def _on_connect(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, Connect)
    if frame.connect_seq > CONNECT_SEQ_LIMIT:
        raise PeerError(FaultReason.MALFORMED, f"connect_seq {frame.connect_seq} leaves no room above it")
    endpoint = link.endpoint
    link.peer_type = frame.host_type
    policy = endpoint.policies.towards(frame.host_type)
    check_port(link.peer_addr, policy, endpoint.config)
    version = protocol_version(endpoint.me.name.type, frame.host_type, connecting=False)
    refusal = judge_terms(frame, version, required_features(endpoint.config, policy, frame))
    if refusal is not None:
        lacking = refusal.verdict is Verdict.FEATURES
        reason = FaultReason.MISSING_FEATURES if lacking else FaultReason.PROTOCOL_VERSION
        endpoint.trace_decision(link, None, refusal, now)
        endpoint.refused_peer(link, PeerError(reason, refusal.why), now)
        _reply(link, frame, Tag[refusal.verdict.name], now)
        return
    try:
        step = _authenticate(link, frame, now)
        if isinstance(step, AuthDone):
            check_claim(frame.host_type, step.result.name)
    except AuthError as error:
        _refuse(link, frame, error, now)
        return
    except DecodeError as error:
        _refuse(link, frame, AuthError(FaultReason.AUTH_DENIED, f"authorizer: {error.detail}"), now)
        return
    if isinstance(step, AuthMore):
        _reply(link, frame, Tag.CHALLENGE_AUTHORIZER, now, authorizer=step.payload)
        return
    endpoint.internal_delay(link, lambda at: _decide(link, frame, policy, step, at), now)


def _decide(link: V1Link, frame: Connect, policy: Policy, step: AuthDone, now: float) -> None:
    endpoint = link.endpoint
    endpoint.yield_to(EntityName(frame.host_type), step.result.name, AddrVec((link.peer_addr,)), now)
    registers = policy.register_lossy_clients or not (policy.server and policy.lossy)
    existing = _find_existing(link, now) if registers else None
    decision = judge_connect(
        existing,
        frame,
        policy,
        peer_addr=link.peer_addr,
        my_addr=my_legacy_addr(endpoint.me.addrs),
        replacing=link.session is not None,
        rules=endpoint.config,
    )
    endpoint.trace_decision(link, existing, decision, now)
    _carry_out(link, frame, step, existing, decision, now)


def _reply(
    link: V1Link,
    connect: Connect,
    tag: Tag,
    now: float,
    *,
    global_seq: int = 0,
    connect_seq: int = 0,
    authorizer: bytes = b"",
) -> None:
    """Send a reply after which the connector sends another CONNECT on this link."""
    endpoint = link.endpoint
    required = required_features(endpoint.config, endpoint.policies.towards(connect.host_type), connect)
    reply = ConnectReply(
        tag,
        (connect.features & endpoint.config.features_supported) | required,
        global_seq,
        connect_seq,
        protocol_version(endpoint.me.name.type, connect.host_type, connecting=False),
        authorizer=authorizer,
    )
    link.send(reply, now)


# ---- authentication (step 4, §3.3)


def _authenticate(link: V1Link, connect: Connect, now: float) -> AuthStep:
    """Check the authorizer.

    Raises:
        AuthError, DecodeError: it is not valid.
    """
    endpoint = link.endpoint
    if link.exchange is None:
        link.exchange = endpoint.me.server_exchange(connect.host_type, endpoint.wall_time_s(now))
    return judge_authorizer(
        cast("ServerExchange", link.exchange),
        endpoint.me.name.type,
        connect.host_type,
        protocol=connect.authorizer_protocol,
        authorizer=connect.authorizer,
        features=connect.features,
        require_authorizer=endpoint.config.require_authorizer,
    )


def _refuse(link: V1Link, connect: Connect, error: AuthError, now: float) -> None:
    """Send BADAUTHORIZER: the peer may try again on this link. If busy, close the link silently."""
    if error.reason is FaultReason.AUTH_BUSY:
        raise error
    link.endpoint.refused_peer(link, error, now)
    _reply(link, connect, Tag.BADAUTHORIZER, now)


# ---- the existing session (steps 5 to 8)


def _find_existing(link: V1Link, now: float) -> Session | None:
    """The session registered for the peer, if it is not the link's own; end one that uses v2 (step 6)."""
    endpoint = link.endpoint
    addrs = AddrVec((link.peer_addr,))
    endpoint.end_other_protocol(addrs, link.PROTOCOL, now)
    existing = endpoint.registry.lookup(addrs) or endpoint.registry.lookup_place(link.peer_addr)
    return None if existing is link.session else existing


def _carry_out(
    link: V1Link, connect: Connect, step: AuthDone, existing: Session | None, decision: Decision, now: float
) -> None:
    verdict = decision.verdict
    if existing is None or verdict in {Verdict.OPEN, Verdict.STOP_EXISTING}:
        if verdict is Verdict.RESETSESSION:
            _reply(link, connect, Tag.RESETSESSION, now, authorizer=step.payload)
            return
        if existing is not None:
            link.endpoint.stop_session(existing, Fault(FaultReason.REPLACED, decision.why), now)
        _open(link, connect, step, now)
    elif verdict in {Verdict.REPLACE, Verdict.REPLACE_FRESH, Verdict.REPLACE_RESET}:
        _replace(link, connect, step, existing, decision, now)
    else:
        if verdict is Verdict.WAIT:
            # The connector waits for our dial: a queued keepalive makes sure that this side dials.
            existing.peer_waits = True
            link.endpoint.send_keepalive(existing, now)
        _reply(
            link,
            connect,
            Tag[verdict.name],
            now,
            global_seq=existing.peer_global_seq if verdict is Verdict.RETRY_GLOBAL else 0,
            connect_seq=existing.connect_seq + 1 if verdict is Verdict.RETRY_SESSION else 0,
            authorizer=step.payload,
        )


def _replace(
    link: V1Link, connect: Connect, step: AuthDone, session: Session, decision: Decision, now: float
) -> None:
    """Let the link take over the session; the peer's next CONNECT opens it."""
    endpoint = link.endpoint
    resets = decision.verdict is Verdict.REPLACE_RESET

    def taken_over(at: float) -> None:
        if resets:
            session_reset(endpoint, session, decision.why, at)
        session.is_reset_from_peer = decision.verdict is not Verdict.REPLACE
        link.exchange = None  # the next CONNECT starts with a new challenge
        endpoint.internal_delay(link, retry, at)

    def retry(at: float) -> None:
        _reply(link, connect, Tag.RETRY_GLOBAL, at, global_seq=session.peer_global_seq, authorizer=step.payload)

    endpoint.take_over(session, link, taken_over, now, resets=resets)


def _open(link: V1Link, connect: Connect, step: AuthDone, now: float) -> None:
    endpoint = link.endpoint
    session = link.session or _new_session(link, endpoint.policies.towards(connect.host_type))
    session.connect_seq = connect.connect_seq + 1
    session.peer_global_seq = connect.global_seq
    session.global_seq = endpoint.numbers.next_global_seq(session.global_seq)
    session.features = connect.features & endpoint.config.features_supported
    link.auth_result = step.result
    session.peer_auth_name = step.result.name
    link.trace_auth(now)
    endpoint.log_keys(link, step.payload, step.result)
    signer = signer_for(endpoint.config, step.result, session.features)
    known = bool(connect.authorizer)  # False for clients of a monitor: they authenticate by MAuth
    config = endpoint.config
    link.agree(session.features, signer, config.max_frame_bytes if known else config.max_preauth_frame_bytes)
    exchange_seqs = has_feature(connect.features, Feature.RECONNECT_SEQ) and not session.is_reset_from_peer
    if session.is_reset_from_peer:
        session.forget_peer_state()
        session.is_reset_from_peer = False
    reply = ConnectReply(
        Tag.SEQ if exchange_seqs else Tag.READY,
        config.features_supported,
        session.global_seq,
        session.connect_seq,
        protocol_version(endpoint.me.name.type, connect.host_type, connecting=False),
        FLAG_LOSSY if session.lossy else 0,
        step.payload,
    )

    def replied(at: float) -> None:
        endpoint.set_ready(session, link, EventKind.ACCEPT, at)
        if exchange_seqs:
            _exchange_seqs(link, session, at)
        else:
            endpoint.open_link(session, link, at)

    def announce(at: float) -> None:
        # If the application now marks the session down, the peer gets no answer, and so loses nothing.
        endpoint.session_event(session, EventKind.ACCEPT, None, at)
        endpoint.after_events(link, lambda then: link.send(reply, then, then=replied))

    endpoint.internal_delay(link, announce, now)


def _new_session(link: V1Link, policy: Policy) -> Session:
    endpoint = link.endpoint
    addrs = AddrVec((link.peer_addr.with_type(AddressType.LEGACY),))
    session = endpoint.new_session(link.peer_entity, addrs, addrs.front, policy, accepted=True)
    link.session = session
    session.link = link
    if policy.register_lossy_clients or not policy.lossy:
        endpoint.registry.register(session)
    return session


def _exchange_seqs(link: V1Link, session: Session, now: float) -> None:
    """Send our in_seq after the reply; the data phase starts when the peer's in_seq has arrived (§3.4)."""
    link.state = LinkState.ACCEPTING_HANDLED_CONNECT_MSG
    session.ack_due = 0  # SEQ acknowledges up to in_seq
    link.send(Seq(session.in_seq), now)


def _on_seq(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, Seq)
    session = link.session
    assert session is not None
    if link.endpoint.config.in_seq_beyond_sent == "fault":
        session.check_peer_in_seq(frame.seq)
    session.discard_requeued_up_to(frame.seq)
    link.endpoint.open_link(session, link, now)


ACCEPTOR: Table = {
    (LinkState.ACCEPTING, Piece.IDENTIFY): Row(_on_identify, LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH),
    (LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH, Piece.CONNECT): Row(
        _on_connect,
        LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH,
        LinkState.ACCEPTING_HANDLED_CONNECT_MSG,
        LinkState.OPENED,
    ),
    (LinkState.ACCEPTING_HANDLED_CONNECT_MSG, Piece.SEQ): Row(_on_seq, LinkState.OPENED),
}
"""The acceptor's handshake table: the handler for each piece in each state, and the states that may follow."""
