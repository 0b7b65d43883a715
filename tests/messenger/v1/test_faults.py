"""The effect of a link's fault on a session of v1 (docs/protocol.md §3.9)."""

import pytest

from messenger.denc.features import CLIENT_FEATURES
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v1.wire import ConnectReply, KeepAlive2, Seq, Tag
from tests.messenger.v1.test_sessions import by_auth, by_lossless, dial, dialled, replaced
from tests.support.raw_v1 import B_V1_ADDR, RawV1Peer, meet, new_v1_node


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_lossy_client_that_got_through_to_its_server_does_not_come_back(steps: int) -> None:
    """With v1, not even while it shakes hands."""
    node = new_v1_node(policy=LOSSY_CLIENT)
    peer = meet("connector", node)
    for step in peer.steps[: steps - 1]:
        step()
    peer.hang_up()
    assert node.kinds[-1] is EventKind.RESET
    assert node.endpoint.sessions == []


def test_a_lossy_client_tries_again_while_it_cannot_reach_its_server() -> None:
    node = new_v1_node(policy=LOSSY_CLIENT)
    session = node.connect(B_V1_ADDR)
    node.pump()
    node.outbox.clear()
    node.endpoint.link_failed(1, FaultReason.REFUSED, "", 0.0)
    assert session.state is SessionState.CONNECTING
    node.run(0.25)
    meet_again = RawV1Peer(node).accept().handshake()
    meet_again.send_messages(1)
    assert node.tids == [1]


@pytest.mark.parametrize("done", [1, 2])
def test_half_accepted_link_leaves_no_session(done: int) -> None:
    node = new_v1_node(policy=LOSSLESS_PEER)
    peer = RawV1Peer(node).dial()
    for step in peer.steps[:done]:
        step()
    peer.hang_up()
    assert (node.kinds, node.endpoint.sessions, node.endpoint.link_count) == ([], [], 0)


@by_lossless
def test_a_session_whose_last_reply_is_out_stays_for_the_peer_to_come_back(policy: Policy) -> None:
    """The peer may have taken it for open; it would get RESETSESSION otherwise (§3.9 step 4)."""
    node = new_v1_node(policy=policy)
    peer = dial(node)
    peer.converse()
    peer.hang_up()
    (session,) = node.endpoint.sessions
    assert session.state is SessionState.STANDBY
    again = dial(node)
    assert replaced(again, 2).tag is Tag.SEQ
    again.seq()
    again.send_messages(1)
    assert node.tids == [1]


@by_lossless
def test_peer_without_the_last_reply_begins_again_and_loses_no_message(policy: Policy) -> None:
    node = new_v1_node(policy=policy)
    peer = dial(node)
    peer.converse()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    peer.hang_up()
    again = dial(node)
    assert replaced(again, 0).tag is Tag.SEQ
    again.seq()
    assert EventKind.REMOTE_RESET not in node.kinds
    assert [message.header.tid for message in again.messages()] == [1]


def test_an_open_session_with_something_to_send_dials_at_once_and_counts_up() -> None:
    node = new_v1_node()
    peer = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    node.pump()
    peer.hang_up()
    peer, connect = dialled(node)
    assert (connect.connect_seq, connect.global_seq) == (2, 2)


def test_a_session_in_standby_wakes_with_the_same_connect_seq() -> None:
    node = new_v1_node()
    meet("connector", node).handshake().hang_up()
    (session,) = node.endpoint.sessions
    assert session.state is SessionState.STANDBY
    node.run(1.0)
    assert node.endpoint.link_count == 0
    node.send(session, 1)
    peer, connect = dialled(node)
    assert connect.connect_seq == 1
    peer.send(peer.reply_to(connect, Tag.RETRY_SESSION, connect_seq=2))
    assert peer.answer().connect_seq == 2
    peer.seq()
    assert [message.header.tid for message in peer.messages()] == [1]


def test_a_keepalive_wakes_a_session_in_standby() -> None:
    node = new_v1_node()
    meet("connector", node).handshake().hang_up()
    (session,) = node.endpoint.sessions
    node.endpoint.send_keepalive(session, node.now)
    peer, _ = dialled(node)
    peer.agree(CLIENT_FEATURES)
    peer.send(ConnectReply(Tag.SEQ, CLIENT_FEATURES, 1, 2), Seq(0))
    peer.expect(Seq)
    assert isinstance(peer.next(), KeepAlive2)


def test_server_with_queued_messages_waits_for_its_client() -> None:
    node = new_v1_node(policy=STATEFUL_SERVER)
    peer = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    peer.hang_up()
    node.send(session, 1)
    node.run(60.0)
    assert (session.state, node.endpoint.link_count) == (SessionState.STANDBY, 0)


def test_failed_dials_pause_longer_and_longer() -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    session = node.connect(B_V1_ADDR)
    pauses = []
    for _ in range(9):
        peer = RawV1Peer(node).accept()
        peer.hang_up()
        before = node.now
        due = node.endpoint.next_deadline()
        assert due is not None
        pauses.append(round(due - before, 3))
        node.run(pauses[-1])
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]
    assert session.connect_seq == 0


def test_a_takeover_that_breaks_counts_up_and_pauses_before_the_next_dial() -> None:
    """The peer sees which attempt is the newer one, as with Ceph."""
    node = new_v1_node()
    peer = dial(node)
    peer.converse()
    peer.hang_up()
    (session,) = node.endpoint.sessions
    peer = dial(node)
    assert peer.converse(connect_seq=0, global_seq=2).tag is Tag.RETRY_GLOBAL
    node.send(session, 1)
    peer.hang_up()
    assert (session.state, session.connect_seq) == (SessionState.CONNECTING, 2)
    due_s = node.endpoint.next_deadline()
    assert due_s is not None
    assert 0.1 <= due_s - node.now <= 0.2
    node.run(0.2)
    _, connect = dialled(node)
    assert connect.connect_seq == 2


def test_pauses_after_takeovers_that_break_differ() -> None:
    """Two sides that have given up their own dials for each other's would do so in step for ever."""
    pauses = set()
    for seed in range(10):
        node = new_v1_node(seed=seed)
        peer = dial(node)
        peer.converse()
        peer.hang_up()
        peer = dial(node)
        assert peer.converse(connect_seq=0, global_seq=2).tag is Tag.RETRY_GLOBAL
        node.send(node.endpoint.sessions[0], 1)
        peer.hang_up()
        due_s = node.endpoint.next_deadline()
        assert due_s is not None
        pauses.add(round(due_s - node.now, 3))
    assert len(pauses) > 5
    assert 0.1 <= min(pauses) < max(pauses) <= 0.2


@by_auth
def test_a_fault_while_taking_over_leaves_a_session_to_be_taken_over(auth: str) -> None:
    node = new_v1_node(auth=auth, policy=LOSSLESS_PEER_REUSE)
    meet("acceptor", node, auth=auth).handshake()
    (session,) = node.endpoint.sessions
    peer = dial(node, auth)
    assert peer.converse(connect_seq=0, global_seq=2).tag is Tag.RETRY_GLOBAL
    assert session.is_reset_from_peer
    peer.hang_up()
    assert session.state is SessionState.STANDBY
    assert not session.is_reset_from_peer
    again = dial(node, auth)
    assert replaced(again, 0, 3).tag is Tag.SEQ
    again.seq()
    again.send_messages(1)
    assert node.tids == [1]
