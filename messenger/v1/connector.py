"""The connector's handshake: from the banner to READY or SEQ (docs/protocol.md §3.2, §3.3, §3.5)."""

from errno import EACCES

from messenger.cephx.exchange import AuthMethod, ClientExchange, ConMode
from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason, PeerError
from messenger.link import Row
from messenger.session.events import EventKind
from messenger.session.session import Session
from messenger.session.states import Change
from messenger.v1.existing import protocol_version
from messenger.v1.handshake import my_legacy_addr, session_reset, signer_for
from messenger.v1.link import Handler, Table, V1Link
from messenger.v1.states import LinkState
from messenger.v1.wire import (
    CONNECT_SEQ_LIMIT,
    FLAG_LOSSY,
    U32_MAX,
    ClientIdentify,
    Connect,
    ConnectReply,
    Frame,
    Piece,
    Seq,
    ServerIdentify,
    Tag,
    as_legacy,
)

MOST_ROUNDS = 16
"""Most CONNECTs on one link; a peer that still does not accept is faulted."""


def _session(link: V1Link) -> Session:
    assert link.session is not None
    return link.session


def _exchange(link: V1Link, now: float) -> ClientExchange:
    """The authentication of this link, which all of its CONNECTs share."""
    if link.exchange is None:
        link.exchange = link.endpoint.me.connect_exchange(_session(link).peer_type, link.endpoint.wall_time_s(now))
    return link.exchange  # type: ignore[return-value]  # a connector's exchange is the client's half


# ---- opening


def _on_identify(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ServerIdentify)
    endpoint = link.endpoint
    _check_server_addr(as_legacy(link.dialled_addr), frame.server_addr)
    if endpoint.config.ms_learn_addr_from_peer:
        link.local_addr = frame.client_addr
    identify = ClientIdentify(my_legacy_addr(endpoint.me.addrs_on(link.local_addr)))

    def introduce(at: float) -> None:
        link.send(identify, at, then=lambda then: _send_connect(link, then))

    endpoint.internal_delay(link, introduce, now, learning=True)


def _check_server_addr(dialled: EntityAddr, server: EntityAddr) -> None:
    """Check that the acceptor has the dialled address; only its IP may be unknown to it (§3.2)."""
    knows_no_ip = server.is_blank_ip and (server.port, server.nonce) == (dialled.port, dialled.nonce)
    if server != dialled and not knows_no_ip:
        raise PeerError(FaultReason.WRONG_TARGET, f"dialled {dialled}, the peer is {server}")


# ---- CONNECT


def _send_connect(link: V1Link, now: float) -> None:
    """Send CONNECT with an authorizer if the peer requires one; after a challenge, with the same one again.

    Real peers keep a challenge until they replace a session, and accept only the authorizer that answers it.
    """
    exchange = _exchange(link, now)
    if link.authorizer is None:
        opening = exchange.start()
        link.auth_method, link.authorizer = opening.method, opening.payload
    else:
        exchange.repeated()
    _write_connect(link, link.authorizer, now)


def _write_connect(link: V1Link, authorizer: bytes, now: float) -> None:
    endpoint, session = link.endpoint, _session(link)
    link.rounds += 1
    if link.rounds > MOST_ROUNDS:
        raise PeerError(FaultReason.STALE, f"no end after {MOST_ROUNDS} CONNECTs")
    link.state = LinkState.CONNECTING_SEND_CONNECT_MSG
    connect = Connect(
        features=endpoint.config.features_supported,
        host_type=endpoint.me.name.type,
        global_seq=session.global_seq,
        connect_seq=session.connect_seq,
        protocol_version=protocol_version(endpoint.me.name.type, session.peer_type, connecting=True),
        authorizer_protocol=link.auth_method,
        flags=FLAG_LOSSY if session.lossy else 0,
        authorizer=authorizer,
    )
    link.send(connect, now)


# ---- replies, in the order of §3.5


def _verified(handler: Handler) -> Handler:
    """Wrap a handler so that the peer's authorizer reply, if there is one, is checked first (step 1)."""

    def verify(link: V1Link, frame: Frame, now: float) -> None:
        assert isinstance(frame, ConnectReply)
        if frame.authorizer:
            link.auth_result = _exchange(link, now).done(0, ConMode.CRC, frame.authorizer)
        handler(link, frame, now)

    return verify


def _on_challenge(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ConnectReply)
    link.authorizer = _exchange(link, now).more(frame.authorizer)
    _write_connect(link, link.authorizer, now)


def _on_features(link: V1Link, frame: Frame, _now: float) -> None:
    assert isinstance(frame, ConnectReply)
    missing = frame.features & ~link.endpoint.config.features_supported
    raise PeerError(FaultReason.MISSING_FEATURES, f"the peer requires 0x{missing:x} too")


def _on_bad_protocol(link: V1Link, frame: Frame, _now: float) -> None:
    assert isinstance(frame, ConnectReply)
    mine = protocol_version(link.endpoint.me.name.type, _session(link).peer_type, connecting=True)
    raise PeerError(FaultReason.PROTOCOL_VERSION, f"{mine}, the peer has {frame.protocol_version}")


def _on_bad_authorizer(link: V1Link, _frame: Frame, now: float) -> None:
    """Try the next method; the reply does not list the methods that the peer allows."""
    opening = _exchange(link, now).bad_method(-EACCES, [*AuthMethod])
    link.auth_method, link.authorizer = opening.method, opening.payload
    _write_connect(link, opening.payload, now)


def _on_resetsession(link: V1Link, _frame: Frame, now: float) -> None:
    session_reset(link.endpoint, _session(link), "the peer does not know the session", now)
    link.endpoint.after_events(link, lambda at: _send_connect(link, at))


def _on_retry_global(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ConnectReply)
    if frame.global_seq >= U32_MAX:
        raise PeerError(FaultReason.MALFORMED, f"RETRY_GLOBAL {frame.global_seq} leaves no room above it")
    _session(link).global_seq = link.endpoint.numbers.next_global_seq(frame.global_seq)
    _send_connect(link, now)


def _on_retry_session(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ConnectReply)
    session = _session(link)
    if not session.connect_seq < frame.connect_seq <= CONNECT_SEQ_LIMIT:
        raise PeerError(
            FaultReason.UNEXPECTED_FRAME, f"RETRY_SESSION {frame.connect_seq} against {session.connect_seq}"
        )
    session.connect_seq = frame.connect_seq
    _send_connect(link, now)


def _on_wait(link: V1Link, _frame: Frame, now: float) -> None:
    if link.endpoint.config.server_wait == "fault":
        raise PeerError(FaultReason.UNEXPECTED_FRAME, "WAIT from the dialled peer")
    link.endpoint.change_session(_session(link), Change.LOSE_RACE, "the peer's own dial wins", now)
    raise PeerError(FaultReason.RACE, "WAIT: the peer dials")


def _check_final(link: V1Link, reply: ConnectReply, now: float) -> None:
    """Check the last reply before the session opens; above all, that the peer has authenticated itself."""
    session = _session(link)
    if not reply.authorizer:
        link.auth_result = _exchange(link, now).done(0, ConMode.CRC, b"")
    if link.endpoint.config.ms_learn_addr_from_peer:
        link.endpoint.me.learned_addr(link.local_addr)
    missing = session.policy.features_required & ~reply.features
    if missing:
        raise PeerError(FaultReason.MISSING_FEATURES, f"the peer lacks 0x{missing:x}")
    if reply.connect_seq != session.connect_seq + 1:
        raise PeerError(
            FaultReason.UNEXPECTED_FRAME,
            f"{reply.tag.name} with connect_seq {reply.connect_seq} where {session.connect_seq + 1} is due",
        )


def _on_ready(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ConnectReply)
    _check_final(link, frame, now)
    _open(link, frame, now)


def _on_seq_reply(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, ConnectReply)
    _check_final(link, frame, now)
    link.reply = frame
    link.state = LinkState.CONNECTING_WAIT_ACK_SEQ


def _on_seq(link: V1Link, frame: Frame, now: float) -> None:
    assert isinstance(frame, Seq)
    session, reply = _session(link), link.reply
    assert reply is not None
    if link.endpoint.config.in_seq_beyond_sent == "fault":
        session.check_peer_in_seq(frame.seq)
    session.discard_requeued_up_to(frame.seq)
    session.ack_due = 0  # SEQ acknowledges up to in_seq
    link.send(Seq(session.in_seq), now, then=lambda at: _open(link, reply, at))


def _open(link: V1Link, reply: ConnectReply, now: float) -> None:
    endpoint, session = link.endpoint, _session(link)
    session.peer_global_seq = reply.global_seq
    session.decide_lossy(by_server=bool(reply.flags & FLAG_LOSSY))
    session.connect_seq += 1
    session.features = reply.features & endpoint.config.features_supported
    signer = signer_for(endpoint.config, link.auth_result, session.features)
    link.agree(session.features, signer, endpoint.config.max_frame_bytes)
    link.trace_auth(now)
    endpoint.log_keys(link, reply.authorizer, link.auth_result)
    endpoint.open_session(session, link, EventKind.CONNECT, now)


_AGAIN = LinkState.CONNECTING_SEND_CONNECT_MSG

_REPLIES: dict[Tag, Row[Handler, LinkState]] = {
    Tag.CHALLENGE_AUTHORIZER: Row(_on_challenge, _AGAIN),
    Tag.FEATURES: Row(_on_features),
    Tag.BADPROTOVER: Row(_on_bad_protocol),
    Tag.BADAUTHORIZER: Row(_on_bad_authorizer, _AGAIN),
    Tag.RESETSESSION: Row(_verified(_on_resetsession), _AGAIN),
    Tag.RETRY_GLOBAL: Row(_verified(_on_retry_global), _AGAIN),
    Tag.RETRY_SESSION: Row(_verified(_on_retry_session), _AGAIN),
    Tag.WAIT: Row(_verified(_on_wait)),
    Tag.SEQ: Row(_verified(_on_seq_reply), LinkState.CONNECTING_WAIT_ACK_SEQ),
    Tag.READY: Row(_verified(_on_ready), LinkState.OPENED),
}

CONNECTOR: Table = {
    (LinkState.CONNECTING_WAIT_BANNER_AND_IDENTIFY, Piece.IDENTIFY): Row(_on_identify, _AGAIN),
    **{(LinkState.CONNECTING_SEND_CONNECT_MSG, tag): row for tag, row in _REPLIES.items()},
    (LinkState.CONNECTING_WAIT_ACK_SEQ, Piece.SEQ): Row(_on_seq, LinkState.OPENED),
}
"""The connector's handshake table: handlers by state and piece (a reply: its tag), and the states that may
follow."""
