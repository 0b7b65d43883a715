"""Disputed rules of the handshake, every setting: WAIT, resets, reconnects, and what follows a lost race."""

from typing import Any

import pytest

from messenger.denc.address import AddrVec
from messenger.errors import FaultReason
from messenger.interception import Action
from messenger.link import Link, Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER, Policy
from messenger.session.session import Session, SessionState
from messenger.v1.wire import Connect, Seq, Tag
from messenger.v2.wire import (
    ClientIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    Wait,
)
from tests.support.network import Pair
from tests.support.node import B_ADDR, Node, new_node, numbered, prefer_cephx
from tests.support.raw_peer import RawPeer, meet
from tests.support.raw_v1 import RawV1Peer, new_v1_node
from tests.support.raw_v1 import meet as meet_v1

protocols = pytest.mark.parametrize("protocol", Protocol)


# ---- server_wait


def waiting_node(protocol: Protocol, rule: str) -> tuple[Node, Session]:
    if protocol is Protocol.V1:
        node = new_v1_node(policy=LOSSLESS_PEER, server_wait=rule)
        peer: Any = meet_v1("connector", node)
        peer.handshake(peer.connect)
        connect, step = peer.authenticated()
        peer.send(peer.reply_to(connect, Tag.WAIT, authorizer=step.payload))
    else:
        node = new_node(policy=LOSSLESS_PEER, server_wait=rule)
        peer = meet("connector", node)
        peer.handshake(peer.ident)
        peer.expect(ClientIdent)
        peer.send(Wait())
    assert peer.closed
    (session,) = node.endpoint.sessions
    return node, session


@protocols
def test_connector_waits_after_wait(protocol: Protocol) -> None:
    node, session = waiting_node(protocol, "obey")
    assert (session.state, node.faults) == (SessionState.WAIT, [FaultReason.RACE])
    assert node.endpoint.next_deadline() == 15.0


@protocols
def test_kernel_client_treats_wait_as_a_fault(protocol: Protocol) -> None:
    node, session = waiting_node(protocol, "fault")
    assert node.faults == [FaultReason.UNEXPECTED_FRAME]
    assert session.state is SessionState.STANDBY  # a peer with nothing to say, as after any fault
    node.send(session, 1)
    node.run(1.0)
    assert session.state is SessionState.CONNECTING


# ---- partial_reset


def after_partial_reset(rule: str) -> tuple[Node, Session, RawPeer]:
    """A session with something to replay, whose peer has never seen SERVER_IDENT of it."""
    node = new_node(policy=LOSSLESS_CLIENT, partial_reset=rule)
    first = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    first.pump()
    first.hang_up()
    second = RawPeer(node).accept()
    second.handshake(second.ident)
    second.expect(SessionReconnect)
    second.send(SessionReset(full=False))
    return node, session, second


def test_a_reset_that_is_not_full_keeps_the_queue() -> None:
    node, session, peer = after_partial_reset("obey")
    peer.expect(ClientIdent)
    peer.send(peer.server_ident())
    assert (session.state, node.kinds) == (SessionState.READY, [EventKind.CONNECT] * 2)
    assert peer.expect_seqs() == [1]


def test_a_client_of_the_kernel_takes_no_reset_that_is_not_full() -> None:
    node, session, peer = after_partial_reset("fault")
    assert (peer.closed, node.faults[1:]) == (True, [FaultReason.UNEXPECTED_FRAME])
    assert (session.state, len(session.queue)) == (SessionState.CONNECTING, 1)


# ---- server_addresses


@pytest.mark.parametrize(
    ("addrs", "contained", "exact"),
    [
        (B_ADDR, True, True),
        (f"{B_ADDR},v1:10.0.0.2:6803/2", True, True),
        (f"v1:10.0.0.2:6803/2,{B_ADDR}", True, True),
        (f"v2:10.0.0.2:7000/2,{B_ADDR}", True, False),
        ("v2:10.0.0.2:6802/3", False, False),
    ],
)
def test_addresses_of_the_dialled_peer(addrs: str, contained: bool, exact: bool) -> None:  # noqa: FBT001
    for rule, fits in (("contain", contained), ("exact", exact)):
        node = new_node(policy=LOSSLESS_CLIENT, server_addresses=rule)
        peer = meet("connector", node)
        peer.handshake(peer.ident)
        peer.expect(ClientIdent)
        peer.send(peer.server_ident(addrs=AddrVec.parse(addrs)))
        assert node.faults == ([] if fits else [FaultReason.WRONG_TARGET])


# ---- in_seq_beyond_sent (SQ-08)


def reconnected(protocol: Protocol, role: str, rule: str, claimed: int) -> tuple[Node, Session, Any]:
    """Two messages were sent; the session's next link comes with a peer that claims to have ``claimed``."""
    policy = LOSSLESS_CLIENT if role == "connector" else STATEFUL_SERVER
    options = {"policy": policy, "in_seq_beyond_sent": rule}
    v1 = protocol is Protocol.V1
    node = new_v1_node(**options) if v1 else new_node(**options)
    peer: Any = (meet_v1 if v1 else meet)(role, node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 1, 2)
    peer.pump()
    peer.hang_up()
    node.send(session, 3)
    again: Any = RawV1Peer(node) if v1 else RawPeer(node)
    again = again.accept() if role == "connector" else again.dial()
    again.handshake(again.connect if v1 else again.ident)
    if v1:
        _claim_v1(again, claimed)
    elif role == "connector":
        again.expect(SessionReconnect)
        again.send(SessionReconnectOk(claimed))
    else:
        again.send(SessionReconnect(again.addrs, session.client_cookie, session.server_cookie, 9, 1, claimed))
    return node, session, again


def _claim_v1(peer: RawV1Peer, claimed: int) -> None:
    if not peer.connecting:
        peer.answer()
        peer.send(Seq(claimed))
        if not peer.closed:
            peer.expect(Seq)
        return
    reply = peer.converse(global_seq=9, connect_seq=2)
    assert reply.tag is Tag.RETRY_GLOBAL
    assert peer.converse(global_seq=10, connect_seq=2).tag is Tag.SEQ
    peer.expect(Seq)
    peer.send(Seq(claimed))


@protocols
@pytest.mark.parametrize("role", ["connector", "acceptor"])
@pytest.mark.parametrize("claimed", [3, 1000, 2**64 - 1])
def test_claim_of_more_than_was_sent_is_adopted(protocol: Protocol, role: str, claimed: int) -> None:
    """What it has is not sent again, and the counters stay sane."""
    node, session, peer = reconnected(protocol, role, "adopt", claimed)
    assert (session.state, node.faults[1:]) == (SessionState.READY, [])
    believed = min(claimed, 2**63)
    messages = [frame for frame in peer.rest() if hasattr(frame, "seq") and hasattr(frame, "data")]
    assert [(frame.seq, frame.data) for frame in messages] == [(believed + 1, numbered(3).data)]
    assert (session.acked_seq, session.out_seq) == (believed, believed + 1)


@protocols
@pytest.mark.parametrize("role", ["connector", "acceptor"])
@pytest.mark.parametrize("claimed", [3, 1000, 2**64 - 1])
def test_claim_of_more_than_was_sent_is_refused(protocol: Protocol, role: str, claimed: int) -> None:
    """Nothing is dropped for it."""
    node, session, peer = reconnected(protocol, role, "fault", claimed)
    assert (peer.closed, node.faults[1:]) == (True, [FaultReason.UNSENT_SEQ])
    assert f"in_seq {claimed}, 2 was the last one sent" in node.fault_texts[1]
    assert (len(session.queue), session.out_seq) == (3, 0)


@protocols
@pytest.mark.parametrize("role", ["connector", "acceptor"])
@pytest.mark.parametrize("claimed", [0, 1, 2])
def test_claim_of_messages_that_were_sent_is_accepted(protocol: Protocol, role: str, claimed: int) -> None:
    node, session, _ = reconnected(protocol, role, "fault", claimed)
    assert (session.state, node.faults[1:]) == (SessionState.READY, [])
    assert (session.out_seq, len(session.queue.sent)) == (3, 3 - claimed)


# ---- the winner of a race dies after the loser got WAIT (LP-17)


class Cut:
    """Breaks the winner's own dial at its n-th point, counted from some moment on."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = -1000

    def intercept(self, link: Link, _point: object, _passes: int) -> Action:
        self.passed += link.connector
        return Action.FAULT if link.connector and self.passed == self.at else Action.CONTINUE


def lose_and_cut(protocol: Protocol, policy: Policy, at: int) -> bool:
    """``b`` loses a race and waits, ``a`` breaks its dial at a point; False if there are not as many points."""
    cut = Cut(at)
    pair = Pair(policy, protocol=protocol, interceptor=cut)
    pair.opened = lambda wire: setattr(wire.to_acceptor, "limit", 0 if wire.connector is pair.a else None)
    pair.connect()
    pair.drive()  # nothing of the winner's dial has arrived yet
    theirs = pair.b.connect(pair.a_addr)
    pair.b.send(theirs, 11)
    pair.drive()
    assert theirs.state is SessionState.WAIT
    cut.passed = 0
    pair.opened = lambda _wire: None
    pair.wires[0].to_acceptor.limit = None
    assert pair.run_until(lambda: pair.a.tids == [11], 16.0), at
    assert not {EventKind.RESET, EventKind.REMOTE_RESET} & {*pair.a.kinds, *pair.b.kinds}
    return cut.passed >= at


@protocols
@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_message_of_the_loser_arrives_after_a_cut_at_any_point(protocol: Protocol, policy: Policy) -> None:
    """The winner itself has nothing to say: its keepalive keeps it dialling."""
    points = next(at for at in range(1, 100) if not lose_and_cut(protocol, policy, at))
    assert points > 8


# ---- a connector of v1 with several methods


def test_the_next_method_follows_badauthorizer() -> None:
    pair = Pair(LOSSLESS_PEER, auth="none", protocol=Protocol.V1)
    prefer_cephx(pair.a)
    mine, _ = pair.established()
    assert (mine.state, pair.a.faults) == (SessionState.READY, [])
    assert [frame for frame in pair.b.frames("tx") if frame == "CONNECT_REPLY"] == ["CONNECT_REPLY"] * 2
    assert pair.b.faults == [FaultReason.AUTH_DENIED] or len(pair.b.faults) == 1
    pair.a.send(mine, 1)
    pair.drive()
    assert pair.b.tids == [1]


def test_the_first_method_is_kept_where_it_is_good() -> None:
    pair = Pair(LOSSLESS_PEER, auth="cephx", protocol=Protocol.V1)
    prefer_cephx(pair.a)
    mine, _ = pair.established()
    assert (mine.state, pair.b.faults) == (SessionState.READY, [])


def test_after_the_last_method_the_dial_fails_and_begins_again_with_the_first() -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    prefer_cephx(node)
    for _ in range(2):
        peer = RawV1Peer(node)
        peer = meet_v1("connector", node) if not node.endpoint.sessions else peer.accept()
        peer.handshake(peer.connect)
        methods = []
        while not peer.closed:
            connect = peer.expect(Connect)
            methods.append(connect.authorizer_protocol)
            peer.send(peer.reply_to(connect, Tag.BADAUTHORIZER))
        assert methods == [2, 1]
        node.run(0.3)
    assert set(node.faults) == {FaultReason.AUTH_DENIED}
    assert EventKind.REFUSED in node.kinds


def test_a_peer_cannot_make_a_connector_go_round() -> None:
    """With one method, BADAUTHORIZER still is the end of the dial."""
    node = new_v1_node(policy=LOSSLESS_CLIENT, auth="cephx")
    peer = meet_v1("connector", node, auth="cephx")
    peer.handshake(peer.connect)
    connect = peer.expect(Connect)
    peer.send(peer.reply_to(connect, Tag.BADAUTHORIZER))
    assert (peer.closed, node.faults) == (True, [FaultReason.AUTH_DENIED])
