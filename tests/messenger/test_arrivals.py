"""Peers that declare messages and do not send them keep no other link waiting (docs/protocol.md §3.10)."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_PEER, ThrottleLimit
from tests.support.both import V1, V2, Side, on_both
from tests.support.node import Node

KIB = 1 << 10
MIB = 1 << 20
HEAD_BYTES = 100
"""More than the head of a message on the wire takes, in either protocol."""


def crowd(side: Side, count: int, **options: Any) -> tuple[Node, list[Any]]:
    """A node and so many peers, each with an open session."""
    node = side.new_node(**options)
    numbers = range(2, 2 + count)
    peers = [side.another(node, number, name=EntityName(EntityType.OSD, number)) for number in numbers]
    return node, [peer.handshake() for peer in peers]


def values(node: Node) -> list[int]:
    """Return the values of a node's throttles."""
    return [throttle.value for throttle in node.endpoint.all_throttles]


@on_both
@pytest.mark.parametrize("throttle", ["dispatch", "policy"])
@pytest.mark.parametrize("declared_bytes", [8 * MIB, MIB, 900 * KIB])
def test_declared_but_unsent_message_does_not_block_other_peers(
    side: Side, throttle: str, declared_bytes: int
) -> None:
    options: dict[str, Any] = {
        "dispatch": {"ms_dispatch_throttle_bytes": MIB},
        "policy": {"policy": LOSSLESS_PEER.throttled(size_bytes=ThrottleLimit("b", MIB))},
    }[throttle]
    node, (first, second, honest) = crowd(side, 3, **options)
    for peer in first, second:
        peer.write(peer.message(1, data=bytes(declared_bytes))[:HEAD_BYTES])
    for seq in range(1, 4):
        honest.write(honest.message(seq, data=bytes(200 * KIB)))
    assert [message.seq for _, message in node.delivered] == [1, 2, 3]
    assert max(values(node)) <= 3 * HEAD_BYTES
    assert node.faults == []


@on_both
def test_message_holds_its_declared_bytes_while_no_other_peer_waits(side: Side) -> None:
    node, (peer,) = crowd(side, 1, ms_dispatch_throttle_bytes=MIB)
    peer.write(peer.message(1, data=bytes(900 * KIB))[:HEAD_BYTES])
    assert node.endpoint.dispatch_throttle.value == 900 * KIB
    peer.hang_up()
    node.pump()
    assert values(node) == [0, 0]


@on_both
@pytest.mark.parametrize("piece_bytes", [1000, 100_000, 10 * MIB])
def test_a_recalled_message_takes_its_bytes_as_they_arrive(side: Side, piece_bytes: int) -> None:
    node, (slow, quick) = crowd(side, 2, ms_dispatch_throttle_bytes=MIB)
    data = bytes(range(256)) * (900 * 4)
    raw = slow.message(1, data=data) + slow.message(2, data=b"next")
    slow.write(raw[:HEAD_BYTES])
    quick.write(quick.message(1, data=bytes(200 * KIB)))
    assert len(node.delivered) == 1
    for start in range(HEAD_BYTES, len(raw), piece_bytes):
        slow.write(raw[start : start + piece_bytes])
    assert [bytes(message.data) for _, message in node.delivered[1:]] == [data, b"next"]
    assert values(node) == [0, 0]


@on_both
def test_messages_in_arrival_that_fill_a_throttle_do_not_wait_for_each_other(side: Side) -> None:
    """Three messages of 900 KiB arrive in turns through a throttle of 1 MiB."""
    node, (quick, *peers) = crowd(side, 4, ms_dispatch_throttle_bytes=MIB)
    raws = {peer: peer.message(1, data=bytes(900 * KIB)) for peer in peers}
    most_bytes = 0
    for start in range(0, len(raws[peers[0]]), 50_000):
        for peer in peers:
            peer.write(raws[peer][start : start + 50_000])
            most_bytes = max(most_bytes, node.endpoint.dispatch_throttle.value)
        if not start:
            quick.write(quick.message(1, data=bytes(300 * KIB)))
    for peer in peers * 2:
        peer.pump()
    assert len(node.delivered) == 4
    assert MIB < most_bytes <= MIB + 900 * KIB
    assert values(node) == [0, 0]


@on_both
def test_silent_peers_that_fill_a_throttle_are_cut_after_the_contended_timeout(side: Side) -> None:
    node, (first, second, honest) = crowd(
        side, 3, ms_dispatch_throttle_bytes=MIB, frame_timeout_contended_s=4.0, frame_min_bytes_per_s=MIB
    )
    for peer in first, second:
        raw = peer.message(1, data=bytes(5 * MIB))
        for start in range(0, 800 * KIB, 50_000):
            peer.write(raw[start : start + 50_000])
    first.write(bytes(50_000))  # exceeds the limit, as one message may
    honest.write(honest.message(1, data=bytes(200 * KIB)))
    assert node.delivered == []
    node.run(6.0)
    assert FaultReason.FRAME_TIMEOUT in node.faults
    assert "others wait for a throttle" in node.fault_texts[0]
    assert [bytes(message.data) for _, message in node.delivered] == [bytes(200 * KIB)]


@on_both
@pytest.mark.parametrize("held", [True, False])
def test_a_message_in_arrival_is_not_blamed_for_a_slow_application(side: Side, held: bool) -> None:  # noqa: FBT001
    """It is cut by the shorter deadline only where a release would not help."""
    node, (slow, other, third) = crowd(
        side, 3, ms_dispatch_throttle_bytes=MIB, max_held_messages=2, frame_timeout_contended_s=4.0
    )
    node.hoarding = held
    slow.write(slow.message(1, data=bytes(500 * KIB))[:HEAD_BYTES])
    if held:
        other.write(other.message(1, data=b"held"))
    else:
        other.write(other.message(1, data=bytes(500 * KIB))[:HEAD_BYTES])
    third.write(third.message(1, data=b"waits"))
    node.run(10.0)
    assert (FaultReason.FRAME_TIMEOUT in node.faults) is not held


@on_both
def test_a_frame_that_waits_for_throttles_again_and_again_has_one_deadline(side: Side) -> None:
    """Its bytes come in a trickle, and each waits for half a second."""
    node, (slow, quick) = crowd(side, 2, ms_dispatch_throttle_bytes=100 * KIB, frame_min_bytes_per_s=MIB)
    raw = slow.message(1, data=bytes(90 * KIB))
    slow.write(raw[:HEAD_BYTES])
    waits = 0
    for second in range(70):
        node.hoarding = True
        quick.write(quick.message(second + 1, data=bytes(100 * KIB)))
        slow.write(raw[HEAD_BYTES + second : HEAD_BYTES + second + 1])
        waits += slow.paused
        node.run(0.5)
        node.hoarding = False
        node.release()
        for peer in slow, quick:
            peer.pump()
        assert not slow.paused
        node.run(0.5)
    assert len(node.delivered) == 70
    assert waits > 50
    assert node.faults == [FaultReason.FRAME_TIMEOUT]


# ---- whatever peers do

PEERS = 4
SIZES = (0, 50, 3 * KIB, 40 * KIB, 120 * KIB, 200 * KIB)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "piece", "piece", "release", "hang_up", "time"]),
        st.integers(0, PEERS - 1),
        st.sampled_from(SIZES),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from([V1, V2]), st.booleans(), st.sampled_from([0, 1, 3]))
def test_throttles_exceed_their_limit_by_one_message_at_most_and_all_messages_arrive(
    steps: list[tuple[str, int, int]],
    side: Side,
    with_policy: bool,  # noqa: FBT001 - drawn
    messages: int,
) -> None:
    """Peers send messages in pieces, stop and hang up; the application keeps messages for a while."""
    limit = 100 * KIB
    policy = LOSSLESS_PEER
    if with_policy:
        policy = policy.throttled(messages=ThrottleLimit("m", messages), size_bytes=ThrottleLimit("b", limit // 2))
    node, peers = crowd(
        side,
        PEERS,
        policy=policy,
        ms_dispatch_throttle_bytes=limit,
        frame_timeout_s=0.0,
        ms_initial_backoff=1000.0,
    )
    node.hoarding = True
    rest: dict[int, bytes] = defaultdict(bytes)
    sent: dict[int, int] = defaultdict(int)
    left: set[int] = set()

    def judge() -> None:
        node.pump()
        for throttle in node.endpoint.all_throttles:
            most = 1 if throttle.counts_messages else max(SIZES)
            assert throttle.value >= 0
            assert not throttle.limit or throttle.value <= throttle.limit + most

    for step, number, size in steps:
        if step == "send" and number not in left:
            sent[number] += 1
            rest[number] += peers[number].message(sent[number], data=bytes(size))
        elif step == "piece" and number not in left:
            piece, rest[number] = rest[number][: size + 1], rest[number][size + 1 :]
            peers[number].write(piece)
        elif step == "release":
            node.release(number + 1)
        elif step == "hang_up" and number not in left and size == SIZES[0]:
            peers[number].hang_up()
            left.add(number)
        elif step == "time":
            node.run(0.1)
        judge()
    node.hoarding = False
    for number in set(range(PEERS)) - left:
        peers[number].write(rest[number])
    for _ in range(sum(sent.values()) + PEERS):
        node.release()
        for number in set(range(PEERS)) - left:
            peers[number].pump()
        judge()
    arrived: dict[str, int] = defaultdict(int)
    for session, message in node.delivered:
        arrived[str(session.peer_name)] += 1
        assert message.seq == arrived[str(session.peer_name)]
    for number in set(range(PEERS)) - left:
        assert arrived[str(peers[number].name)] == sent[number]
    assert set(values(node)) == {0}
    assert (len(node.endpoint.arrivals), node.endpoint.waiting) == (0, 0)
