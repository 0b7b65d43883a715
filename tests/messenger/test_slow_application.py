"""An application that keeps what it gets: its links are neither dead nor idle, and take turns.

See docs/protocol.md §3.10.
"""

from collections import Counter

import pytest

from messenger.config import Config
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_PEER, STATELESS_REGISTERED_SERVER, Policy, ThrottleLimit
from messenger.session.session import SessionState
from messenger.v1 import wire as v1
from messenger.v2 import wire as v2
from tests.support.both import Side, on_both
from tests.support.node import Node

FULL = bytes(1000)
POLICIES = (LOSSLESS_PEER, STATELESS_REGISTERED_SERVER)
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def full(side: Side, policy: Policy = LOSSLESS_PEER, **options: object) -> tuple[Node, object]:
    """A node whose application holds all that the dispatch throttle allows."""
    node, peer = side.ready(policy=policy, ms_dispatch_throttle_bytes=len(FULL), **options)
    node.hoarding = True
    peer.write(peer.message(1, data=FULL))
    assert node.tids == [1]
    return node, peer


@on_both
def test_acks_and_keepalives_pass_a_full_throttle(side: Side) -> None:
    node, peer = full(side)
    (session,) = node.endpoint.sessions
    node.send(session, 7)
    peer.rest()
    wire = v1 if side.name == "v1" else v2
    peer.send(wire.Ack(1), wire.KeepAlive2(5, 0))
    peer.write(peer.message(2, data=b"x"))
    assert not session.queue.sent
    assert wire.KeepAlive2Ack(5, 0) in peer.rest()
    assert (node.tids, peer.paused) == ([1], True)
    node.release()
    peer.pump()
    assert (node.tids, peer.paused) == ([1, 2], False)


@on_both
@by_policy
def test_a_link_that_is_not_read_is_neither_silent_nor_idle(side: Side, policy: Policy) -> None:
    node, peer = full(side, policy)
    (session,) = node.endpoint.sessions
    node.endpoint.keep_alive(session, 10.0, 30.0, node.now)
    peer.write(peer.message(2, data=b"waits"))
    node.run(2000.0)
    assert (session.state, node.faults) == (SessionState.READY, [])
    node.release()
    node.pump()
    assert node.tids == [1, 2]
    node.run(29.0)
    assert node.faults == []
    node.run(12.0)  # now the peer could be heard, and says nothing
    assert node.faults == [FaultReason.KEEPALIVE_TIMEOUT]


@on_both
def test_idle_time_counts_from_the_resumption_of_reading(side: Side) -> None:
    node, peer = full(side, ms_connection_idle_timeout=100.0)
    peer.write(peer.message(2, data=b"waits"))
    node.run(1000.0)
    node.release()
    node.run(99.0)
    assert node.faults == []
    node.run(102.0)
    assert node.faults == [FaultReason.IDLE_TIMEOUT]


@on_both
@pytest.mark.parametrize("throttle", ["dispatch", "messages", "bytes"])
def test_behind_a_full_throttle_links_take_turns(side: Side, throttle: str) -> None:
    """Each message that is released admits one of the link that has waited longest."""
    limits = {
        "dispatch": {"ms_dispatch_throttle_bytes": 300},
        "messages": {"policy": LOSSLESS_PEER.throttled(messages=ThrottleLimit("m", 3))},
        "bytes": {"policy": LOSSLESS_PEER.throttled(size_bytes=ThrottleLimit("b", 300))},
    }
    node = side.new_node(**limits[throttle])
    node.hoarding = True
    peers = [
        side.another(node, number, name=EntityName(EntityType.OSD, number)).handshake() for number in (2, 3, 4)
    ]
    for peer in peers:
        peer.write(b"".join(peer.message(seq, data=bytes(100)) for seq in range(1, 41)))
    for _ in range(90):
        node.release(1)
        node.pump()
    counts = Counter(session.id for session, _ in node.delivered)
    assert len(node.delivered) == 93
    assert max(counts.values()) - min(counts.values()) <= 3


@on_both
def test_messages_without_a_body_count(side: Side) -> None:
    node, peer = side.ready(max_held_messages=5)
    node.hoarding = True
    peer.write(b"".join(peer.message(seq) for seq in range(1, 21)))
    assert (node.tids, peer.paused) == (list(range(1, 6)), True)
    node.release(2)
    peer.pump()
    assert node.tids == list(range(1, 8))
    while node.held:
        node.release()
        peer.pump()
    assert node.tids == list(range(1, 21))
    assert node.endpoint.dispatch_messages.value == 0


def test_the_limit_of_messages_follows_that_of_bytes() -> None:
    limits = [Config(ms_dispatch_throttle_bytes=size).held_messages_limit for size in (0, 1, 1 << 20, 100 << 20)]
    assert limits == [0, 1024, 4096, 409600]
    assert Config(max_held_messages=3).held_messages_limit == 3


@on_both
def test_larger_limit_resumes_waiting_links(side: Side) -> None:
    node, peer = full(side)
    peer.write(peer.message(2, data=FULL))
    assert node.tids == [1]
    node.endpoint.configure(ms_dispatch_throttle_bytes=2 * len(FULL))
    node.pump()
    assert node.tids == [1, 2]
