"""What a frame declares is taken from the throttles when its head is read; memory grows with what arrives."""

import tracemalloc

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_PEER, ThrottleLimit
from messenger.v2.preamble import build_preamble
from messenger.v2.wire import Tag
from tests.support.both import V2, Side, on_both
from tests.support.node import Node, new_node
from tests.support.raw_peer import RawPeer, meet

MIB = 1 << 20
DECLARED = 500 * MIB


def ready(**options: object) -> tuple[Node, RawPeer]:
    node = new_node(**options)
    return node, meet("acceptor", node).handshake()


def only_head(peer: RawPeer, data_bytes: int) -> None:
    """Declare a message with that much data, and send its preamble and one byte more."""
    peer.write(build_preamble(Tag.MESSAGE, (41, 0, 0, data_bytes)) + b"\0")


@pytest.mark.parametrize("declared_bytes", [4 * MIB, 16 * MIB, DECLARED])
def test_a_head_alone_costs_no_memory(declared_bytes: int) -> None:
    node, peer = ready()
    tracemalloc.start()
    try:
        only_head(peer, declared_bytes)
        grown_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown_bytes < 2 * MIB
    assert node.faults == []


@on_both
def test_memory_before_authentication_grows_with_the_received_bytes(side: Side) -> None:
    node = side.new_node()
    stranger = side.meet("acceptor", node)
    stranger.banner()
    if side is V2:
        frame = build_preamble(Tag.HELLO, (100 * 1024, 0, 0, 0)) + bytes(100 * 1024)
    else:
        stranger.identify()
        frame = stranger.connect_message(authorizer=bytes(100 * 1024)).encode()
    stranger.write(frame[:33])
    assert node.endpoint.held_bytes[stranger.link] < 32 * 1024
    stranger.write(frame[33 : 60 * 1024])
    assert 60 * 1024 < node.endpoint.held_bytes[stranger.link] < 128 * 1024
    assert node.faults == []


def test_declared_size_is_taken_from_all_throttles() -> None:
    policy = LOSSLESS_PEER.throttled(messages=ThrottleLimit("m", 10), size_bytes=ThrottleLimit("b", 600 * MIB))
    node, peer = ready(policy=policy)
    only_head(peer, DECLARED)
    endpoint = node.endpoint
    assert [endpoint.throttle(name).value for name in ("m", "b")] == [1, DECLARED]
    assert (endpoint.dispatch_messages.value, endpoint.dispatch_throttle.value) == (1, DECLARED)
    peer.hang_up()
    node.pump()
    assert [throttle.value for throttle in endpoint.all_throttles] == [0, 0, 0, 0]


@on_both
@pytest.mark.parametrize("size_bytes", [100, 40_000, 3 * MIB, 9 * MIB])
@pytest.mark.parametrize("piece_bytes", [1000, 33_333, 1 << 30])
def test_frames_arrive_whole_through_buffers_that_grow(side: Side, size_bytes: int, piece_bytes: int) -> None:
    node, peer = side.ready()
    data = bytes(range(256)) * (size_bytes // 256 + 1)
    raw = b"".join(peer.message(seq, data=data[:size_bytes]) for seq in (1, 2, 3))
    if piece_bytes == 1000 and size_bytes > MIB:
        piece_bytes = 100_000
    for start in range(0, len(raw), piece_bytes):
        peer.write(raw[start : start + piece_bytes])
    assert [bytes(message.data) == data[:size_bytes] for _, message in node.delivered] == [True] * 3
    assert node.endpoint.dispatch_throttle.value == 0


# ---- the rest of a frame


@on_both
def test_a_trickle_is_cut_off(side: Side) -> None:
    node, peer = side.ready(frame_timeout_s=30.0, frame_min_bytes_per_s=1000)
    raw = peer.message(1, data=bytes(100_000))
    for second in range(31):
        peer.write(raw[second : second + 1])
        node.run(1.0)
    assert node.faults == [FaultReason.FRAME_TIMEOUT]
    assert "31 bytes of it in 30 s" in node.fault_texts[0]
    assert node.endpoint.dispatch_throttle.value == 0


@on_both
def test_a_slow_frame_that_keeps_its_rate_arrives(side: Side) -> None:
    node, peer = side.ready(frame_timeout_s=30.0, frame_min_bytes_per_s=1000)
    raw = peer.message(1, data=bytes(100_000))
    for start in range(0, len(raw), 1001):
        peer.write(raw[start : start + 1001])
        node.run(1.0)
    assert (node.tids, node.faults) == ([1], [])


@on_both
def test_paused_time_does_not_count_for_the_frame_timeout(side: Side) -> None:
    node, peer = side.ready(ms_dispatch_throttle_bytes=200_000, frame_min_bytes_per_s=1000)
    node.hoarding = True
    peer.write(peer.message(1, data=bytes(150_000)))
    raw = peer.message(2, data=bytes(150_000))
    peer.write(raw[:1000])
    assert peer.paused
    node.run(500.0)
    node.release()
    peer.pump()
    node.run(29.0)
    assert node.faults == []
    peer.write(raw[1000:])
    assert node.tids == [1, 2]


@on_both
def test_complete_frames_have_no_deadline(side: Side) -> None:
    node, peer = side.ready()
    raw = peer.message(1, data=bytes(50_000))
    peer.write(raw[:40_000])
    peer.write(raw[40_000:])
    node.run(200.0)
    assert (node.tids, node.faults) == ([1], [])
    assert node.endpoint.resources()["timers"] == 1  # that of an idle link


# ---- frames that are no messages


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_limits_before_authentication_hold_for_control_frames_after_it(mode: ConMode) -> None:
    node = new_node(auth="cephx", mode=mode)
    peer = meet("acceptor", node, auth="cephx", mode=mode)
    peer.handshake(until=peer.ident)
    peer.write(peer.writer.control(Tag.CLIENT_IDENT, bytes(200_000)))
    assert node.faults == [FaultReason.OVERSIZE]
