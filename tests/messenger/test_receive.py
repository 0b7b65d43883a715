"""Received bytes from the transport's buffer to the application, and back-pressure (families TH, LG)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_CLIENT
from tests.support.network import Pair
from tests.support.node import Node, new_node
from tests.support.raw_peer import RawPeer, meet

KIB = 1024
SECURITY = [("none", ConMode.CRC), ("cephx", ConMode.SECURE)]
SIZES = [0, 100, 40 * KIB, 0, 100 * KIB, 31 * KIB, 300 * KIB, 5, 32 * KIB, 33 * KIB, 1000 * KIB, 8]
"""Around every threshold there may be: small ones, and those that deserve a buffer of their own."""

by_security = pytest.mark.parametrize(("auth", "mode"), SECURITY)


def ready(auth: str, mode: ConMode, **options: object) -> tuple[Node, RawPeer]:
    node = new_node(auth=auth, mode=mode, policy=LOSSLESS_CLIENT, **options)
    return node, meet("connector", node, auth=auth, mode=mode).handshake()


def content(number: int, size: int) -> bytes:
    return (b"%08d" % number * (size // 8 + 1))[:size]


def stream(peer: RawPeer, sizes: list[int]) -> bytes:
    return b"".join(peer.message(number, data=content(number, size)) for number, size in enumerate(sizes, 1))


def check(node: Node, sizes: list[int]) -> None:
    """Every message has arrived as it was sent."""
    assert node.faults == []
    assert node.tids == list(range(1, len(sizes) + 1))
    for (_, message), (number, size) in zip(node.delivered, enumerate(sizes, 1), strict=True):
        assert bytes(message.data) == content(number, size)


@by_security
@pytest.mark.parametrize("piece_bytes", [997, 4 * KIB, 32 * KIB, 64 * KIB, 1 << 30])
def test_messages_of_all_sizes_in_pieces_of_all_sizes(auth: str, mode: ConMode, piece_bytes: int) -> None:
    node, peer = ready(auth, mode)
    raw = stream(peer, SIZES)
    for start in range(0, len(raw), piece_bytes):
        peer.write(raw[start : start + piece_bytes])
    check(node, SIZES)
    assert set(node.endpoint.held_bytes.values()) == {0}


@by_security
@given(data=st.data())
def test_random_sizes_in_random_pieces(auth: str, mode: ConMode, data: st.DataObject) -> None:
    node, peer = ready(auth, mode)
    sizes = data.draw(st.lists(st.one_of(st.integers(0, 200), st.integers(0, 80 * KIB)), max_size=6))
    raw = stream(peer, sizes)
    bounds = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=6)) | {0, len(raw)})
    for start, end in pairwise(bounds):
        peer.write(raw[start:end])
    check(node, sizes)


@by_security
def test_a_transport_that_reads_into_the_named_buffer(auth: str, mode: ConMode) -> None:
    """As the TCP transport does: the buffer is never empty, whatever has arrived so far."""
    node, peer = ready(auth, mode)
    raw, position = stream(peer, SIZES), 0
    while position < len(raw):
        buffer = node.endpoint.receive_buffer(peer.link)
        assert len(buffer) > 0
        count = min(len(buffer), len(raw) - position, 50 * KIB)
        buffer[:count] = raw[position : position + count]
        node.endpoint.link_received(peer.link, count, node.now)
        position += count
    node.pump()
    check(node, SIZES)


@by_security
@pytest.mark.parametrize("data_bytes", [50 * KIB, 64 * KIB, 300 * KIB])
@pytest.mark.parametrize("piece_bytes", [60 * KIB, 1 << 30])
def test_delivered_payloads_are_not_overwritten_by_later_messages(
    auth: str, mode: ConMode, data_bytes: int, piece_bytes: int
) -> None:
    node, peer = ready(auth, mode)
    for number in range(1, 12):
        raw = peer.message(number, front=content(number, 20 * KIB), data=content(number, data_bytes))
        for start in range(0, len(raw), piece_bytes):
            peer.write(raw[start : start + piece_bytes])
        if number == 4:
            del node.delivered[:3]  # their memory may be used again
    for number, (_, message) in enumerate(node.delivered, 4):
        assert bytes(message.front) == content(number, 20 * KIB)
        assert bytes(message.data) == content(number, data_bytes)


@by_security
def test_large_payloads_are_views_of_receive_buffers_and_smaller_ones_keep_little(
    auth: str, mode: ConMode
) -> None:
    node, peer = ready(auth, mode)
    raw = stream(peer, [64 * KIB] * 4 + [40 * KIB] * 6)
    for start in range(0, len(raw), 100 * KIB):
        peer.write(raw[start : start + 100 * KIB])
    data = [memoryview(message.data) for _, message in node.delivered]
    assert all(isinstance(view.obj, bytearray) for view in data[1:4])
    assert all(len(view.obj) <= 5 * len(view) for view in data[1:4])
    assert all(len(view.obj) < len(view) + 100 for view in data[4:])


@by_security
def test_frames_behind_a_large_one_are_read_together_with_it(auth: str, mode: ConMode) -> None:
    node, peer = ready(auth, mode)
    raw = stream(peer, [64 * KIB] * 12)
    position, reads = 0, 0
    while position < len(raw):
        buffer = node.endpoint.receive_buffer(peer.link)
        count = min(len(buffer), len(raw) - position)
        buffer[:count] = raw[position : position + count]
        node.endpoint.link_received(peer.link, count, node.now)
        position += count
        reads += 1
    node.pump()
    check(node, [64 * KIB] * 12)
    assert reads <= 4


# ---- the dispatch throttle


class Reader:
    """A transport and an application that takes one message at a time."""

    def __init__(self, node: Node, peer: RawPeer) -> None:
        self.node = node
        self.peer = peer
        self.released = 0
        node.hoarding = True

    @property
    def held_bytes(self) -> int:
        return self.node.endpoint.dispatch_throttle.value

    def release_one(self) -> None:
        self.released += 1
        self.node.release(1)
        self.peer.pump()

    def read(self, raw: bytes, piece_bytes: int) -> None:
        """Feed the node as a socket would: not while it is paused."""
        for start in range(0, len(raw), piece_bytes):
            while self.peer.paused:
                self.release_one()
            self.peer.write(raw[start : start + piece_bytes])
        while self.released < len(self.node.delivered):
            self.release_one()


@by_security
@pytest.mark.parametrize("limit_bytes", [1, 1000, 40 * KIB, 150 * KIB])
@pytest.mark.parametrize("piece_bytes", [1000, 20 * KIB, 200 * KIB, 1 << 30])
def test_a_full_throttle_pauses_reading_and_loses_nothing(
    auth: str, mode: ConMode, limit_bytes: int, piece_bytes: int
) -> None:
    node, peer = ready(auth, mode, ms_dispatch_throttle_bytes=limit_bytes)
    reader = Reader(node, peer)
    reader.read(stream(peer, SIZES), piece_bytes)
    check(node, SIZES)
    assert reader.held_bytes == 0
    assert not peer.paused


@pytest.mark.parametrize(
    "sizes", [[40 * KIB, 100 * KIB], [100 * KIB, 40 * KIB], [60 * KIB] * 8, [200, 90 * KIB] * 4]
)
@pytest.mark.parametrize("piece_bytes", [7000, 33 * KIB, 250 * KIB])
def test_large_messages_after_a_pause(sizes: list[int], piece_bytes: int) -> None:
    node, peer = ready("none", ConMode.CRC, ms_dispatch_throttle_bytes=10 * KIB)
    Reader(node, peer).read(stream(peer, sizes), piece_bytes)
    check(node, sizes)


@pytest.mark.parametrize("limit_bytes", [2001, 2500, 3000])
def test_a_message_waits_for_the_bytes_that_it_declares(limit_bytes: int) -> None:
    node, peer = ready("none", ConMode.CRC, ms_dispatch_throttle_bytes=limit_bytes)
    reader = Reader(node, peer)
    peer.write(stream(peer, [1000] * 10))
    fits = limit_bytes // 1000
    assert len(node.delivered) == fits
    assert reader.held_bytes == 1000 * fits
    assert peer.paused
    reader.release_one()
    assert len(node.delivered) == fits + 1
    for _ in range(9):
        reader.release_one()
    assert len(node.delivered) == 10
    assert not peer.paused


def test_one_sessions_full_throttle_pauses_another_only_when_a_message_of_it_needs_bytes() -> None:
    node = new_node(ms_dispatch_throttle_bytes=100)
    first = meet("acceptor", node).handshake()
    node.hoarding = True
    first.write(first.message(1, data=bytes(200)))
    second = RawPeer(node, addr="v2:10.0.0.3:6803/3").dial().handshake()
    assert len(node.endpoint.sessions) == 2
    second.write(second.message(1) + second.message(2, data=b"data"))
    assert len(node.delivered) == 2
    assert second.paused
    node.release(1)
    node.pump()
    assert len(node.delivered) == 3


def test_session_of_a_broken_paused_link_continues_where_it_stopped() -> None:
    pair = Pair(LOSSLESS_CLIENT, ms_dispatch_throttle_bytes=10_000)
    mine, _ = pair.established()
    pair.b.hoarding = True
    pair.a.send(mine, *range(1, 11), size_bytes=4000)
    pair.drive()
    assert len(pair.b.delivered) == 2
    pair.wire.cut()
    pair.drive()
    pair.b.hoarding = False
    pair.b.release()
    pair.pass_time(30.0)
    assert pair.b.tids == list(range(1, 11))
    assert pair.b.endpoint.snapshot()["dispatch_bytes"] == 0
    assert FaultReason.OVERSIZE not in pair.b.faults


def test_links_are_never_paused_without_a_limit() -> None:
    node, peer = ready("none", ConMode.CRC, ms_dispatch_throttle_bytes=0)
    node.hoarding = True
    peer.write(stream(peer, [100 * KIB] * 20))
    assert len(node.delivered) == 20
