"""The data phase: seqs, acks, keepalives, wrong messages (docs/protocol.md §3.6, §4.8; families SQ, KA, MF)."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.messages.types import MessageType
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, STATEFUL_SERVER
from messenger.session.session import Session, SessionState
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.wire import (
    FLAG_LOSSY,
    MESSAGE_HEADER,
    Ack,
    ClientIdent,
    KeepAlive2,
    KeepAlive2Ack,
    SessionReconnect,
    SessionReconnectOk,
)
from tests.support.frames import crc_frame, preamble
from tests.support.network import Pair
from tests.support.node import WALL_OFFSET_S, Node, new_node
from tests.support.raw_peer import COOKIE, RawMessage, RawPeer, meet

U64_MAX = 2**64 - 1


def ready(**options: object) -> tuple[Node, RawPeer, Session]:
    """A node whose dial succeeded, the peer it reached, and the session."""
    node = new_node(**({"policy": LOSSLESS_CLIENT} | options))
    peer = meet("connector", node).handshake()
    return node, peer, node.endpoint.sessions[0]


def header(type_: int = MessageType.PING, version: int = 1, compat: int = 1) -> bytes:
    return MESSAGE_HEADER.pack(1, 0, type_, 127, version, 0, 0, 0, 3, compat, 0)


# ---- seq of received messages


@pytest.mark.parametrize("old_seqs", [(1,), (3,), (1, 2, 3), (0,)])
def test_an_old_seq_is_dropped_and_the_reader_stays_alive(old_seqs: tuple[int, ...]) -> None:
    node, peer, session = ready()
    peer.send_messages(1, 2, 3)
    peer.send_messages(*old_seqs)
    peer.send_messages(4)
    assert node.tids == [1, 2, 3, 4]
    assert session.old_messages == len(old_seqs)
    assert node.faults == []
    assert node.endpoint.snapshot()["dispatch_bytes"] == 0


def test_a_skipped_seq_is_accepted_and_counted() -> None:
    node, peer, session = ready()
    peer.send_messages(1, 3, 10)
    assert node.tids == [1, 3, 10]
    assert session.skipped_messages == 2
    peer.send_messages(2)
    assert node.tids == [1, 3, 10]


@pytest.mark.parametrize("first", [2**31 - 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, U64_MAX - 2])
def test_seqs_are_compared_as_64_bits(first: int) -> None:
    node, peer, session = ready()
    peer.write(b"".join(peer.message(first + step, tid=10 + step) for step in (0, 1, 0, 2)))
    assert node.tids == [10, 11, 12]
    assert session.in_seq == first + 2
    assert peer.rest() == [Ack(first + 2)]


def test_messages_after_the_last_seq_are_old() -> None:
    node, peer, session = ready()
    peer.send_messages(U64_MAX)
    peer.send_messages(1)
    assert len(node.delivered) == 1
    assert session.old_messages == 1


# ---- acks


def unacked(node: Node) -> object:
    return node.endpoint.snapshot()["sent"]


def test_acks_trim_the_messages_kept_for_replay() -> None:
    node, peer, session = ready()
    node.send(session, *range(1, 11))
    node.pump()
    assert unacked(node) == 10
    for ack, left in (4, 6), (4, 6), (2, 6), (0, 6), (9, 1), (10, 0):
        peer.send(Ack(ack))
        assert unacked(node) == left


def test_an_ack_in_a_message_header_trims_too() -> None:
    node, peer, session = ready()
    node.send(session, 1, 2, 3)
    node.pump()
    peer.send_messages(1, ack_seq=2)
    assert unacked(node) == 1


@pytest.mark.parametrize("seq", [4, 1_000_000, U64_MAX])
def test_an_ack_from_the_future_does_no_harm(seq: int) -> None:
    node, peer, session = ready()
    node.send(session, 1, 2, 3)
    node.pump()
    peer.send(Ack(seq))
    assert unacked(node) == 0
    node.send(session, 4, 5)
    node.pump()
    assert unacked(node) == 2
    peer.send(Ack(4))
    assert unacked(node) == 1
    assert peer.expect_seqs() == [1, 2, 3, 4, 5]


def test_a_burst_gets_one_ack() -> None:
    _, peer, _ = ready()
    peer.send_messages(*range(1, 1001))
    assert peer.rest() == [Ack(1000)]


def test_a_one_way_stream_is_acked_without_reverse_data() -> None:
    node, peer, session = ready()
    for seq in range(1, 200):
        peer.send_messages(seq)
        assert peer.expect(Ack).seq == seq
    assert peer.rest() == []
    assert session.in_seq == 199
    assert len(node.tids) == 199


def test_acks_flow_on_a_stream_that_always_stops_within_a_frame() -> None:
    """An ack may wait for a frame that is under way, but not for long, and it is not forgotten."""
    _, peer, _ = ready()
    stream = b"".join(peer.message(seq) for seq in range(1, 501))
    size = len(stream) // 500
    acked, start = 0, 0
    for seq in range(1, 500):
        end = seq * size + 30
        peer.write(stream[start:end])
        start = end
        acked = max([acked, *(frame.seq for frame in peer.rest() if isinstance(frame, Ack))])
        assert seq - acked < 32
    peer.write(stream[start:])
    assert peer.rest()[-1] == Ack(500)


def test_a_message_carries_the_ack_instead_of_a_frame() -> None:
    node, peer, session = ready()
    node.endpoint.link_data(peer.link, peer.message(1) + peer.message(2), node.now)
    node.send(session, 7)
    peer.pump()
    (message,) = peer.rest()
    assert isinstance(message, RawMessage)
    assert message.ack_seq == 2


def test_a_lossy_session_neither_acks_nor_keeps() -> None:
    node = new_node(policy=LOSSY_CLIENT)
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    peer.send(peer.server_ident(flags=FLAG_LOSSY, server_cookie=0))
    node.send(node.endpoint.sessions[0], 1, 2)
    peer.send_messages(1, 2, 3)
    assert peer.expect_seqs() == [1, 2]
    assert unacked(node) == 0


# ---- keepalives


def test_keepalive_round_trip() -> None:
    pair = Pair()
    mine, theirs = pair.established()
    pair.pass_time(5.5)
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    pair.drive()
    assert mine.keepalive_acked_s == pytest.approx(WALL_OFFSET_S + 5.5)
    assert theirs.keepalive_acked_s == 0.0
    assert pair.a.delivered == pair.b.delivered == []


@pytest.mark.parametrize("stamp", [(0, 0), (1_700_000_000, 999_999_999), (2**32 - 1, 2**32 - 1)])
def test_a_keepalive_is_answered_with_its_stamp(stamp: tuple[int, int]) -> None:
    _, peer, _ = ready()
    peer.send(KeepAlive2(*stamp))
    assert peer.rest() == [KeepAlive2Ack(*stamp)]


def test_unrequested_keepalive_acks_only_move_the_time_forward() -> None:
    node, peer, session = ready()
    for seconds, shown in (100, 100), (50, 100), (200, 200), (0, 200):
        peer.send(KeepAlive2Ack(seconds, 0))
        assert session.keepalive_acked_s == shown
    assert node.faults == []


def test_a_flood_of_keepalives_is_coalesced() -> None:
    node, peer, _ = ready()
    peer.send(*[KeepAlive2(second, 0) for second in range(1, 10_001)])
    assert peer.rest() == [KeepAlive2Ack(10_000, 0)]
    assert node.faults == []


def test_a_peer_that_asks_but_does_not_read_fills_no_memory() -> None:
    """Answers to a peer that takes none off the wire must not pile up (KA-08)."""
    node, peer, session = ready(write_ahead_bytes=10_000)
    assert session.link is not None
    for second in range(2000):
        keepalive = peer.writer.control(KeepAlive2.TAG, KeepAlive2(second, 0).encode())
        node.endpoint.link_data(peer.link, keepalive + peer.message(second + 1), node.now)
        node.pump()
    assert session.link.unwritten_bytes < 11_000
    peer.pump()
    frames = peer.rest()
    assert frames[-2:] == [KeepAlive2Ack(1999, 0), Ack(2000)]


def test_write_ahead_is_bounded() -> None:
    node, peer, session = ready(write_ahead_bytes=100_000)
    assert session.link is not None
    node.send(session, *range(1, 1001), size_bytes=1000)
    node.pump()
    assert 100_000 <= session.link.unwritten_bytes < 1_000_000
    peer.pump()
    assert peer.expect_seqs() == list(range(1, 1001))


# ---- messages that are not right


@pytest.mark.parametrize("size", [0, 1, 40])
def test_a_short_message_header_is_malformed(size: int) -> None:
    node, peer, _ = ready()
    peer.write(crc_frame(preamble(MESSAGE_TAG, (size, 0, 0, 0)), bytes(size)))
    assert node.faults == [FaultReason.MALFORMED]


def test_a_longer_message_header_is_read_as_far_as_known() -> None:
    node, peer, _ = ready()
    peer.write(crc_frame(preamble(MESSAGE_TAG, (50, 0, 0, 0)), header() + bytes(9)))
    assert len(node.delivered) == 1


@pytest.mark.parametrize("type_", [0, 999, 65535])
def test_an_unknown_type_of_message_is_delivered_as_bytes(type_: int) -> None:
    node, peer, _ = ready()
    segments = (b"front", b"", b"data")
    peer.write(crc_frame(preamble(MESSAGE_TAG, (41, 5, 0, 4), segments=4), header(type_, 9, 9), segments))
    ((_, message),) = node.delivered
    assert (message.type, message.payload) == (type_, None)
    assert (bytes(message.front), bytes(message.data)) == (b"front", b"data")


@pytest.mark.parametrize(("version", "compat", "front"), [(9, 9, bytes(12)), (1, 1, b"\xff\xff\xff\xff")])
def test_a_known_type_that_does_not_decode_ends_the_link(version: int, compat: int, front: bytes) -> None:
    node, peer, _ = ready()
    raw = header(MessageType.MON_SUBSCRIBE, version, compat)
    peer.write(crc_frame(preamble(MESSAGE_TAG, (41, len(front), 0, 0), segments=2), raw, (front,)))
    assert node.faults == [FaultReason.BAD_MESSAGE]
    assert node.delivered == []


def test_an_aborted_message_is_skipped_and_its_seq_is_free() -> None:
    node, peer, _ = ready()
    aborted = bytearray(peer.message(1, tid=99, data=b"not this"))
    aborted[-13] = 0x01
    peer.write(bytes(aborted) + peer.message(1) + peer.message(2))
    assert node.tids == [1, 2]
    assert node.faults == []
    assert node.frames("rx")[-3:] == ["ABORTED", "MESSAGE", "MESSAGE"]


def test_garbage_after_good_messages_loses_none_of_them() -> None:
    node, peer, session = ready()
    peer.write(peer.message(1) + peer.message(2) + b"\xff" * 100)
    assert node.tids == [1, 2]
    assert node.faults == [FaultReason.PREAMBLE_CRC]
    again = RawPeer(node).accept()
    again.handshake(until=again.ident)
    assert again.expect(SessionReconnect).msg_seq == 2
    again.send(SessionReconnectOk(0))
    again.send_messages(2, 3)
    assert node.tids == [1, 2, 3]
    assert session.state is SessionState.READY


# ---- counters at their limits


@pytest.mark.parametrize("sent", [0, 3])
@pytest.mark.parametrize("msg_seq", [5, U64_MAX - 1, U64_MAX])
def test_a_peer_that_claims_more_than_was_ever_sent(msg_seq: int, sent: int) -> None:
    """All of it counts as received; what comes next still fits into the 64 bits of the header."""
    node = new_node(policy=STATEFUL_SERVER)
    peer = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, *range(1, sent + 1))
    peer.pump()
    peer.hang_up()
    again = RawPeer(node).dial()
    again.handshake(until=again.ident)
    again.send(SessionReconnect(again.addrs, COOKIE, session.server_cookie, 2, 1, msg_seq))
    again.expect(SessionReconnectOk)
    node.send(session, 4, 5)
    again.pump()
    first, second = again.expect_seqs()
    assert second == first + 1
    assert unacked(node) == 2


def test_nonce_exhaustion_loses_no_message() -> None:
    """The link ends in the middle of a batch; the next one goes on with the same messages (§4.6)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, auth="cephx", mode=ConMode.SECURE)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.drive()
    cipher = mine.link.writer.cipher  # type: ignore[union-attr]
    cipher._initial_counter = (cipher._counter + 7) % 2**64
    pair.a.send(mine, *range(2, 21))
    pair.drive()
    assert pair.a.faults == [FaultReason.NONCE_EXHAUSTED]
    assert pair.b.tids == list(range(1, 21))
    assert mine.state is SessionState.READY
