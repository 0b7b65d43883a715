"""Backoff, standby and timeouts (docs/protocol.md §3.9; family KA, LC-09, LS-04 to LS-06, LS-10, HS-18)."""

import pytest

from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v2.wire import Wait
from tests.support.network import Dial, Pair
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import RawPeer, meet

SCHEDULE_S = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0, 15.0]


class Dials:
    """Answers every dial on a network, and remembers when each was made."""

    def __init__(self, pair: Pair, answer: Dial) -> None:
        self.answer = answer
        self.times_s: list[float] = []
        self.by: list[Node] = []
        self._clock = pair.clock
        pair.answer = self

    def __call__(self, node: Node, _addr: EntityAddr) -> Dial:
        self.times_s.append(self._clock.now)
        self.by.append(node)
        return self.answer

    @property
    def pauses_s(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.times_s, self.times_s[1:], strict=False)]


# ---- backoff


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSY_CLIENT], ids=lambda policy: policy.name)
def test_pauses_between_refused_dials_double_up_to_the_maximum(policy: Policy) -> None:
    pair = Pair(policy, STATEFUL_SERVER)
    dials = Dials(pair, Dial.REFUSED)
    session = pair.connect()
    pair.pass_time(sum(SCHEDULE_S) + 0.1)
    assert dials.pauses_s == pytest.approx(SCHEDULE_S)
    assert session.state is SessionState.CONNECTING
    assert pair.a.kinds == [EventKind.REFUSED] * len(dials.times_s)


def test_the_schedule_is_configurable() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_initial_backoff=1.0, ms_max_backoff=3.0)
    dials = Dials(pair, Dial.REFUSED)
    pair.connect()
    pair.pass_time(13.1)
    assert dials.pauses_s == pytest.approx([1.0, 2.0, 3.0, 3.0, 3.0])


def test_a_success_resets_the_backoff_and_a_ready_link_is_redialled_at_once() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    dials = Dials(pair, Dial.REFUSED)
    session = pair.connect()
    pair.a.send(session, 1)
    pair.pass_time(3.1)
    dials.answer = Dial.ACCEPTED
    assert pair.run_until(lambda: pair.b.tids == [1], 60.0)
    dials.times_s.clear()
    dials.answer = Dial.REFUSED
    cut_at_s = pair.clock.now
    pair.wire.cut()
    pair.pass_time(3.1)
    assert dials.times_s == pytest.approx([cut_at_s + after_s for after_s in (0.0, 0.2, 0.6, 1.4, 3.0)])


def test_a_dial_out_of_standby_begins_with_the_shortest_pause() -> None:
    pair = Pair(LOSSLESS_PEER)
    dials = Dials(pair, Dial.REFUSED)
    session = pair.connect()
    pair.a.send(session, 1)
    pair.pass_time(3.1)
    dials.answer = Dial.ACCEPTED
    assert pair.run_until(lambda: pair.b.tids == [1], 60.0)
    pair.drive()
    pair.wire.cut()
    pair.drive()
    assert session.state is SessionState.STANDBY
    dials.answer = Dial.REFUSED
    dials.times_s.clear()
    pair.a.send(session, 2)
    pair.pass_time(1.5)
    assert dials.pauses_s == pytest.approx([0.2, 0.4, 0.8])


def test_refused_then_up() -> None:
    """The listener appears after three seconds: refused events first, then the session opens (HS-18)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    dials = Dials(pair, Dial.REFUSED)
    pair.a.send(pair.connect(), 1, 2)
    pair.pass_time(2.9)
    dials.answer = Dial.ACCEPTED
    assert pair.run_until(lambda: pair.b.tids == [1, 2], 5.0)
    assert pair.a.kinds == [EventKind.REFUSED] * 4 + [EventKind.CONNECT]


def test_a_session_has_one_dial_under_way_at_most() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    Dials(pair, Dial.UNANSWERED)
    session = pair.connect()
    for second in range(100):
        pair.a.send(session, second)
        pair.a.endpoint.send_keepalive(session, pair.clock.now)
        pair.pass_time(1.0)
        assert pair.a.endpoint.link_count <= 1


# ---- the ready timeout


@pytest.mark.parametrize("timeout_s", [10.0, 2.0])
def test_a_dial_without_an_answer_is_given_up_and_tried_again(timeout_s: float) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_connection_ready_timeout=timeout_s)
    dials = Dials(pair, Dial.UNANSWERED)
    pair.connect()
    pair.pass_time(3 * timeout_s + 1.5)
    assert dials.pauses_s == pytest.approx([timeout_s + pause_s for pause_s in SCHEDULE_S[:3]])
    assert set(pair.a.faults) == {FaultReason.READY_TIMEOUT}
    assert pair.a.kinds == []


def test_timers_that_are_called_late_or_early_do_no_harm() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    node.connect(B_ADDR)
    node.endpoint.timer(5.0)
    node.endpoint.timer(9.999)
    assert node.faults == []
    node.clock.now = 5000.0
    node.endpoint.timer(5000.0)
    node.pump()
    assert node.faults == [FaultReason.READY_TIMEOUT]
    assert node.endpoint.next_deadline() == pytest.approx(5000.2)


# ---- the idle timeout


def test_a_link_without_traffic_is_given_up() -> None:
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER)
    pair.established()
    pair.pass_time(899.0)
    assert pair.a.faults == pair.b.faults == []
    pair.pass_time(2.0)
    assert FaultReason.IDLE_TIMEOUT in pair.a.faults + pair.b.faults
    assert pair.a.endpoint.sessions == pair.b.endpoint.sessions == []


@pytest.mark.parametrize("what", ["message", "keepalive", "answer"])
def test_traffic_in_either_direction_moves_the_idle_deadline(what: str) -> None:
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, ms_connection_idle_timeout=10.0)
    mine, theirs = pair.established()
    for _ in range(5):
        pair.pass_time(9.0)
        if what == "message":
            pair.a.send(mine, 1)
        elif what == "keepalive":
            pair.a.endpoint.send_keepalive(mine, pair.clock.now)
        else:
            pair.b.send(theirs, 1)
        pair.drive()
    assert pair.a.faults == pair.b.faults == []
    pair.pass_time(10.1)
    assert len(pair.a.faults + pair.b.faults) > 0


def test_queued_but_unwritten_messages_do_not_prevent_the_idle_timeout() -> None:
    """The socket takes nothing: the idle timer fires although the application goes on sending (KA-03)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_connection_idle_timeout=10.0)
    mine, _ = pair.established()
    pair.wire.hold()
    for number in range(1, 12):
        pair.a.send(mine, number)
        pair.drive()
        pair.clock.now += 1.0
    pair.pass_time(0.1)
    assert pair.a.faults[0] is FaultReason.IDLE_TIMEOUT
    assert pair.b.tids == list(range(1, 12))


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (LOSSLESS_PEER, SessionState.STANDBY),
        (LOSSLESS_CLIENT, SessionState.CONNECTING),
        (LOSSY_CLIENT, SessionState.CONNECTING),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_state_after_an_idle_timeout_depends_on_the_policy(policy: Policy, state: SessionState) -> None:
    node = new_node(policy=policy, ms_connection_idle_timeout=1.0)
    meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    node.run(1.5)
    assert node.faults[0] is FaultReason.IDLE_TIMEOUT
    assert session.state is state


def test_the_wall_clock_is_not_asked() -> None:
    """Deadlines are monotonic: the keepalive's stamp is the only use of unix time (KA-06)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.a.endpoint.wall_offset_s -= 3600.0
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    pair.pass_time(60.0)
    assert pair.a.faults == pair.b.faults == []
    assert mine.keepalive_acked_s == pytest.approx(pair.a.endpoint.wall_time_s(0.0))


# ---- standby


def in_standby(policy: Policy = LOSSLESS_PEER) -> Pair:
    """Two idle peers whose link broke."""
    pair = Pair(policy)
    pair.established()
    pair.wire.cut()
    pair.drive()
    assert [session.state for node in pair.nodes for session in node.endpoint.sessions] == [
        SessionState.STANDBY
    ] * 2
    return pair


def test_standby_costs_nothing() -> None:
    pair = in_standby()
    pair.pass_time(100_000.0)
    for node in pair.nodes:
        assert node.endpoint.link_count == 0
        assert node.endpoint.next_deadline() is None
        assert node.endpoint.held_bytes == {}
    assert len(pair.wires) == 1


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("by", ["message", "keepalive"])
@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_standby_is_left_when_there_is_something_to_send(policy: Policy, by: str, side: int) -> None:
    pair = in_standby(policy)
    node, other = pair.nodes[side], pair.nodes[1 - side]
    (session,) = node.endpoint.sessions
    if by == "message":
        node.send(session, 5)
    else:
        node.endpoint.send_keepalive(session, pair.clock.now)
    pair.drive()
    assert len(pair.wires) == 2
    assert session.state is SessionState.READY
    assert session.connect_seq == 1
    assert other.tids == ([5] if by == "message" else [])
    assert (session.keepalive_acked_s > 0) == (by == "keepalive")
    assert EventKind.REMOTE_RESET not in pair.a.kinds + pair.b.kinds


@pytest.mark.parametrize("by", ["message", "keepalive"])
def test_a_server_in_standby_waits_for_its_client(by: str) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    _, theirs = pair.established()
    dials = Dials(pair, Dial.REFUSED)
    pair.wire.cut()
    pair.drive()
    if by == "message":
        pair.b.send(theirs, 5)
    else:
        pair.b.endpoint.send_keepalive(theirs, pair.clock.now)
    pair.pass_time(30.0)
    assert theirs.state is SessionState.STANDBY
    assert pair.b not in dials.by
    dials.answer = Dial.ACCEPTED
    assert pair.run_until(lambda: theirs.state is SessionState.READY, 30.0)
    assert pair.a.tids == ([5] if by == "message" else [])


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_waking_finds_that_the_peer_lost_the_session(policy: Policy) -> None:
    pair = in_standby(policy)
    (session,) = pair.a.endpoint.sessions
    pair.b.mark_down(pair.b.endpoint.sessions[0])
    pair.a.send(session, 1)
    pair.drive()
    assert session.state is SessionState.READY
    assert EventKind.REMOTE_RESET in pair.a.kinds
    pair.a.send(session, 2)
    pair.drive()
    assert pair.b.tids == [2]


def test_marking_down_frees_a_session_in_standby_and_all_it_holds() -> None:
    """A client is gone for ever while its server goes on sending: visible, and freed by mark_down (LS-10)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    _, theirs = pair.established()
    pair.crash(pair.a)
    pair.drive()
    pair.b.send(theirs, *range(1, 1001))
    pair.pass_time(1000.0)
    assert pair.b.endpoint.snapshot()["queued"] == 1000
    pair.b.mark_down(theirs)
    assert set(pair.b.endpoint.snapshot().values()) == {0}


def test_waiting_is_cut_short_by_the_winner() -> None:
    winner = "v2:10.0.0.9:6809/0"
    node = new_node(policy=LOSSLESS_PEER)
    session = node.connect(winner)
    node.send(session, 1)
    peer = RawPeer(node, addr=winner).accept()
    peer.handshake(until=peer.ident)
    peer.send(Wait())
    assert session.state is SessionState.WAIT
    node.run(5.0)
    RawPeer(node, addr=winner).dial().handshake()
    assert session.state is SessionState.READY
    node.run(60.0)
    assert node.endpoint.link_count == 1
    assert node.faults == [FaultReason.RACE]
