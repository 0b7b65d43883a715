"""A returning client that receives RECONNECT_OK, RESET, RETRY or WAIT (docs/protocol.md §4.9; family RS)."""

import pytest

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    STATEFUL_SERVER,
)
from messenger.session.session import Session, SessionState
from messenger.v1.wire import Connect
from messenger.v2.wire import (
    Ack,
    ClientIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Wait,
)
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import COOKIE, RawMessage, RawPeer, meet
from tests.support.raw_v1 import RawV1Peer


def reconnecting(*queued: int) -> tuple[Node, RawPeer, Session]:
    """A node that had a session (in_seq 2, out_seq 3, all acknowledged), lost its link and asks to resume."""
    node = new_node(policy=LOSSLESS_CLIENT)
    first = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    first.send_messages(1, 2)
    node.send(session, 101, 102, 103)
    first.pump()
    first.send(Ack(3))
    first.hang_up()
    node.send(session, *queued)
    peer = RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    return node, peer, session


def expect_reconnect(peer: RawPeer, session: Session, *, connect_seq: int, msg_seq: int = 2) -> SessionReconnect:
    frame = peer.expect(SessionReconnect)
    assert (frame.connect_seq, frame.msg_seq) == (connect_seq, msg_seq)
    assert (frame.client_cookie, frame.server_cookie) == (session.client_cookie, session.server_cookie)
    return frame


def test_reconnect_ok_resumes_after_the_last_seq_of_the_peer() -> None:
    node, peer, session = reconnecting(104, 105)
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionReconnectOk(3))
    assert peer.expect_seqs() == [4, 5]
    assert node.kinds == [EventKind.CONNECT, EventKind.CONNECT]
    peer.send_messages(2, 3)
    assert len(node.delivered) == 3


@pytest.mark.parametrize(("has", "replayed"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3]), (3, [])])
def test_messages_received_before_the_fault_are_not_replayed(has: int, replayed: list[int]) -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    first = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 101, 102, 103)
    first.pump()
    first.hang_up()
    node.send(session, 104)
    peer = RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    expect_reconnect(peer, session, connect_seq=1, msg_seq=0)
    peer.send(SessionReconnectOk(has))
    assert peer.expect_seqs() == [*replayed, 4]


def test_a_full_reset_drops_everything_and_starts_anew_on_the_same_link() -> None:
    node, peer, session = reconnecting(104, 105)
    old_cookie = expect_reconnect(peer, session, connect_seq=1).client_cookie
    peer.send(SessionReset(full=True))
    assert node.kinds == [EventKind.CONNECT, EventKind.REMOTE_RESET]
    assert node.events[-1].fault is not None
    assert "2 messages dropped" in str(node.events[-1].fault)
    ident = peer.expect(ClientIdent)
    assert ident.client_cookie not in {0, old_cookie}
    peer.send(peer.server_ident(server_cookie=99))
    node.send(session, 106)
    peer.pump()
    assert peer.expect_seqs() == [1]
    peer.send_messages(1)
    assert session.in_seq == 1
    assert peer.rest() == [Ack(1)]
    assert node.kinds[2:] == [EventKind.CONNECT]
    assert (session.connect_seq, session.server_cookie) == (0, 99)


def test_a_partial_reset_keeps_the_queue_and_is_silent() -> None:
    node, peer, session = reconnecting(104, 105)
    cookie = expect_reconnect(peer, session, connect_seq=1).client_cookie
    peer.send(SessionReset(full=False))
    ident = peer.expect(ClientIdent)
    assert ident.client_cookie == cookie
    assert (session.server_cookie, session.connect_seq, session.in_seq) == (0, 0, 0)
    peer.send(peer.server_ident(server_cookie=99))
    assert [(frame.seq, frame.tid) for frame in peer.rest()] == [(1, 104), (2, 105)]  # type: ignore[union-attr]
    assert node.kinds == [EventKind.CONNECT, EventKind.CONNECT]
    peer.send_messages(1)
    assert len(node.delivered) == 3


@pytest.mark.parametrize("has", [0, 1, 2])
def test_messages_replayed_after_a_partial_reset_count_from_1(has: int) -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    first = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 101, 102, 103)
    first.pump()
    first.send(Ack(1))
    first.hang_up()
    peer = RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    peer.expect(SessionReconnect)
    peer.send(SessionReset(full=False))
    peer.expect(ClientIdent)
    peer.send(peer.server_ident(server_cookie=99))
    assert [(frame.seq, frame.tid) for frame in peer.rest()] == [(1, 102), (2, 103)]  # type: ignore[union-attr]
    peer.hang_up()
    peer = RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    peer.expect(SessionReconnect)
    peer.send(SessionReconnectOk(has))
    assert peer.expect_seqs() == [1, 2][has:]


def test_a_server_that_grants_no_server_cookie_begins_a_session_with_each_link() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    session = node.connect(B_ADDR)
    for link in (1, 2):
        peer = RawPeer(node).accept()
        peer.handshake(until=peer.ident)
        peer.expect(ClientIdent)
        peer.send(peer.server_ident(server_cookie=0))
        peer.send_messages(1)
        assert (len(node.delivered), session.in_seq, session.old_messages) == (link, 1, 0)
        node.send(session, 100 + link)
        assert [frame.seq for frame in peer.rest() if isinstance(frame, RawMessage)] == list(range(1, link + 1))
        peer.hang_up()


def test_acks_of_a_fresh_session_start_anew() -> None:
    """What was received but not acknowledged before the reset is not acknowledged after it."""
    node = new_node(policy=LOSSLESS_CLIENT)
    first = meet("connector", node).handshake()
    node.endpoint.link_data(first.link, first.message(1) + first.message(2), node.now)
    first.hang_up()
    peer = RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    peer.expect(SessionReconnect)
    peer.send(SessionReset(full=True))
    peer.expect(ClientIdent)
    peer.send(peer.server_ident())
    assert peer.rest() == []
    peer.send_messages(1)
    assert peer.rest() == [Ack(1)]


@pytest.mark.parametrize("reply_seq", [1, 5, 1000])
def test_retry_raises_connect_seq_above_that_of_the_reply(reply_seq: int) -> None:
    node, peer, session = reconnecting()
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetry(reply_seq))
    expect_reconnect(peer, session, connect_seq=reply_seq + 1)
    peer.send(SessionReconnectOk(3))
    assert session.state is SessionState.READY
    assert node.faults == [FaultReason.EOF]


def test_a_retry_behind_the_own_connect_seq_is_a_fault() -> None:
    node, peer, session = reconnecting()
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetry(0))
    assert node.faults[-1] is FaultReason.UNEXPECTED_FRAME
    assert session.connect_seq == 2


@pytest.mark.parametrize("reply_seq", [2**63 + 1, 2**64 - 1])
def test_a_retry_that_leaves_no_room_above_it_is_a_fault(reply_seq: int) -> None:
    node, peer, session = reconnecting()
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetry(reply_seq))
    assert node.faults[-1] is FaultReason.MALFORMED
    assert session.connect_seq == 2


def test_a_reconnect_whose_connect_seq_leaves_no_room_above_it_is_a_fault() -> None:
    node = new_node(policy=LOSSLESS_PEER)
    first = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    peer = RawPeer(node).dial()
    peer.server_cookie = first.server_cookie
    peer.handshake(until=peer.ident)
    peer.send(peer.session_reconnect(connect_seq=2**64 - 1))
    assert node.faults == [FaultReason.MALFORMED]
    assert (session.state, session.connect_seq) == (SessionState.READY, 0)


@pytest.mark.parametrize("reply_seq", [1, 7, 2**31, 2**32 - 2])
def test_global_retry_raises_global_seq_above_that_of_the_reply(reply_seq: int) -> None:
    node, peer, session = reconnecting()
    first = expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetryGlobal(reply_seq))
    again = expect_reconnect(peer, session, connect_seq=1)
    assert again.global_seq > max(reply_seq, first.global_seq)
    peer.send(SessionReconnectOk(3))
    assert session.state is SessionState.READY
    node.send(session, 104)
    peer.hang_up()
    last, peer = again.global_seq, RawPeer(node).accept()
    peer.handshake(until=peer.ident)
    assert peer.expect(SessionReconnect).global_seq > last


@pytest.mark.parametrize("reply_seq", [2**31, 2**32 - 2])
def test_huge_global_seq_of_a_retry_applies_to_its_session_only(reply_seq: int) -> None:
    """All sessions share the counter, and v1 carries 32 bits of it: one peer must not use it up for the others."""
    node, peer, session = reconnecting()
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetryGlobal(reply_seq))
    expect_reconnect(peer, session, connect_seq=1)
    node.connect("v1:10.0.0.5:6805/5")
    other = RawV1Peer(node, addr="v1:10.0.0.5:6805/5").accept()
    other.banner()
    other.identify()
    assert other.expect(Connect).global_seq < 100


@pytest.mark.parametrize("reply_seq", [2**32 - 1, 2**64 - 1])
def test_global_retry_with_an_impossible_number_is_a_fault(reply_seq: int) -> None:
    node, peer, session = reconnecting()
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(SessionRetryGlobal(reply_seq))
    assert node.faults[-1] is FaultReason.MALFORMED
    assert node.endpoint.numbers.next_global_seq() < 100


def test_wait_is_obeyed_for_the_longest_pause_and_then_tried_again() -> None:
    node, peer, session = reconnecting(104)
    expect_reconnect(peer, session, connect_seq=1)
    peer.send(Wait())
    assert peer.closed
    assert session.state is SessionState.WAIT
    assert node.faults[-1] is FaultReason.RACE
    node.run(14.9)
    assert session.state is SessionState.WAIT
    node.run(0.2)
    again = RawPeer(node).accept()
    again.handshake(until=again.ident)
    expect_reconnect(again, session, connect_seq=2)
    again.send(SessionReconnectOk(3))
    assert again.expect_seqs() == [4]
    assert EventKind.RESET not in node.kinds


def test_wait_for_a_first_dial() -> None:
    node = new_node(policy=LOSSLESS_PEER)
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    cookie = peer.expect(ClientIdent).client_cookie
    peer.send(Wait())
    (session,) = node.endpoint.sessions
    assert session.state is SessionState.WAIT
    assert node.endpoint.next_deadline() == pytest.approx(15.0)
    node.run(15.0)
    again = RawPeer(node).accept()
    again.handshake(until=again.ident)
    assert again.expect(ClientIdent).client_cookie == cookie


def test_a_reset_owes_no_ack_of_the_session_before() -> None:
    """The link breaks before a message is acknowledged, and the peer comes back as a new one."""
    node = new_node(policy=STATEFUL_SERVER)
    first = meet("acceptor", node).handshake()
    node.endpoint.link_data(first.link, first.message(1), node.now)
    node.endpoint.link_failed(first.link, FaultReason.SOCKET, "reset", node.now)
    node.pump()
    assert node.tids == [1]
    again = meet("acceptor", node)
    again.client_cookie = COOKIE + 1
    again.handshake()
    assert node.kinds[-2:] == [EventKind.REMOTE_RESET, EventKind.ACCEPT]
    again.pump()
    assert again.next() is None, "an ACK of messages of the former session"
    again.send_messages(1)
    assert again.expect(Ack) == Ack(1)
