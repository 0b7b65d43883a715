"""Sessions of v1 against scripted peers: replies, replacement, resets, faults.

See docs/protocol.md §3.4 to §3.6, §3.9.
"""

from dataclasses import replace
from random import Random

import pytest

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    STATEFUL_SERVER,
    STATELESS_REGISTERED_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v1.connector import MOST_ROUNDS
from messenger.v1.wire import Ack, Connect, ConnectReply, Seq, Tag
from tests.support.node import Node
from tests.support.raw_v1 import B_V1_ADDR, RawV1Peer, meet, new_v1_node

by_auth = pytest.mark.parametrize("auth", ["none", "cephx"])
by_lossless = pytest.mark.parametrize(
    "policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER], ids=lambda policy: policy.name
)


def dial(node: Node, auth: str = "none", **options: object) -> RawV1Peer:
    """A peer that has dialled a node and announced its identity."""
    peer = RawV1Peer(node, auth=auth, **options).dial()  # type: ignore[arg-type]
    peer.banner()
    peer.identify()
    return peer


def dialled(node: Node, auth: str = "none", addr: str = B_V1_ADDR) -> tuple[RawV1Peer, Connect]:
    """A peer that a node has dialled, and the node's CONNECT, its authorizer judged."""
    peer = RawV1Peer(node, auth=auth, addr=addr).accept()
    peer.banner()
    peer.identify()
    connect, _ = peer.authenticated()
    return peer, connect


def replaced(peer: RawV1Peer, connect_seq: int, global_seq: int = 2) -> ConnectReply:
    """Take over a session: CONNECT, RETRY_GLOBAL, CONNECT with a higher global_seq; the last reply."""
    first = peer.converse(connect_seq=connect_seq, global_seq=global_seq)
    assert first.tag is Tag.RETRY_GLOBAL
    return peer.converse(connect_seq=connect_seq, global_seq=max(first.global_seq, global_seq) + 1)


# ---- the acceptor's last reply (§3.4, open)


@by_auth
def test_a_new_session_opens_with_seq(auth: str) -> None:
    node = new_v1_node(auth=auth)
    peer = dial(node, auth)
    reply = peer.converse()
    assert (reply.tag, reply.connect_seq, reply.flags) == (Tag.SEQ, 1, 0)
    (session,) = node.endpoint.sessions
    assert (reply.global_seq, session.peer_global_seq) == (session.global_seq, 1)
    assert peer.expect(Seq) == Seq(0)
    assert node.endpoint.registry.lookup(session.peer_addrs) is session


@pytest.mark.parametrize("policy", [STATELESS_SERVER, STATELESS_REGISTERED_SERVER], ids=lambda policy: policy.name)
def test_lossy_server_sets_the_flag(policy: Policy) -> None:
    node = new_v1_node(policy=policy)
    peer = dial(node)
    reply = peer.converse()
    assert reply.flags == 1
    (session,) = node.endpoint.sessions
    assert (node.endpoint.registry.lookup(session.peer_addrs) is session) == policy.register_lossy_clients


def test_a_connector_without_reconnect_seq_gets_ready() -> None:
    node = new_v1_node()
    peer = dial(node, features=CLIENT_FEATURES & ~Feature.RECONNECT_SEQ)
    assert peer.converse().tag is Tag.READY
    assert peer.inbound == b""
    peer.send_messages(1)
    assert node.tids == [1]


@by_auth
def test_a_connector_takes_ready(auth: str) -> None:
    node = new_v1_node(auth=auth)
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node, auth=auth).accept()
    peer.banner()
    peer.identify()
    connect, step = peer.authenticated()
    peer.agree(CLIENT_FEATURES)
    peer.send(peer.reply_to(connect, Tag.READY, authorizer=step.payload, global_seq=9, flags=1))
    (session,) = node.endpoint.sessions
    assert (session.state, session.lossy, session.connect_seq) == (SessionState.READY, True, 1)
    assert session.peer_global_seq == 9
    peer.send_messages(1)
    assert node.tids == [1]


@pytest.mark.parametrize("connect_seq", [0, 2, 2**32 - 1])
@pytest.mark.parametrize("tag", [Tag.SEQ, Tag.READY])
def test_the_last_reply_must_count_one_further(tag: Tag, connect_seq: int) -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    node.connect(B_V1_ADDR)
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, tag, connect_seq=connect_seq))
    assert node.faults == [FaultReason.UNEXPECTED_FRAME]


# ---- replies that make the connector try again (§3.5)


@by_auth
def test_retry_global_is_answered_by_a_higher_global_seq(auth: str) -> None:
    node = new_v1_node(auth=auth)
    session = node.connect(B_V1_ADDR)
    peer, connect = dialled(node, auth)
    peer.send(peer.reply_to(connect, Tag.RETRY_GLOBAL, global_seq=77))
    again = peer.answer()
    assert (again.global_seq, again.connect_seq) == (78, 0)
    peer.seq()
    assert session.state is SessionState.READY
    assert node.endpoint.numbers.next_global_seq() == 79


@by_auth
def test_retry_session_is_adopted(auth: str) -> None:
    node = new_v1_node(auth=auth)
    session = node.connect(B_V1_ADDR)
    peer, connect = dialled(node, auth)
    peer.send(peer.reply_to(connect, Tag.RETRY_SESSION, connect_seq=5))
    assert peer.answer().connect_seq == 5
    peer.seq()
    assert (session.state, session.connect_seq) == (SessionState.READY, 6)


@pytest.mark.parametrize(
    ("tag", "fields"),
    [
        (Tag.RETRY_SESSION, {"connect_seq": 0}),
        (Tag.RETRY_SESSION, {"connect_seq": 2**31 + 1}),
        (Tag.RETRY_GLOBAL, {"global_seq": 2**32 - 1}),
    ],
)
def test_retry_with_an_unusable_seq_is_a_fault(tag: Tag, fields: dict[str, int]) -> None:
    """A real client aborts over the first of these."""
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    node.connect(B_V1_ADDR)
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, tag, **fields))
    assert node.faults[0] in (FaultReason.UNEXPECTED_FRAME, FaultReason.MALFORMED)
    assert node.endpoint.numbers.next_global_seq() < 10


@pytest.mark.parametrize("connect_seq", [2**31 + 1, 2**32 - 2, 2**32 - 1])
def test_a_connect_seq_that_leaves_no_room_above_it_is_a_fault(connect_seq: int) -> None:
    """Room for all faults that a session may have: one that wraps around to 0 means a lost session to the peer."""
    node = new_v1_node()
    peer = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    other = dial(node)
    other.send(other.connect_message(connect_seq=connect_seq, global_seq=9))
    assert (other.closed, node.faults) == (True, [FaultReason.MALFORMED])
    assert (session.state, session.connect_seq, peer.closed) == (SessionState.READY, 1, False)


@pytest.mark.parametrize("tag", [Tag.RETRY_GLOBAL, Tag.RESETSESSION])
def test_an_acceptor_that_is_never_satisfied_is_left(tag: Tag) -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    node.connect(B_V1_ADDR)
    peer, connect = dialled(node)
    for rounds in range(1, MOST_ROUNDS):
        peer.send(peer.reply_to(connect, tag, global_seq=rounds))
        connect = peer.expect(Connect)
    peer.send(peer.reply_to(connect, tag))
    assert node.faults == [FaultReason.STALE]
    assert node.endpoint.sessions[0].state is SessionState.CONNECTING


@by_auth
def test_resetsession_drops_the_queue_of_the_lost_session(auth: str) -> None:
    node = new_v1_node(auth=auth, policy=LOSSLESS_CLIENT)
    meet("connector", node, auth=auth).handshake().hang_up()
    (session,) = node.endpoint.sessions
    node.send(session, 1, 2)
    peer, connect = dialled(node, auth)
    assert connect.connect_seq == 2
    peer.send(peer.reply_to(connect, Tag.RESETSESSION))
    assert node.kinds == [EventKind.CONNECT, EventKind.REMOTE_RESET]
    assert (len(session.queue), session.in_seq) == (0, 0)
    assert 0 <= session.out_seq <= 0x7FFFFFFF
    assert session.out_seq > 0  # random, and 0 is one in 2**31
    assert peer.answer().connect_seq == 0
    peer.seq(0)
    node.send(session, 3)
    assert [message.seq for message in peer.messages()] == [1]


class AllOnes(Random):
    """Draws the largest number there is."""

    def getrandbits(self, bits: int, /) -> int:
        return (1 << bits) - 1


def test_the_first_seq_after_a_reset_has_31_bits() -> None:
    """It never wraps into a negative number where a peer keeps it in 32 bits with a sign (§3.6)."""
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    meet("connector", node).handshake().hang_up()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    peer, connect = dialled(node, "none")
    node.endpoint.rng = AllOnes()
    peer.send(peer.reply_to(connect, Tag.RESETSESSION))
    assert session.out_seq == session.acked_seq == 0x7FFFFFFF


def test_out_seq_stays_random_after_ready() -> None:
    """Only SEQ carries another number to count from (§3.5, §3.6)."""
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    meet("connector", node).handshake().hang_up()
    (session,) = node.endpoint.sessions
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, Tag.RESETSESSION))
    out_seq = session.out_seq
    connect = peer.expect(Connect)
    peer.agree(CLIENT_FEATURES)
    peer.send(peer.reply_to(connect, Tag.READY))
    node.send(session, 3)
    assert [message.seq for message in peer.messages()] == [out_seq + 1]
    peer.send(Ack(out_seq + 1))
    assert len(session.queue.sent) == 0


def test_without_msg_auth_out_seq_starts_at_0_after_a_reset() -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT, features_supported=CLIENT_FEATURES & ~Feature.MSG_AUTH)
    meet("connector", node).handshake().hang_up()
    (session,) = node.endpoint.sessions
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, Tag.RESETSESSION))
    assert session.out_seq == 0


def test_a_session_that_never_was_open_loses_nothing_by_resetsession() -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    session = node.connect(B_V1_ADDR)
    node.send(session, 1)
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, Tag.RETRY_SESSION, connect_seq=3))
    connect = peer.expect(Connect)
    peer.send(peer.reply_to(connect, Tag.RESETSESSION))
    assert node.kinds == []
    peer.answer()
    peer.seq()
    assert [message.header.tid for message in peer.messages()] == [1]


def test_wait_is_obeyed_for_the_longest_pause() -> None:
    node = new_v1_node()
    session = node.connect(B_V1_ADDR)
    node.send(session, 1)
    peer, connect = dialled(node)
    peer.send(peer.reply_to(connect, Tag.WAIT))
    assert (session.state, node.faults) == (SessionState.WAIT, [FaultReason.RACE])
    assert peer.closed
    node.run(14.9)
    assert node.endpoint.link_count == 0
    node.run(0.2)
    assert session.state is SessionState.CONNECTING
    dialled(node)


def test_waiting_side_is_served_by_the_dial_of_its_peer() -> None:
    lower = "v1:10.0.0.9:6700/0"  # the nonce counts before IP and port (§1.3)
    node = new_v1_node()
    session = node.connect(lower)
    node.send(session, 1)
    peer, connect = dialled(node, addr=lower)
    peer.send(peer.reply_to(connect, Tag.WAIT))
    assert session.state is SessionState.WAIT
    own = dial(node, addr=lower)
    assert replaced(own, 0).tag is Tag.SEQ
    own.seq()
    assert [message.header.tid for message in own.messages()] == [1]
    node.run(20.0)
    assert node.endpoint.link_count == 1


def test_side_that_sends_wait_dials_itself() -> None:
    """A keepalive keeps the own dial going, though nothing is to be sent (§3.4 step 7.7)."""
    node = new_v1_node()
    session = node.connect(B_V1_ADDR)
    node.pump()
    assert dial(node).converse().tag is Tag.WAIT
    assert session.keepalive_due
    RawV1Peer(node).accept().hang_up()
    assert session.state is SessionState.CONNECTING  # not STANDBY


# ---- existing sessions (§3.4 step 7)


@by_auth
@by_lossless
def test_a_reconnect_takes_over_by_retry_global_and_a_second_connect(policy: Policy, auth: str) -> None:
    node = new_v1_node(auth=auth, policy=policy)
    old = dial(node, auth)
    old.connect()
    old.seq()
    old.send_messages(1, 2)
    (session,) = node.endpoint.sessions
    node.send(session, 11, 12)
    peer = dial(node, auth)
    first = peer.converse(connect_seq=2, global_seq=5)
    assert (first.tag, first.global_seq) == (Tag.RETRY_GLOBAL, 1)
    assert (session.state, old.closed) == (SessionState.REPLACING, True)
    assert session.peer_global_seq == 1
    assert len(session.queue.requeued) == 2
    second = peer.converse(connect_seq=2, global_seq=6)
    assert (second.tag, second.connect_seq) == (Tag.SEQ, 3)
    assert (session.state, session.peer_global_seq) == (SessionState.READY, 6)
    assert peer.expect(Seq) == Seq(2)
    peer.send(Seq(1))
    assert [(message.seq, message.header.tid) for message in peer.messages()] == [(2, 12)]
    peer.send_messages(2, 3)
    assert node.tids == [1, 2, 3]
    assert session.old_messages == 1
    assert node.kinds == [EventKind.ACCEPT, EventKind.ACCEPT]


def test_the_second_connect_is_challenged_anew() -> None:
    node = new_v1_node(auth="cephx")
    meet("acceptor", node, auth="cephx").handshake()
    peer = dial(node, "cephx")
    connect = peer.connect_message(connect_seq=2, global_seq=5)
    peer.send(connect)
    connect.authorizer = peer.exchange.more(peer.expect(ConnectReply).authorizer)
    peer.send(connect)
    assert peer.expect(ConnectReply).tag is Tag.RETRY_GLOBAL
    connect.global_seq = 6
    peer.send(connect)
    assert peer.expect(ConnectReply).tag is Tag.CHALLENGE_AUTHORIZER


def test_another_connect_while_one_takes_over_must_retry() -> None:
    node = new_v1_node()
    meet("acceptor", node).handshake()
    first, second = dial(node), dial(node)
    assert first.converse(connect_seq=2, global_seq=5).tag is Tag.RETRY_GLOBAL
    reply = second.converse(connect_seq=2, global_seq=7)
    assert (reply.tag, reply.global_seq) == (Tag.RETRY_GLOBAL, 1)
    assert not first.closed
    assert first.converse(connect_seq=2, global_seq=8).tag is Tag.SEQ


def test_outdated_global_seq_gets_the_present_one() -> None:
    node = new_v1_node()
    peer = dial(node)
    peer.converse(global_seq=40)
    peer.seq()
    late = dial(node)
    reply = late.converse(connect_seq=5, global_seq=39)
    assert (reply.tag, reply.global_seq) == (Tag.RETRY_GLOBAL, 40)
    assert node.endpoint.sessions[0].state is SessionState.READY


def test_attempt_that_is_behind_gets_a_retry() -> None:
    node = new_v1_node()
    peer = dial(node)
    peer.converse()
    peer.seq()
    again = dial(node)
    assert replaced(again, 4).connect_seq == 5
    again.seq()
    for connect_seq in 2, 4, 5:
        late = dial(node)
        reply = late.converse(connect_seq=connect_seq, global_seq=100)
        assert (reply.tag, reply.connect_seq) == (Tag.RETRY_SESSION, 6)
    assert replaced(late, 6, 101).connect_seq == 7


def test_a_restarted_peer_resets_the_session_where_that_is_checked() -> None:
    node = new_v1_node(policy=LOSSLESS_PEER_REUSE)
    meet("acceptor", node).handshake().send_messages(1, 2)
    (session,) = node.endpoint.sessions
    node.send(session, 11)
    reborn = dial(node)
    reply = replaced(reborn, 0)
    assert reply.tag is Tag.READY
    assert node.kinds == [EventKind.ACCEPT, EventKind.REMOTE_RESET, EventKind.ACCEPT]
    reborn.send_messages(1)
    assert node.tids == [1, 2, 1]
    node.send(session, 12)
    assert [(message.seq, message.header.tid) for message in reborn.messages()] == [(1, 12)]


def test_without_resetcheck_a_restarted_peer_gets_unacknowledged_messages() -> None:
    node = new_v1_node(policy=LOSSLESS_PEER)
    old = meet("acceptor", node).handshake()
    old.send_messages(1, 2)
    (session,) = node.endpoint.sessions
    node.send(session, 11, 12)
    node.pump()
    old.send(Ack(1))
    reborn = dial(node)
    assert replaced(reborn, 0).tag is Tag.READY
    assert node.kinds == [EventKind.ACCEPT, EventKind.ACCEPT]
    node.send(session, 13)
    assert [(message.seq, message.header.tid) for message in reborn.messages()] == [(1, 12), (2, 13)]
    reborn.send(Ack(1))
    assert [message.tid for _, message in session.queue.sent] == [13]
    reborn.send_messages(1)
    assert node.tids == [1, 2, 1]


def test_peer_global_seq_survives_a_reset() -> None:
    node = new_v1_node(policy=LOSSLESS_PEER_REUSE)
    peer = dial(node)
    peer.converse(global_seq=40)
    peer.seq()
    reborn = dial(node)
    assert reborn.converse(global_seq=1).global_seq == 40
    reply = reborn.converse(global_seq=41)
    assert (reply.tag, reply.global_seq) == (Tag.RETRY_GLOBAL, 40)


def test_a_connect_of_a_session_that_is_not_here_is_reset() -> None:
    node = new_v1_node()
    peer = dial(node)
    assert peer.converse(connect_seq=3).tag is Tag.RESETSESSION
    assert node.endpoint.sessions == []
    assert peer.converse(connect_seq=0).tag is Tag.SEQ


def test_this_side_lost_its_session_where_that_is_checked() -> None:
    node = new_v1_node(policy=LOSSLESS_PEER_REUSE)
    node.connect(B_V1_ADDR)
    peer = dial(node)
    assert peer.converse(connect_seq=3).tag is Tag.RESETSESSION


def test_a_lossy_session_is_ended_by_its_peers_new_one() -> None:
    node = new_v1_node(policy=STATELESS_REGISTERED_SERVER)
    old = meet("acceptor", node).handshake()
    peer = dial(node)
    assert peer.converse(global_seq=2).tag is Tag.SEQ
    assert node.kinds == [EventKind.ACCEPT, EventKind.RESET, EventKind.ACCEPT]
    assert old.closed
    assert len(node.endpoint.sessions) == 1


def test_lossy_clients_that_are_not_registered_live_side_by_side() -> None:
    node = new_v1_node(policy=STATELESS_SERVER)
    for _ in range(3):
        meet("acceptor", node).handshake()
    assert len(node.endpoint.sessions) == 3


def test_a_race_against_a_lower_address_is_lost() -> None:
    node = new_v1_node()
    session = node.connect("v1:10.0.0.1:6700/2")
    node.send(session, 1)
    peer = dial(node, addr="v1:10.0.0.1:6700/2")
    # With nonces 1 and 2 the node's is the lower address: nonces come before ports (§1.3).
    assert peer.converse().tag is Tag.WAIT
    other = new_v1_node()
    other.connect("v1:10.0.0.9:6700/0")
    lower = dial(other, addr="v1:10.0.0.9:6700/0")
    assert lower.converse().tag is Tag.RETRY_GLOBAL
    assert lower.converse(global_seq=2).tag is Tag.SEQ


def test_lossless_sessions_are_registered_without_register_lossy_clients() -> None:
    node = new_v1_node(policy=replace(LOSSLESS_PEER, register_lossy_clients=False))
    dial(node).converse()
    (session,) = node.endpoint.sessions
    assert node.endpoint.registry.lookup(session.peer_addrs) is session
    reply = dial(node).converse(connect_seq=1, global_seq=0)
    assert (reply.tag, reply.global_seq) == (Tag.RETRY_GLOBAL, session.peer_global_seq)
    assert node.endpoint.sessions == [session]
