"""Two processes with the same address and nonce (RS-07): neither knows of the other, and both want to talk."""

import pytest

from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER, Policy
from tests.support.network import Pair
from tests.support.node import Node, new_endpoint

WATCHED_S = 10.0
MOST_DIALS_PER_S = 25
LONGEST_PAUSE_S = 16.0


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize(
    ("policy", "peer_policy"),
    [
        (LOSSLESS_PEER, LOSSLESS_PEER),
        (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
        (LOSSLESS_CLIENT, STATEFUL_SERVER),
    ],
    ids=lambda policy: policy.name,
)
def test_two_processes_of_one_entity_take_turns_at_a_bounded_rate(
    policy: Policy, peer_policy: Policy, protocol: Protocol
) -> None:
    """On this network nothing takes time: without a pause there would be no end within an instant."""
    pair = Pair(peer_policy, policy, protocol=protocol)
    twin = new_endpoint(EntityName(EntityType.OSD, 2), pair.b_addr, policy=policy, seed=99)
    double = Node(twin, pair.clock)
    pair.nodes.append(double)  # it dials, but the listener is the other's
    for node, number in ((pair.b, 1), (double, 2)):
        session = node.connect(pair.a_addr)
        node.send(session, number)
    pair.pass_time(WATCHED_S)
    assert {1, 2} <= set(pair.a.tids)
    assert len(pair.wires) < MOST_DIALS_PER_S * WATCHED_S
    assert len(pair.a.endpoint.sessions) == 1
    pair.nodes.remove(double)
    pair.pass_time(LONGEST_PAUSE_S)
    (session,) = pair.b.endpoint.sessions
    for number in (3, 4):  # with the first one it may find out that its session is gone
        pair.b.send(session, number)
        pair.pass_time(LONGEST_PAUSE_S)
    assert pair.a.tids[-1] == 4


@pytest.mark.parametrize("protocol", Protocol)
def test_a_message_that_breaks_every_link_is_replayed_at_a_bounded_rate(protocol: Protocol) -> None:
    pair = Pair(STATEFUL_SERVER, LOSSLESS_CLIENT, protocol=protocol, unknown_message="fault")
    session = pair.b.connect(pair.a_addr)
    pair.b.endpoint.send(session, Message(0x7F01, data=b"nobody knows this"), 0.0)
    pair.pass_time(WATCHED_S)
    assert len(pair.wires) < MOST_DIALS_PER_S * WATCHED_S
    assert set(pair.a.faults) == {FaultReason.UNKNOWN_MESSAGE}
    assert set(pair.b.kinds) == {EventKind.CONNECT, EventKind.REFUSED}
    assert session.last_fault is not None
    assert session.last_fault.reason is FaultReason.SHORT_LIVED
    assert "<Message unknown(32513) v1 seq 0 tid 0 0+0+17 bytes>" in str(session.last_fault)
    pair.a.endpoint.configure(unknown_message="drop")
    pair.b.send(session, 1)
    pair.pass_time(LONGEST_PAUSE_S)
    assert pair.a.tids == [1]
    assert session.last_fault is None


def test_some_links_that_break_at_once_are_dialled_again_at_once() -> None:
    """As Ceph does, and again as soon as a link has lasted."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    pair.established()
    for _ in range(2):
        for _ in range(8):
            before = len(pair.wires)
            pair.wire.cut()
            pair.drive()
            assert len(pair.wires) == before + 1
        pair.wire.cut()
        pair.drive()
        assert len(pair.wires) == before + 1
        pair.pass_time(0.2)
        assert len(pair.wires) == before + 2
        pair.pass_time(0.2)
        pair.wire.cut()
        pair.drive()
