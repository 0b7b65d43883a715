"""Faults a messenger does to itself (docs/protocol.md §7.2; families TH, ST; TM27 to TM31, QA19)."""

from itertools import accumulate

import pytest

from messenger.denc.entity import EntityName, EntityType
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
    ThrottleLimit,
)
from messenger.session.session import SessionState
from tests.support.network import Pair
from tests.support.node import A_ADDR, Node, new_node
from tests.support.raw_peer import RawPeer, meet
from tests.support.raw_v1 import A_V1_ADDR
from tests.support.raw_v1 import meet as meet_v1

PAIRS = [
    (LOSSLESS_CLIENT, STATEFUL_SERVER),
    (LOSSLESS_PEER, LOSSLESS_PEER),
    (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
]


def injections(node: Node, option: str) -> list[str]:
    """Return the injections of one option in a node's history."""
    records = [record.fields for record in node.trace if record.kind == "inject"]
    return [str(fields["detail"]) for fields in records if fields["option"] == option]


def test_injector_is_absent_by_default() -> None:
    assert new_node().endpoint.injector is None


# ---- socket failures


@pytest.mark.parametrize(("policy", "peer_policy"), PAIRS, ids=lambda policy: policy.name)
@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("seed", range(4))
def test_lossless_traffic_survives_socket_failures(
    policy: Policy, peer_policy: Policy, protocol: Protocol, seed: int
) -> None:
    """TM27, TM28, V1-20: everything arrives, once and in order, in both directions."""
    options = {"ms_inject_socket_failures": 30, "ms_inject_internal_delays": 0.1}
    pair = Pair(policy, peer_policy, seed=seed, protocol=protocol, **options)
    mine = pair.connect()
    pair.run_until(lambda: mine.state is SessionState.READY, 60.0)
    for number in range(1, 61):
        pair.a.send(mine, number)
        for session in pair.b.endpoint.sessions[-1:]:
            pair.b.send(session, number)
        pair.pass_time(0.02)
    assert pair.run_until(lambda: len(pair.b.tids) == 60, 120.0)
    assert pair.run_until(
        lambda: {pair.a.endpoint.snapshot()["sent"], pair.b.endpoint.snapshot()["sent"]} == {0}, 120.0
    )
    assert pair.b.tids == list(range(1, 61))
    assert pair.a.tids == sorted(set(pair.a.tids))
    assert any(injections(node, "ms_inject_socket_failures") for node in (pair.a, pair.b))
    for node in pair.a, pair.b:
        assert node.endpoint.dispatch_throttle.value == 0


def test_lossy_sessions_are_reset() -> None:
    """TM29."""
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, seed=1, ms_inject_socket_failures=10)
    resets = 0
    for _ in range(10):
        session = pair.connect()
        pair.run_until(lambda session=session: session.state is SessionState.READY, 60.0)
        for number in range(20):
            if session.state is not SessionState.CLOSED:
                pair.a.send(session, number)
            pair.pass_time(0.01)
        resets += session.state is SessionState.CLOSED
        pair.a.mark_down(session)
        pair.drive()
    assert resets > 3


@pytest.mark.parametrize("role", ["connector", "acceptor"])
@pytest.mark.parametrize("protocol", Protocol)
def test_each_piece_of_a_message_may_find_the_socket_shut_down(protocol: Protocol, role: str) -> None:
    """As in Ceph, however many messages one read brings: here 60 with header, data and what surrounds them."""
    found = 0
    for seed in range(20):
        addr = A_V1_ADDR if protocol is Protocol.V1 else A_ADDR
        node = new_node(addr, policy=LOSSLESS_PEER, seed=seed)
        peer = (meet_v1 if protocol is Protocol.V1 else meet)(role, node).handshake()
        node.endpoint.configure(ms_inject_socket_failures=100)
        peer.write(b"".join(peer.message(seq, data=b"x") for seq in range(1, 61)))
        assert node.tids == list(range(1, 61))
        found += "read" in injections(node, "ms_inject_socket_failures")
    assert 14 <= found <= 20  # 0.99 ** 240 is 0.09


def test_failure_rate_of_one_in_one_fails_every_dial() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_inject_socket_failures=1)
    session = pair.connect()
    pair.pass_time(30.0)
    assert session.state is SessionState.CONNECTING
    assert EventKind.CONNECT not in pair.a.kinds


def test_the_same_seed_injects_the_same() -> None:
    def history(seed: int) -> list[tuple[float, str]]:
        pair = Pair(LOSSLESS_PEER, seed=seed, ms_inject_socket_failures=20, ms_inject_network_congestion=2)
        session = pair.connect()
        for number in range(30):
            pair.a.send(session, number)
            pair.pass_time(0.1)
        return [(record.time_s, record.kind) for node in (pair.a, pair.b) for record in node.trace]

    assert history(7) == history(7)
    assert history(7) != history(8)


# ---- internal delays


def test_handshakes_pause_where_races_are_decided() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_inject_internal_delays=0.5)
    session = pair.connect()
    assert pair.run_until(lambda: session.state is SessionState.READY, 10.0)
    # b pauses before it looks for an existing session, and before it answers
    assert pair.clock.now == pytest.approx(1.0)


def test_a_socket_error_is_noticed_later() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_inject_internal_delays=0.5)
    session = pair.connect()
    pair.run_until(lambda: session.state is SessionState.READY, 10.0)
    pair.wire.cut(pair.a)
    pair.pass_time(0.4)
    assert session.state is SessionState.READY
    pair.pass_time(0.2)
    assert session.state is SessionState.CONNECTING


def test_a_race_with_pauses_still_ends_with_one_session() -> None:
    pair = Pair(LOSSLESS_PEER, ms_inject_internal_delays=0.3)
    mine, theirs = pair.connect(), pair.b.connect("v2:10.0.0.1:6801/1")
    pair.a.send(mine, 1)
    pair.b.send(theirs, 2)
    assert pair.run_until(lambda: pair.b.tids == [1] and pair.a.tids == [2], 60.0)
    for node in pair.a, pair.b:
        assert node.endpoint.snapshot()["registry"] == 1


# ---- delayed delivery

DELAYS = {"ms_inject_delay_type": "client osd", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 5.0}


def delaying(policy: Policy = LOSSLESS_PEER, **options: object) -> tuple[Node, RawPeer]:
    """A node that delays what a peer sends."""
    node = new_node(policy=policy, **DELAYS | options)
    return node, meet("acceptor", node).handshake()


def test_messages_are_delayed_up_to_the_maximum_and_stay_in_order() -> None:
    node, peer = delaying()
    peer.send_messages(*range(1, 21))
    assert node.tids == []
    assert node.endpoint.dispatch_throttle.value == 0  # these have no data
    node.run(2.5)
    assert 0 < len(node.tids) < 20
    node.run(2.5)
    assert node.tids == list(range(1, 21))
    assert len(injections(node, "ms_inject_delay_probability")) == 20


def test_delayed_messages_are_acknowledged_at_once() -> None:
    _, peer = delaying()
    peer.rest()
    peer.send_messages(1, 2)
    assert [type(frame).__name__ for frame in peer.rest()] == ["Ack"]


def test_a_message_without_delay_waits_behind_a_delayed_one() -> None:
    node, peer = delaying()
    peer.send_messages(1)
    node.endpoint.configure(ms_inject_delay_probability=0.0)
    peer.send_messages(2, 3)
    (drawn,) = injections(node, "ms_inject_delay_probability")
    delay_s = float(drawn.removeprefix("seq 1 for ").removesuffix(" s"))
    node.run(delay_s - 0.001)
    assert node.tids == []
    node.run(0.002)
    assert node.tids == [1, 2, 3]
    peer.send_messages(4)
    assert node.tids == [1, 2, 3, 4]


def test_a_short_delay_waits_for_a_longer_one_before_it() -> None:
    node, peer = delaying()
    start_s = node.now
    peer.send_messages(*range(1, 21))
    drawn = [float(text.split()[-2]) for text in injections(node, "ms_inject_delay_probability")]
    left_s: dict[int, float] = {}
    while len(left_s) < 20:
        due_s = node.endpoint.next_deadline()
        assert due_s is not None
        node.run(due_s - node.now)
        left_s |= {tid: node.now - start_s for tid in node.tids if tid not in left_s}
    assert list(left_s.values()) == pytest.approx(list(accumulate(drawn, max)), abs=1e-5)


def test_other_types_of_peers_are_not_delayed() -> None:
    node, peer = delaying(ms_inject_delay_type="mon mds")
    peer.send_messages(1)
    assert node.tids == [1]


def test_fault_delivers_delayed_messages() -> None:
    node, peer = delaying(STATELESS_SERVER)
    peer.send_messages(1, 2)
    peer.write(peer.message(3))
    peer.hang_up()
    assert node.log == [EventKind.ACCEPT, 1, 2, 3, EventKind.RESET]


def test_fault_delivers_messages_that_came_with_it() -> None:
    node, peer = delaying(STATELESS_SERVER)
    peer.send_messages(1)
    node.endpoint.link_data(peer.link, peer.message(2), node.now)
    node.endpoint.link_eof(peer.link, node.now)
    node.pump()
    assert node.log == [EventKind.ACCEPT, 1, 2, EventKind.RESET]
    node.run(10.0)
    assert node.log[-1] is EventKind.RESET


@pytest.mark.parametrize("how", ["mark_down", "reset"])
def test_end_of_a_session_drops_delayed_messages(how: str) -> None:
    policy = LOSSLESS_CLIENT.throttled(messages=ThrottleLimit("messages", 10))
    node, peer = delaying(policy)
    peer.write(peer.message(1, data=bytes(100)))
    (throttle,) = node.endpoint.throttles
    assert (node.endpoint.dispatch_throttle.value, throttle.value) == (100, 1)
    if how == "mark_down":
        node.mark_down(node.endpoint.sessions[0])
        node.pump()
    else:
        again = RawPeer(node).dial()
        again.handshake(until=again.ident)
        again.send(again.client_ident(client_cookie=4711, global_seq=2))
    node.run(10.0)
    assert node.tids == []
    assert (node.endpoint.dispatch_throttle.value, throttle.value) == (0, 0)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("seed", range(3))
def test_lossless_traffic_with_failures_and_delays(protocol: Protocol, seed: int) -> None:
    """TM30, V1-19."""
    pair = Pair(LOSSLESS_PEER, seed=seed, protocol=protocol, ms_inject_socket_failures=30, **DELAYS)
    session = pair.connect()
    for number in range(1, 41):
        pair.a.send(session, number)
        pair.pass_time(0.2)
    assert pair.run_until(lambda: len(pair.b.tids) == 40, 200.0)
    assert pair.b.tids == list(range(1, 41))
    pair.pass_time(20.0)
    assert pair.b.endpoint.dispatch_throttle.value == 0


# ---- congestion


@pytest.mark.parametrize("protocol", Protocol)
def test_congestion_delays_writes_and_loses_no_message(protocol: Protocol) -> None:
    """TH-08, TM31: one attempt in so many gets through."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    mine, _ = pair.established()
    pair.a.endpoint.configure(ms_inject_network_congestion=100)
    for number in range(1, 21):
        pair.a.send(mine, number, size_bytes=600_000)
    pair.drive()
    assert len(pair.b.tids) < 5
    link = mine.link
    assert link is not None
    assert link.unwritten_bytes >= pair.a.endpoint.config.write_ahead_bytes  # back-pressure is felt
    assert pair.a.endpoint.snapshot()["queued"] > 0
    assert pair.run_until(lambda: pair.b.tids == list(range(1, 21)), 60.0)
    assert pair.clock.now > 0.1
    assert injections(pair.a, "ms_inject_network_congestion")


def test_congestion_of_one_does_not_delay_messages() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, ms_inject_network_congestion=1)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.drive()
    assert pair.b.tids == [1]


def test_held_back_bytes_are_dropped_with_their_link() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.a.endpoint.configure(ms_inject_network_congestion=1_000_000)
    pair.a.send(mine, 1)
    pair.drive()
    pair.wire.cut()
    pair.a.endpoint.configure(ms_inject_network_congestion=0)
    pair.pass_time(5.0)
    assert pair.b.tids == [1]
    assert pair.a.endpoint.injector is not None
    assert pair.a.endpoint.injector.held_back == 0


# ---- black holes


@pytest.mark.parametrize("label", ["osd", "mon", "mds", "mgr", "client"])
def test_messages_of_a_type_of_peer_vanish(label: str) -> None:
    """QA19, NF-21: the connection lives, received messages are acknowledged."""
    policy = LOSSLESS_PEER.throttled(messages=ThrottleLimit("messages", 10))
    node = new_node(policy=policy, **{f"ms_blackhole_{label}": True})
    peer = meet("acceptor", node, name=EntityName(EntityType.from_label(label), 2)).handshake()
    peer.rest()
    peer.write(peer.message(1, data=bytes(100)))
    assert node.tids == []
    assert [type(frame).__name__ for frame in peer.rest()] == ["Ack"]
    (session,) = node.endpoint.sessions
    node.send(session, 5)
    node.endpoint.send_keepalive(session, node.now)
    peer.pump()
    assert [type(frame).__name__ for frame in peer.rest()] == ["KeepAlive2"]
    assert node.endpoint.dispatch_throttle.value == 0
    assert [throttle.value for throttle in node.endpoint.throttles] == [0]
    node.endpoint.configure(**{f"ms_blackhole_{label}": False})
    peer.send_messages(2)
    assert node.tids == [2]


def test_other_types_of_peers_are_heard() -> None:
    node = new_node(ms_blackhole_client=True)
    peer = meet("acceptor", node).handshake()
    peer.send_messages(1)
    assert node.tids == [1]


# ---- changing options


def test_options_change_while_a_messenger_runs() -> None:
    node = new_node()
    with pytest.raises(LocalError, match="ms_inject_nothing"):
        node.endpoint.configure(ms_inject_nothing=1)
    with pytest.raises(LocalError, match="ms_inject_delay_probability"):
        node.endpoint.configure(ms_blackhole_osd=True, ms_inject_delay_probability=2.0)
    assert not node.endpoint.config.ms_blackhole_osd
    assert node.endpoint.injector is None
    node.endpoint.configure(ms_blackhole_osd=True)
    assert node.endpoint.injector is not None


def test_delayed_messages_count_as_queued_in_the_snapshot() -> None:
    node, peer = delaying()
    assert node.endpoint.snapshot()["queued"] == 0
    peer.send_messages(1, 2, 3)
    assert node.endpoint.snapshot()["queued"] == 3
    node.run(5.0)
    assert node.tids == [1, 2, 3]
    assert node.endpoint.snapshot()["queued"] == 0
