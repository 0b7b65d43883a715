"""Peers that return to a session, or have lost it (families RS, LS, PK).

See docs/protocol.md §4.9.
"""

import pytest

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    STATEFUL_SERVER,
    STATELESS_REGISTERED_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from messenger.v2.wire import (
    Ack,
    ControlFrame,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Wait,
)
from tests.support.network import Pair
from tests.support.node import A_ADDR, Node, new_node
from tests.support.raw_peer import COOKIE, RawPeer, meet


def serving(policy: Policy = STATEFUL_SERVER) -> tuple[Node, RawPeer, Session]:
    """A node that accepted a session (in_seq 2, out_seq 2, nothing acknowledged) and lost its link."""
    node = new_node(policy=policy)
    first = meet("acceptor", node)
    first.handshake(until=first.ident)
    first.send(first.client_ident(global_seq=5))
    first.expect(ServerIdent)
    (session,) = node.endpoint.sessions
    first.send_messages(1, 2)
    node.send(session, 101, 102)
    first.pump()
    first.hang_up()
    node.events.clear()
    peer = RawPeer(node).dial()
    peer.handshake(until=peer.ident)
    return node, peer, session


def ask(peer: RawPeer, **changes: int) -> ControlFrame:
    """SESSION_RECONNECT with other values than those that fit; the node's answer."""
    cookie = max((session.server_cookie for session in peer.node.endpoint.sessions), default=1)
    fields = {"client_cookie": COOKIE, "server_cookie": cookie, "global_seq": 6, "connect_seq": 1, "msg_seq": 0}
    peer.send(SessionReconnect(peer.addrs, **(fields | changes)))
    answer = peer.next()
    assert isinstance(answer, ControlFrame)
    return answer


@pytest.mark.parametrize(("msg_seq", "replayed"), [(0, [1, 2]), (1, [2]), (2, [])])
def test_returning_client_gets_the_missed_messages(msg_seq: int, replayed: list[int]) -> None:
    node, peer, session = serving()
    assert ask(peer, msg_seq=msg_seq) == SessionReconnectOk(2)
    assert peer.expect_seqs() == replayed
    assert node.endpoint.sessions == [session]
    assert node.kinds == [EventKind.ACCEPT]
    peer.send_messages(2, 3)
    assert node.tids == [1, 2, 3]


def test_a_session_that_is_not_known_is_reset_and_opened_on_the_same_link() -> None:
    node = new_node(policy=STATEFUL_SERVER)
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    assert ask(peer) == SessionReset(full=True)
    peer.ident()
    assert node.kinds == [EventKind.ACCEPT]


@pytest.mark.parametrize(
    ("policy", "full"), [(STATEFUL_SERVER, True), (LOSSLESS_PEER_REUSE, True), (LOSSLESS_PEER, False)]
)
def test_another_cookie_is_reset_fully_only_with_resetcheck(policy: Policy, *, full: bool) -> None:
    node, peer, _ = serving(policy)
    assert ask(peer, client_cookie=4711) == SessionReset(full=full)
    assert node.events == []


def test_outdated_attempts_get_a_retry_with_the_number_to_exceed() -> None:
    node, peer, session = serving()
    assert ask(peer, global_seq=4) == SessionRetryGlobal(5)
    assert ask(peer, connect_seq=9) == SessionReconnectOk(2)
    peer.hang_up()
    again = RawPeer(node).dial()
    again.handshake(until=again.ident)
    assert ask(again, global_seq=5, connect_seq=10) == SessionRetryGlobal(6)
    assert ask(again, global_seq=7, connect_seq=8) == SessionRetry(9)
    assert ask(again, global_seq=7, connect_seq=10) == SessionReconnectOk(2)
    assert session.state is SessionState.READY


def test_questions_without_end_run_into_the_ready_timeout() -> None:
    node, peer, _ = serving()
    for _ in range(9):
        ask(peer, global_seq=1)
        node.run(1.0)
    node.run(2.0)
    assert node.faults[-1] is FaultReason.READY_TIMEOUT


def test_a_reconnect_takes_over_from_a_link_that_still_seems_alive() -> None:
    node = new_node(policy=STATEFUL_SERVER)
    old = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    peer = RawPeer(node).dial()
    peer.handshake(until=peer.ident)
    assert ask(peer) == SessionReconnectOk(0)
    assert old.closed
    assert session.state is SessionState.READY
    old.write(old.message(1))
    assert node.delivered == []
    assert EventKind.RESET not in node.kinds


# ---- a client that comes with CLIENT_IDENT although there is a session


def identify(peer: RawPeer, **changes: object) -> None:
    peer.send(peer.client_ident(**({"global_seq": 6} | changes)))


def test_the_same_cookie_continues_the_same_session() -> None:
    """SERVER_IDENT was lost on the way: nothing that is queued is lost (HS-07)."""
    node, peer, session = serving(LOSSLESS_PEER_REUSE)
    identify(peer)
    peer.expect(ServerIdent)
    assert peer.expect_seqs() == [1, 2]
    assert node.endpoint.sessions == [session]
    assert node.kinds == [EventKind.ACCEPT]


def test_a_new_cookie_with_resetcheck_is_a_remote_reset_on_the_same_session() -> None:
    node, peer, session = serving(LOSSLESS_PEER_REUSE)
    identify(peer, client_cookie=4711)
    peer.expect(ServerIdent)
    assert node.endpoint.sessions == [session]
    assert node.kinds == [EventKind.REMOTE_RESET, EventKind.ACCEPT]
    assert (session.client_cookie, session.in_seq, session.out_seq) == (4711, 0, 0)
    peer.send_messages(1)
    assert node.tids == [1, 2, 1]
    assert peer.rest() == [Ack(1)]


def test_a_new_cookie_without_resetcheck_is_a_silent_new_session() -> None:
    """The queue is kept; received messages are counted from 1 again (RS-03)."""
    node, peer, session = serving(LOSSLESS_PEER)
    identify(peer, client_cookie=4711)
    peer.expect(ServerIdent)
    assert node.kinds == [EventKind.ACCEPT]
    assert [frame.tid for frame in peer.rest()] == [101, 102]  # type: ignore[union-attr]
    peer.send_messages(1)
    assert node.tids == [1, 2, 1]
    assert node.endpoint.sessions == [session]


@pytest.mark.parametrize("policy", [LOSSLESS_PEER_REUSE, STATEFUL_SERVER, STATELESS_REGISTERED_SERVER])
def test_an_outdated_attempt_is_closed_without_a_word(policy: Policy) -> None:
    node = new_node(policy=policy)
    current = meet("acceptor", node)
    current.handshake(until=current.ident)
    identify(current, global_seq=9)
    current.expect(ServerIdent)
    (session,) = node.endpoint.sessions
    outdated = RawPeer(node).dial()
    outdated.handshake(until=outdated.ident)
    identify(outdated, global_seq=8)
    assert outdated.closed
    assert outdated.rest() == []
    assert node.faults == [FaultReason.STALE]
    assert node.kinds == [EventKind.ACCEPT]
    assert (node.endpoint.sessions, session.state) == ([session], SessionState.READY)


def test_a_registered_lossy_client_replaces_itself() -> None:
    node = new_node(policy=STATELESS_REGISTERED_SERVER)
    old = meet("acceptor", node).handshake()
    (old_session,) = node.endpoint.sessions
    new = RawPeer(node).dial()
    new.handshake(until=new.ident)
    identify(new)
    new.expect(ServerIdent)
    assert old.closed
    assert node.kinds == [EventKind.ACCEPT, EventKind.RESET, EventKind.ACCEPT]
    assert node.events[1].session is old_session
    (new_session,) = node.endpoint.sessions
    assert node.endpoint.registry.lookup(new.addrs) is new_session
    assert old_session.state is SessionState.CLOSED


# ---- processes that restart


def test_a_restarted_server_makes_its_client_start_anew() -> None:
    """One event, then everything that was queued is gone and the next message arrives (RS-01)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.a.send(mine, 1, 2)
    pair.drive()
    pair.restart_b()
    pair.a.send(mine, 3)
    assert pair.run_until(lambda: EventKind.REMOTE_RESET in pair.a.kinds, 60.0)
    pair.a.send(mine, 4)
    assert pair.run_until(lambda: pair.b.tids == [4], 60.0)
    assert pair.a.kinds == [EventKind.CONNECT, EventKind.REMOTE_RESET, EventKind.CONNECT]


@pytest.mark.parametrize("policy", [LOSSLESS_PEER_REUSE, LOSSLESS_PEER])
def test_a_restarted_peer_that_dials_is_a_new_session_in_the_old_object(policy: Policy) -> None:
    pair = Pair(policy)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.drive()
    new_b = pair.restart_b()
    pair.drive()
    new_b.send(new_b.connect(A_ADDR), 21, 22)
    assert pair.run_until(lambda: pair.a.tids == [21, 22], 60.0)
    assert pair.a.endpoint.sessions == [mine]
    assert (EventKind.REMOTE_RESET in pair.a.kinds) == policy.resetcheck
    pair.a.send(mine, 2)
    assert pair.run_until(lambda: new_b.tids == [2], 60.0)


@pytest.mark.parametrize("reconnects", [0, 2, 5])
def test_a_restarted_peer_is_accepted_once_its_attempts_are_newer(reconnects: int) -> None:
    """A mon restarts with its old address and nonce, and a low global_seq against the remembered one."""
    pair = Pair(LOSSLESS_PEER_REUSE)
    theirs = pair.b.connect(A_ADDR)
    pair.drive()
    for number in range(reconnects):
        pair.b.send(theirs, number)
        pair.wire.cut()
        pair.drive()
    before = len(pair.wires)
    new_b = pair.restart_b()
    new_b.send(new_b.connect(A_ADDR), 77)
    assert pair.run_until(lambda: pair.a.tids[-1:] == [77], 60.0)
    assert len(pair.wires) - before <= reconnects + 1
    assert pair.a.kinds[-2:] == [EventKind.REMOTE_RESET, EventKind.ACCEPT]


def test_a_client_that_marked_down_and_returns_is_new_to_the_server() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, theirs = pair.established()
    pair.a.send(mine, 1, 2)
    pair.drive()
    pair.a.mark_down(mine)
    pair.b.send(theirs, 91)
    pair.drive()
    assert theirs.state is SessionState.STANDBY
    again = pair.connect()
    pair.a.send(again, 3)
    pair.drive()
    assert pair.b.tids == [1, 2, 3]
    assert pair.b.kinds == [EventKind.ACCEPT, EventKind.REMOTE_RESET, EventKind.ACCEPT]
    assert pair.a.tids == []
    assert pair.b.endpoint.sessions == [theirs]


def test_a_server_that_marked_down_makes_its_client_start_anew() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, theirs = pair.established()
    pair.b.mark_down(theirs)
    pair.drive()
    assert pair.a.kinds == [EventKind.CONNECT, EventKind.REMOTE_RESET, EventKind.CONNECT]
    assert mine.state is SessionState.READY
    assert len(pair.b.endpoint.sessions) == 1
    assert pair.b.endpoint.sessions[0] is not theirs


def test_events_stand_between_old_and_new_messages() -> None:
    """What arrived before the reset is delivered before its event, and nothing of it afterwards (RS-10)."""
    node = new_node(policy=LOSSLESS_PEER_REUSE)
    old = meet("acceptor", node).handshake()
    new = RawPeer(node).dial()
    new.handshake(until=new.ident)
    node.log.clear()
    node.endpoint.link_data(old.link, old.message(1, tid=31), node.now)
    ident = new.client_ident(global_seq=6, client_cookie=4711)
    node.endpoint.link_data(new.link, new.writer.control(ident.TAG, ident.encode()), node.now)
    node.endpoint.link_data(old.link, old.message(2, tid=32), node.now)
    node.endpoint.link_data(new.link, new.message(1, tid=41), node.now)
    node.pump()
    assert node.log == [31, EventKind.REMOTE_RESET, EventKind.ACCEPT, 41]


@pytest.mark.parametrize("connect_seq", [0, 1, 5])
def test_no_endless_exchange_of_resets_and_retries(connect_seq: int) -> None:
    """One side in STANDBY with connect_seq 0, the other asks with any: three rounds at most (RS-05)."""
    node, peer, _ = serving(LOSSLESS_PEER_REUSE)
    answers = []
    for _ in range(3):
        answer = ask(peer, connect_seq=connect_seq, global_seq=20)
        answers.append(answer)
        if isinstance(answer, SessionReconnectOk | Wait):
            break
        assert isinstance(answer, SessionRetry)
        connect_seq = answer.connect_seq + 1
    assert isinstance(answers[-1], SessionReconnectOk | Wait)
    assert EventKind.REMOTE_RESET not in node.kinds
