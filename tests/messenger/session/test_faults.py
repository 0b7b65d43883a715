"""What a broken link does to its session, per policy (families LY, LC, LS).

See docs/protocol.md §3.9, §4.11.
"""

from collections.abc import Callable

import pytest

from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.outputs import EventKind, OpenLink
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    POLICIES,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from messenger.v2.wire import FLAG_LOSSY, AuthRequest, ClientIdent, SessionReconnect
from tests.support.network import Pair
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import RawPeer, meet


def reset(peer: RawPeer) -> None:
    peer.node.endpoint.link_failed(peer.link, FaultReason.SOCKET, "connection reset by peer", peer.node.now)
    peer.pump()


BREAKS: dict[str, Callable[[RawPeer], None]] = {
    "eof": RawPeer.hang_up,
    "garbage": lambda peer: peer.write(b"\xff" * 100),
    "reset": reset,
}

by_break = pytest.mark.parametrize("break_", BREAKS.values(), ids=BREAKS)
by_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
by_dialling_policy = pytest.mark.parametrize(
    "policy", [policy for policy in POLICIES.values() if not policy.server], ids=lambda policy: policy.name
)
queued_or_not = pytest.mark.parametrize("queued", [False, True], ids=["empty", "queued"])


def ready(policy: Policy) -> tuple[Node, RawPeer, Session]:
    """A READY session: the node dialled, or with a server's policy accepted."""
    node = new_node(policy=policy)
    peer = meet("acceptor" if policy.server else "connector", node)
    if policy.lossy and not policy.server:
        peer.handshake(until=peer.ident)
        peer.expect(ClientIdent)
        peer.send(peer.server_ident(flags=FLAG_LOSSY, server_cookie=0))
    else:
        peer.handshake()
    (session,) = node.endpoint.sessions
    assert session.state is SessionState.READY
    node.events.clear()
    return node, peer, session


def dials(node: Node) -> int:
    """Dials that wait to be answered."""
    node.pump()
    return sum(isinstance(output, OpenLink) for output in node.outbox)


def is_dialling_again(policy: Policy, *, queued: bool) -> bool:
    return not policy.server and (queued or not policy.standby)


@by_break
@queued_or_not
@by_policy
def test_fault_of_a_ready_link(policy: Policy, break_: Callable[[RawPeer], None], *, queued: bool) -> None:
    node, peer, session = ready(policy)
    if queued:
        node.send(session, 1, 2)
    break_(peer)
    if policy.lossy:
        assert dials(node) == 0
        assert node.kinds == [EventKind.RESET]
        assert session.state is SessionState.CLOSED
        assert node.endpoint.sessions == []
        assert node.endpoint.snapshot()["registry"] == 0
        assert not node.endpoint.send(session, None, node.now)  # type: ignore[arg-type]
        return
    assert node.kinds == []
    if is_dialling_again(policy, queued=queued):
        assert dials(node) == 1
        assert (session.state, session.connect_seq) == (SessionState.CONNECTING, 1)
    else:
        assert dials(node) == 0
        assert (session.state, session.connect_seq) == (SessionState.STANDBY, 0)
        assert node.endpoint.next_deadline() is None
    assert node.endpoint.snapshot()["queued"] == (2 if queued else 0)


@by_break
@queued_or_not
@pytest.mark.parametrize("steps", range(6))
@by_dialling_policy
def test_fault_of_a_first_dial(
    policy: Policy, steps: int, break_: Callable[[RawPeer], None], *, queued: bool
) -> None:
    node = new_node(policy=policy)
    peer = meet("connector", node)
    (session,) = node.endpoint.sessions
    if queued:
        node.send(session, 1, 2)
    for step in peer.steps[:steps]:
        step()
    break_(peer)
    assert session.last_fault is not None
    assert node.kinds == [EventKind.REFUSED] * (session.last_fault.reason is FaultReason.NOT_MSGR)
    assert session.connect_seq == 0
    assert node.endpoint.snapshot()["queued"] == (2 if queued else 0)
    if is_dialling_again(policy, queued=queued):
        assert session.state is SessionState.CONNECTING
        assert dials(node) == 0
        assert node.endpoint.next_deadline() == pytest.approx(0.2)
        node.run(0.2)
        assert dials(node) == 1
    else:
        assert session.state is SessionState.STANDBY
        assert (dials(node), node.endpoint.next_deadline()) == (0, None)


@by_dialling_policy
def test_dial_that_fails_is_repeated_while_a_caller_waits(policy: Policy) -> None:
    node = new_node(policy=policy)
    peer = meet("connector", node)
    (session,) = node.endpoint.sessions
    session.awaited = 1
    peer.hang_up()
    assert session.state is SessionState.CONNECTING
    node.run(0.2)
    assert dials(node) == 1


@by_break
@pytest.mark.parametrize("steps", range(6))
@by_policy
def test_fault_of_an_accepted_link_before_it_has_a_session(
    policy: Policy, steps: int, break_: Callable[[RawPeer], None]
) -> None:
    node = new_node(policy=policy)
    peer = meet("acceptor", node)
    for step in peer.steps[:steps]:
        step()
    break_(peer)
    assert node.events == []
    assert node.endpoint.sessions == []
    assert (node.endpoint.link_count, node.endpoint.next_deadline()) == (0, None)


@by_break
@pytest.mark.parametrize("steps", range(6))
def test_fault_of_a_reconnecting_dial(steps: int, break_: Callable[[RawPeer], None]) -> None:
    """Once there is a session to return to, connect_seq grows with every attempt (§4.9)."""
    node, peer, session = ready(LOSSLESS_CLIENT)
    node.send(session, 1)
    peer.hang_up()
    for attempt in 1, 2, 3:
        assert session.connect_seq == attempt
        again = RawPeer(node).accept()
        for step in again.steps[:steps]:
            step()
        break_(again)
        node.run(1.0)
    again = RawPeer(node).accept()
    again.handshake(until=again.ident)
    reconnect = again.expect(SessionReconnect)
    assert (reconnect.connect_seq, reconnect.msg_seq) == (4, 0)
    assert (reconnect.client_cookie, reconnect.server_cookie) == (session.client_cookie, peer.server_cookie)


def test_global_seq_grows_with_every_attempt() -> None:
    node, peer, _ = ready(LOSSLESS_CLIENT)
    peer.hang_up()
    seen = []
    for _ in range(4):
        again = RawPeer(node).accept()
        again.handshake(until=again.ident)
        seen.append(again.expect(SessionReconnect).global_seq)
        again.hang_up()
        node.run(2.0)
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_a_keepalive_that_waits_prevents_standby(policy: Policy) -> None:
    node, peer, session = ready(policy)
    node.endpoint.send_keepalive(session, node.now)
    peer.hang_up()
    assert session.state is SessionState.CONNECTING
    assert dials(node) == 1


def test_a_lossy_client_whose_server_is_lossless_comes_back() -> None:
    """The server decides (§3.8): its session survives, so the client returns to it."""
    node = new_node(policy=LOSSY_CLIENT)
    peer = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    peer.hang_up()
    assert session.state is SessionState.CONNECTING
    again = RawPeer(node).accept()
    again.handshake(until=again.ident)
    assert again.expect(SessionReconnect).server_cookie == peer.server_cookie


def test_a_lossless_client_whose_server_is_lossy_does_not_come_back() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    peer.send(peer.server_ident(flags=FLAG_LOSSY, server_cookie=0))
    peer.hang_up()
    assert node.kinds == [EventKind.CONNECT, EventKind.RESET]
    assert dials(node) == 0


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSY_CLIENT], ids=lambda policy: policy.name)
def test_each_refused_dial_raises_an_event(policy: Policy) -> None:
    node = new_node(policy=policy)
    node.connect(B_ADDR)
    for attempt in 1, 2, 3:
        node.pump()
        (output,) = node.outbox
        node.outbox.clear()
        node.endpoint.link_failed(output.link_id, FaultReason.REFUSED, "10.0.0.2:6802", node.now)
        node.pump()
        node.outbox.clear()
        assert node.kinds == [EventKind.REFUSED] * attempt
        node.run(1.0)
    assert str(node.events[0].fault) == "connection refused in START_CONNECT: 10.0.0.2:6802"


def test_a_refusal_while_ready_is_no_refusal() -> None:
    node, peer, _ = ready(LOSSLESS_CLIENT)
    peer.node.endpoint.link_failed(peer.link, FaultReason.REFUSED, "odd", node.now)
    node.pump()
    assert node.events == []


@by_break
@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, STATEFUL_SERVER], ids=lambda policy: policy.name)
def test_a_link_that_broke_is_not_heard_of_again(policy: Policy, break_: Callable[[RawPeer], None]) -> None:
    node, peer, _ = ready(policy)
    break_(peer)
    before = len(node.trace)
    node.endpoint.link_data(peer.link, peer.message(1), node.now)
    node.endpoint.link_received(peer.link, 10, node.now)
    node.endpoint.link_written(peer.link, 10, node.now)
    node.endpoint.link_eof(peer.link, node.now)
    node.endpoint.link_failed(peer.link, FaultReason.SOCKET, "", node.now)
    node.pump()
    assert node.delivered == []
    assert len(node.trace) == before


def test_a_late_answer_to_a_dial_that_was_given_up_is_ignored() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    session = node.connect(B_ADDR)
    node.pump()
    (output,) = node.outbox
    node.mark_down(session)
    node.pump()
    node.endpoint.link_opened(output.link_id, node.endpoint.addrs.front, node.now)
    assert not node.pump()


def test_messages_queued_during_a_broken_authentication_leave_later() -> None:
    node = new_node(policy=LOSSY_CLIENT)
    peer = meet("connector", node)
    (session,) = node.endpoint.sessions
    node.send(session, 1, 2, 3)
    peer.banner()
    peer.hello()
    peer.expect(AuthRequest)
    peer.hang_up()
    node.run(0.2)
    RawPeer(node).accept().handshake()
    assert node.kinds == [EventKind.CONNECT]
    assert node.endpoint.snapshot()["queued"] == 0


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("policies", [(LOSSLESS_CLIENT, STATEFUL_SERVER), (LOSSY_CLIENT, STATELESS_SERVER)])
def test_a_session_without_accept_event_ends_silently(policies: tuple[Policy, Policy], protocol: Protocol) -> None:
    """The handshake times out while the acceptor pauses between the new session and its accept event."""
    pair = Pair(*policies, protocol=protocol, ms_inject_internal_delays=0.5, ms_connection_ready_timeout=0.8)
    pair.connect()
    assert pair.run_until(lambda: bool(pair.b.endpoint.sessions), 0.6)
    pair.pass_time(0.4)
    assert pair.b.faults == [FaultReason.READY_TIMEOUT]
    assert pair.b.kinds == []
    assert (pair.b.endpoint.sessions, pair.b.endpoint.snapshot()["registry"]) == ([], 0)
