"""Links between OSDs that agree on compression, and those that do not (docs/protocol.md §4.10)."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.interception import Action, Point, Way
from messenger.link import Link
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.session.session import Session, SessionState
from messenger.v2.compression import CompressingWriter
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.link import V2Link
from messenger.v2.wire import CompressionDone, CompressionRequest
from tests.support.aio import connected, messenger, on_loop, until
from tests.support.network import Pair
from tests.support.node import Node, new_node, numbered
from tests.support.raw_peer import RawPeer, meet

ALGORITHMS = [algorithm for algorithm in Algorithm if algorithm is not Algorithm.NONE]
FORCE = {"ms_osd_compress_mode": "force", "ms_compress_secure": True}
SIZES = (0, 1, 982, 983, 1023, 1024, 1 << 20)
"""A message header has 41 bytes: from 983 on a frame reaches the smallest size."""
COMPRESSION_ONLY, CURRENT = 2, 3

by_mode = pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
by_revision = pytest.mark.parametrize("features", [COMPRESSION_ONLY, CURRENT], ids=["2.0", "2.1"])
by_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def pair_of(mode: ConMode = ConMode.CRC, *, theirs: dict[str, object] | None = None, **options: object) -> Pair:
    """Two OSDs with these options; those of the acceptor may differ."""
    pair = Pair(auth="cephx", mode=mode, **(FORCE | options))
    for name, value in (theirs or {}).items():
        setattr(pair.b.endpoint.config, name, value)
    return pair


def algorithms(*sessions: Session) -> set[Algorithm]:
    """Return the algorithms of these sessions' links."""
    links = [session.link for session in sessions]
    return {link.algorithm for link in links if isinstance(link, V2Link)}


def payloads(node: Node) -> list[bytes]:
    return [bytes(message.data) for _, message in node.delivered]


# ---- what is agreed on


@by_mode
@by_revision
@by_algorithm
def test_messages_of_all_sizes_pass_both_ways(algorithm: Algorithm, features: int, mode: ConMode) -> None:
    pair = pair_of(mode, ms_osd_compression_algorithm=algorithm.name.lower(), msgr2_features=features)
    mine, theirs = pair.established()
    assert algorithms(mine, theirs) == {algorithm}
    for number, size in enumerate(SIZES, 1):
        for node, session in (pair.a, mine), (pair.b, theirs):
            assert node.endpoint.send(session, numbered(number, size), pair.clock.now)
    pair.drive()
    expected = [bytes(numbered(number, size).data) for number, size in enumerate(SIZES, 1)]
    assert payloads(pair.a) == payloads(pair.b) == expected
    assert pair.a.faults == pair.b.faults == []
    for pipe in pair.wire.pipes:
        assert len(pipe.log) < 200_000


@pytest.mark.parametrize(
    ("mine", "theirs", "agreed"),
    [
        ("snappy", "snappy", Algorithm.SNAPPY),
        ("lz4 snappy", "snappy lz4", Algorithm.LZ4),
        ("brotli;zstd,zlib", "snappy zlib zstd", Algorithm.ZSTD),
        ("lz4", "snappy zlib", Algorithm.NONE),
    ],
)
def test_the_connectors_preference_counts(mine: str, theirs: str, agreed: Algorithm) -> None:
    option = "ms_osd_compression_algorithm"
    pair = pair_of(theirs={option: theirs}, **{option: mine})
    assert algorithms(*pair.established()) == {agreed}


UNCOMPRESSED: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "neither wants it": ({"ms_osd_compress_mode": "none"}, {"ms_osd_compress_mode": "none"}),
    "the connector does not want it": ({"ms_osd_compress_mode": "none"}, {"ms_osd_compress_mode": "force"}),
    "the acceptor does not want it": ({}, {"ms_osd_compress_mode": "none"}),
    "the connector not on secure links": ({"ms_compress_secure": False}, {"ms_compress_secure": True}),
    "the acceptor not on secure links": ({}, {"ms_compress_secure": False}),
    "the connector is of crimson": ({"msgr2_features": 1}, {"msgr2_features": 3}),
    "the acceptor is old": ({}, {"msgr2_features": 0}),
}


@pytest.mark.parametrize("case", UNCOMPRESSED)
def test_links_that_are_not_compressed(case: str) -> None:
    options, theirs = UNCOMPRESSED[case]
    pair = pair_of(ConMode.SECURE, theirs=theirs, **options)
    mine, peers = pair.established()
    assert algorithms(mine, peers) == {Algorithm.NONE}
    assert pair.a.endpoint.send(mine, numbered(1, 100_000), pair.clock.now)
    pair.drive()
    assert pair.b.tids == [1]
    assert len(pair.wire.to_acceptor.log) > 100_000


@pytest.mark.parametrize("mode", ["passive", "aggressive", "force"])
def test_all_modes_but_none_mean_the_same(mode: str) -> None:
    pair = pair_of(ms_osd_compress_mode=mode, theirs={"ms_osd_compress_mode": "passive"})
    assert algorithms(*pair.established()) == {Algorithm.SNAPPY}


def test_each_side_has_its_own_smallest_size() -> None:
    pair = pair_of(ms_osd_compress_min_size=100_000, theirs={"ms_osd_compress_min_size": 0})
    mine, theirs = pair.established()
    for node, session in (pair.a, mine), (pair.b, theirs):
        assert node.endpoint.send(session, numbered(1, 50_000), pair.clock.now)
    pair.drive()
    assert payloads(pair.a) == payloads(pair.b) == [bytes(numbered(1, 50_000).data)]
    assert len(pair.wire.to_acceptor.log) > 50_000
    assert len(pair.wire.to_connector.log) < 10_000


def test_levels_are_those_of_the_options() -> None:
    sizes = []
    text = b"".join(b"osd_op(%d)" % (number * 7919) for number in range(3000))
    for level in 1, 9:
        pair = pair_of(ms_osd_compression_algorithm="zlib", compressor_zlib_level=level)
        mine, _ = pair.established()
        before = len(pair.wire.to_acceptor.log)
        assert pair.a.endpoint.send(mine, Message(MessageType.PING, data=text), pair.clock.now)
        pair.drive()
        assert payloads(pair.b) == [text]
        sizes.append(len(pair.wire.to_acceptor.log) - before)
    assert sizes[0] > sizes[1]


# ---- sessions


@by_mode
@by_revision
def test_new_link_negotiates_compression_anew_and_loses_no_message(features: int, mode: ConMode) -> None:
    pair = pair_of(mode, ms_osd_compression_algorithm="zstd lz4", msgr2_features=features)
    mine, theirs = pair.established()
    assert algorithms(mine, theirs) == {Algorithm.ZSTD}
    pair.wire.hold()
    for number in range(1, 6):
        assert pair.a.endpoint.send(mine, numbered(number, 5000), pair.clock.now)
    pair.a.pump()
    pair.b.endpoint.config.ms_osd_compression_algorithm = "lz4"
    pair.wire.cut()
    pair.drive()
    assert mine.state is SessionState.READY
    assert algorithms(mine, theirs) == {Algorithm.LZ4}
    assert payloads(pair.b) == [bytes(numbered(number, 5000).data) for number in range(1, 6)]
    assert pair.a.frames("tx").count("COMPRESSION_REQUEST") == 2


class Blocker:
    """Blocks the link when the first message is read."""

    def __init__(self) -> None:
        self.link: Link | None = None

    def intercept(self, link: Link, point: Point, passes: int) -> Action:
        if point != Point("MESSAGE", Way.READ) or passes > 1:
            return Action.CONTINUE
        self.link = link
        return Action.BLOCK


def test_compressed_messages_stop_at_breakpoints() -> None:
    blocker = Blocker()
    pair = Pair(auth="cephx", peer_interceptor=blocker, **FORCE)  # type: ignore[arg-type]
    mine, theirs = pair.established()
    assert algorithms(mine, theirs) == {Algorithm.SNAPPY}
    for number in 1, 2, 3:
        assert pair.a.endpoint.send(mine, numbered(number, 5000), pair.clock.now)
    pair.drive()
    assert pair.b.tids == []
    assert blocker.link is not None
    pair.b.endpoint.unblock(blocker.link.id, pair.clock.now)
    pair.drive()
    assert payloads(pair.b) == [bytes(numbered(number, 5000).data) for number in (1, 2, 3)]


@by_mode
@on_loop
async def test_over_sockets(mode: ConMode) -> None:
    from tests.messenger.test_messenger import Recorder

    theirs = Recorder()
    options = FORCE | {"ms_osd_compression_algorithm": "zstd"}
    async with (
        messenger(1, mode=mode, **options) as client,
        messenger(2, theirs, mode=mode, **options) as server,
    ):
        connection = await connected(client, server)
        assert algorithms(connection.session) == {Algorithm.ZSTD}
        for number, size in enumerate((*SIZES, 8 << 20), 1):
            assert connection.send(numbered(number, size))
        await until(lambda: len(theirs.messages) == len(SIZES) + 1)
        assert [len(message.data) for message in theirs.messages] == [*SIZES, 8 << 20]
        assert bytes(theirs.messages[-1].data) == bytes(numbered(len(SIZES) + 1, 8 << 20).data)


# ---- peers that break the rules


def compressing_peer(role: str, node: Node, mode: ConMode = ConMode.CRC) -> RawPeer:
    """A ready peer that agreed on snappy; what it sends is compressed, and may be anything."""
    peer = meet(role, node, auth="cephx", mode=mode, features=CURRENT)
    peer.handshake(until=peer.compression)
    if role == "acceptor":
        peer.send(CompressionRequest(is_compress=True, methods=[Algorithm.SNAPPY]))
        assert peer.expect(CompressionDone) == CompressionDone(is_compress=True, method=Algorithm.SNAPPY)
    else:
        assert peer.expect(CompressionRequest) == CompressionRequest(is_compress=True, methods=[Algorithm.SNAPPY])
        peer.send(CompressionDone(is_compress=True, method=Algorithm.SNAPPY))
    peer.ident()
    return peer


def compressed_message(peer: RawPeer, plain: bytes, pieces_of: CompressingWriter | None = None) -> bytes:
    writer = pieces_of or CompressingWriter(peer.writer, new_compressor(Algorithm.SNAPPY), 0)  # type: ignore[arg-type]
    peer.writer = writer
    return peer.message(1, data=plain)


@by_mode
@pytest.mark.parametrize("role", ["connector", "acceptor"])
def test_compressed_messages_below_the_smallest_size_are_accepted(role: str, mode: ConMode) -> None:
    node = new_node(auth="cephx", mode=mode, **FORCE)
    peer = compressing_peer(role, node, mode)
    peer.write(compressed_message(peer, b"tiny"))
    assert payloads(node) == [b"tiny"]
    assert node.faults == []


class Careless:
    """Says that anything is a compressed form of anything."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def compress(self, segment: object) -> bytes | None:
        return self.raw

    def decompress(self, segment: object, limit_bytes: int) -> bytes:
        raise AssertionError


@by_mode
@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04\0", b"junk", b"\x06\x10hello"], ids=repr
)
def test_bad_compressed_data_ends_the_link_but_not_the_session(raw: bytes, mode: ConMode) -> None:
    node = new_node(auth="cephx", mode=mode, **FORCE)
    peer = compressing_peer("connector", node, mode)
    peer.write(compressed_message(peer, b"data", CompressingWriter(peer.writer, Careless(raw), 0)))  # type: ignore[arg-type]
    assert node.faults == [FaultReason.COMPRESSION]
    assert peer.closed
    assert node.endpoint.sessions[0].state is not SessionState.CLOSED
    assert node.delivered == []


@pytest.mark.parametrize("role", ["connector", "acceptor"])
def test_a_compressed_frame_without_agreement_is_a_fault(role: str) -> None:
    node = new_node(auth="cephx", mode=ConMode.CRC)
    peer = meet(role, node, auth="cephx", features=CURRENT).handshake()
    peer.write(compressed_message(peer, b"data" * 1000))
    assert node.faults == [FaultReason.FRAME]


@pytest.mark.parametrize("method", [Algorithm.NONE, Algorithm.LZ4, 77])
def test_an_algorithm_that_was_not_offered_is_a_fault(method: int) -> None:
    node = new_node(auth="cephx", **FORCE)
    peer = meet("connector", node, auth="cephx", features=CURRENT)
    peer.handshake(until=peer.compression)
    peer.expect(CompressionRequest)
    peer.send(CompressionDone(is_compress=True, method=method))
    assert node.faults == [FaultReason.COMPRESSION]
    assert "COMPRESSION_CONNECTING" in node.fault_texts[0]


def test_unwanted_grant_of_compression_has_no_effect() -> None:
    node = new_node(auth="cephx")
    peer = meet("connector", node, auth="cephx", features=CURRENT)
    peer.handshake(until=peer.compression)
    assert peer.expect(CompressionRequest) == CompressionRequest(is_compress=False, methods=[Algorithm.SNAPPY])
    peer.send(CompressionDone(is_compress=True, method=Algorithm.SNAPPY))
    peer.ident()
    peer.send_messages(1)
    assert (node.tids, node.faults) == ([1], [])
