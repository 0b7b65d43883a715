"""The data phase of v1: seqs, acks, keepalives, limits, throttles (docs/protocol.md §3.6, §3.7, §3.10)."""

import pytest

from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messages.mon import MMonGetMap
from messenger.messages.types import MessageType
from messenger.outputs import EventKind, WriteLink
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT
from messenger.session.session import Session, SessionState
from messenger.v1.data import MESSAGES_PER_ACK
from messenger.v1.framing import COMPLETE, NOCRC
from messenger.v1.wire import Ack, Close, KeepAlive, KeepAlive2, KeepAlive2Ack, Tag
from tests.support.network import Pair
from tests.support.node import WALL_OFFSET_S, Node
from tests.support.raw_v1 import RawMessage, RawV1Peer, meet, new_v1_node

U64_MAX = 2**64 - 1
UNKNOWN_TYPE = 0x7F01


def ready(**options: object) -> tuple[Node, RawV1Peer, Session]:
    """A node whose dial succeeded, the peer it reached, and the session."""
    features = options.pop("features", CLIENT_FEATURES)
    node = new_v1_node(**({"policy": LOSSLESS_CLIENT} | options))
    peer = meet("connector", node, features=features).handshake()
    return node, peer, node.endpoint.sessions[0]


def unacked(node: Node) -> object:
    return node.endpoint.snapshot()["sent"]


# ---- seq of received messages


@pytest.mark.parametrize("old_seqs", [(1,), (3,), (1, 2, 3), (0,)])
def test_an_old_seq_is_dropped_and_the_reader_stays_alive(old_seqs: tuple[int, ...]) -> None:
    """Ceph's own reader does not."""
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


@pytest.mark.parametrize("first", [0x7FFFFFFF, 2**32 - 1, 2**32, 2**63, U64_MAX - 2])
def test_the_first_seq_may_be_any(first: int) -> None:
    node, peer, session = ready()
    peer.write(b"".join(peer.message(first + step, tid=10 + step) for step in (0, 1, 0, 2)))
    assert node.tids == [10, 11, 12]
    assert session.in_seq == first + 2
    assert peer.rest() == [Ack(first + 2)]


def test_source_of_messages_has_the_number_of_the_peer() -> None:
    node = new_v1_node()
    peer = meet("acceptor", node, name=EntityName(EntityType.CLIENT), addr="any:10.0.0.5:0/9").handshake()
    (session,) = node.endpoint.sessions
    peer.send_messages(1)
    assert str(session.peer_name) == "client.?"
    peer.name = EntityName(EntityType.CLIENT, 4112)
    peer.send_messages(2)
    assert str(session.peer_name) == "client.4112"
    peer.name = EntityName(EntityType.OSD, 9)
    peer.send_messages(3)
    assert str(session.peer_name) == "client.4112"


# ---- the header of messages


def test_a_peer_without_nosrcaddr_gets_and_sends_the_old_header() -> None:
    node, peer, session = ready(features=CLIENT_FEATURES & ~Feature.NOSRCADDR)
    node.send(session, 1)
    assert [(message.seq, message.tid) for message in peer.messages()] == [(1, 1)]
    peer.send_messages(1, 2)
    assert node.tids == [1, 2]
    assert node.faults == []


def test_messengers_without_nosrcaddr_understand_each_other() -> None:
    pair = Pair(protocol=Protocol.V1, features_supported=CLIENT_FEATURES & ~Feature.NOSRCADDR)
    mine, theirs = pair.established()
    pair.a.send(mine, 1, 2, 3)
    pair.b.send(theirs, 11, 12)
    pair.drive()
    assert (pair.b.tids, pair.a.tids) == ([1, 2, 3], [11, 12])
    assert pair.a.faults == pair.b.faults == []


# ---- acks


def test_acks_trim_the_messages_kept_for_replay() -> None:
    node, peer, session = ready()
    node.send(session, *range(1, 11))
    node.pump()
    assert unacked(node) == 10
    for ack, left in (4, 6), (4, 6), (2, 6), (0, 6), (9, 1), (10, 0):
        peer.send(Ack(ack))
        assert unacked(node) == left


@pytest.mark.parametrize("seq", [4, 1_000_000, U64_MAX])
def test_an_ack_from_the_future_does_no_harm(seq: int) -> None:
    node, peer, session = ready()
    node.send(session, 1, 2, 3)
    node.pump()
    peer.send(Ack(seq))
    assert unacked(node) == 0
    node.send(session, 4, 5)
    assert [message.seq for message in peer.messages()] == [1, 2, 3, 4, 5]
    peer.send(Ack(4))
    assert unacked(node) == 1


@pytest.mark.parametrize("count", [1, 127, 128, 129, 256, 1000])
def test_a_burst_is_acknowledged_in_steps_that_real_peers_take_notice_of(count: int) -> None:
    _, peer, _ = ready()
    peer.send_messages(*range(1, count + 1))
    acks = [frame.seq for frame in peer.rest() if isinstance(frame, Ack)]
    assert acks[-1] == count
    assert acks == [*range(MESSAGES_PER_ACK, count, MESSAGES_PER_ACK), count]


def test_a_one_way_stream_is_acknowledged_without_reverse_data() -> None:
    _, peer, _ = ready()
    for seq in range(1, 200):
        peer.send_messages(seq)
        assert peer.rest() == [Ack(seq)]


def test_acks_flow_on_a_stream_that_always_stops_within_a_message() -> None:
    _, peer, _ = ready()
    stream = b"".join(peer.message(seq) for seq in range(1, 501))
    size = len(peer.message(1))
    for start in range(0, len(stream), size):
        peer.write(stream[start - 10 if start else 0 : start + size - 10])
    peer.write(stream[-10:])
    acks = [frame.seq for frame in peer.rest() if isinstance(frame, Ack)]
    assert acks[-1] == 500
    assert len(acks) < 40


def test_an_ack_leaves_together_with_the_answer() -> None:
    node, peer, session = ready()
    node.endpoint.link_data(peer.link, peer.message(1), 0.0)
    node.send(session, 7)
    node.pump()
    assert len([output for output in node.outbox if isinstance(output, WriteLink)]) == 1
    ack, message = peer.rest()
    assert ack == Ack(1)
    assert isinstance(message, RawMessage)


def test_a_lossy_session_neither_keeps_nor_acknowledges_anything() -> None:
    node = new_v1_node(policy=LOSSY_CLIENT)
    node.connect("v1:10.0.0.2:6802/2")
    peer = RawV1Peer(node).accept()
    peer.banner()
    peer.identify()
    peer.answer(flags=1)
    peer.seq()
    (session,) = node.endpoint.sessions
    peer.send_messages(1, 2)
    node.send(session, 1)
    assert all(isinstance(frame, RawMessage) for frame in peer.rest())
    assert unacked(node) == 0


# ---- keepalives


def test_keepalive2_is_echoed() -> None:
    _, peer, _ = ready()
    peer.send(KeepAlive2(12, 34))
    assert peer.rest() == [KeepAlive2Ack(12, 34)]


def test_keepalive_gets_no_answer() -> None:
    node, peer, _ = ready()
    peer.send(KeepAlive(), KeepAlive())
    assert (peer.rest(), node.faults) == ([], [])


def test_the_own_keepalive_and_its_answer() -> None:
    node, peer, session = ready()
    node.endpoint.send_keepalive(session, node.now)
    (ping,) = peer.rest()
    assert ping == KeepAlive2(int(WALL_OFFSET_S), 0)
    peer.send(KeepAlive2Ack(ping.seconds, ping.nanoseconds))
    assert session.keepalive_acked_s == WALL_OFFSET_S
    peer.send(KeepAlive2Ack(5, 0))
    assert session.keepalive_acked_s == WALL_OFFSET_S


def test_a_peer_without_keepalive2_gets_the_old_one() -> None:
    node, peer, session = ready(features=CLIENT_FEATURES & ~Feature.MSGR_KEEPALIVE2)
    node.endpoint.send_keepalive(session, node.now)
    assert peer.rest() == [KeepAlive()]


# ---- the end


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSLESS_PEER])
def test_close_ends_the_session(policy: object) -> None:
    node, peer, session = ready(policy=policy)
    node.send(session, 1)
    node.pump()
    peer.write(peer.message(1) + Close().encode() + peer.message(2))
    assert node.log == [EventKind.CONNECT, 1, EventKind.RESET]
    assert (session.state, node.faults) == (SessionState.CLOSED, [FaultReason.PEER_CLOSED])
    assert node.endpoint.link_count == 0


@pytest.mark.parametrize("tag", [Tag.READY, Tag.SEQ, Tag.WAIT, Tag.CHALLENGE_AUTHORIZER, 0, 17, 255])
def test_other_tags_are_a_fault(tag: int) -> None:
    node, peer, _ = ready()
    peer.write(peer.message(1) + bytes([tag]) + peer.message(2))
    known = tag in list(Tag)
    assert node.faults == [FaultReason.UNEXPECTED_FRAME if known else FaultReason.UNKNOWN_TAG]
    assert node.tids == [1]


def test_an_aborted_message_breaks_the_link_and_comes_again() -> None:
    """V1-15, SQ-18: the sender's next link brings it under the same seq."""
    node, peer, session = ready()
    aborted = bytearray(peer.message(1))
    aborted[-1] &= ~COMPLETE
    peer.write(bytes(aborted))
    assert (node.tids, node.faults, session.in_seq) == ([], [FaultReason.ABORTED], 0)


@pytest.mark.parametrize("offset", [5, -20])
def test_a_wrong_crc_breaks_the_link(offset: int) -> None:
    node, peer, _ = ready()
    raw = bytearray(peer.message(1, front=b"front"))
    raw[offset] ^= 1
    peer.write(peer.message(1) + bytes(raw))
    assert node.tids == [1]
    assert node.faults[0] in (FaultReason.HEADER_CRC, FaultReason.SEGMENT_CRC)


# ---- what messages say


def test_all_parts_and_numbers_of_a_message_arrive() -> None:
    pair = Pair(protocol=Protocol.V1)
    mine, _ = pair.established()
    message = Message(
        UNKNOWN_TYPE, b"front", b"mid", b"data", tid=7, priority=63, version=9, compat_version=8, data_off=4
    )
    pair.a.endpoint.send(mine, message, 0.0)
    pair.drive()
    ((_, got),) = pair.b.delivered
    assert (bytes(got.front), bytes(got.middle), bytes(got.data)) == (b"front", b"mid", b"data")
    assert (got.type, got.tid, got.priority, got.version, got.compat_version, got.data_off) == (
        UNKNOWN_TYPE,
        7,
        63,
        9,
        8,
        4,
    )
    assert (got.seq, got.flags) == (1, COMPLETE)


def test_payloads_are_encoded_for_the_negotiated_features_and_decoded() -> None:
    node, peer, session = ready()
    node.endpoint.send(session, Message.of(MMonGetMap()), 0.0)
    (message,) = peer.messages()
    assert message.header.type == MessageType.MON_GET_MAP
    peer.write(peer.message(1, type_=MessageType.MON_GET_MAP))
    assert isinstance(node.delivered[0][1].payload, MMonGetMap)


def test_a_message_that_does_not_decode_breaks_the_link() -> None:
    node, peer, _ = ready()
    peer.write(peer.message(1, type_=MessageType.MON_MAP, front=b"\xff"))
    assert node.faults == [FaultReason.BAD_MESSAGE]


@pytest.mark.parametrize(("option", "flags"), [("ms_crc_data", COMPLETE | NOCRC), ("ms_crc_header", COMPLETE)])
def test_checksums_can_be_switched_off(option: str, flags: int) -> None:
    node, peer, session = ready(**{option: False})
    node.send(session, 1)
    peer.reader._check_header = False
    (message,) = peer.messages()
    assert message.flags == flags
    assert (message.header.crc == 0) == (option == "ms_crc_header")
    raw = bytearray(peer.message(1, front=b"front", data=b"data"))
    raw[59 if option == "ms_crc_data" else 54] ^= 1
    peer.write(bytes(raw))
    assert (node.tids, node.faults) == ([1], [])


# ---- sizes and throttles


def test_long_messages_are_refused_by_their_header() -> None:
    node, peer, _ = ready(max_frame_bytes=1 << 20)
    peer.write(peer.message(1, data=bytes(1 << 20))[:60])
    assert node.faults == [FaultReason.OVERSIZE]
    assert sum(node.endpoint.held_bytes.values()) == 0


def test_a_large_message_gets_a_buffer_of_its_own() -> None:
    node, peer, _ = ready()
    raw = peer.message(1, data=bytes(1_000_000))
    for start in range(0, len(raw), 50_000):
        peer.write(raw[start : start + 50_000])
        assert sum(node.endpoint.held_bytes.values()) <= len(raw)
    ((_, message),) = node.delivered
    assert isinstance(message.data, memoryview)
    assert len(message.data) == 1_000_000


def test_large_payloads_are_not_copied_on_their_way_out() -> None:
    node, peer, session = ready()
    data = bytes(100_000)
    node.endpoint.send(session, Message(MessageType.PING, data=data), 0.0)
    node.send(session, 1, 2)
    node.pump()
    buffers = [buffer for output in node.outbox if isinstance(output, WriteLink) for buffer in output.buffers]
    assert any(buffer is data for buffer in buffers)
    assert len(buffers) == 3
    assert len(peer.messages()) == 3


def test_reading_stops_while_the_application_holds_too_much() -> None:
    node, peer, _ = ready(ms_dispatch_throttle_bytes=20)
    node.hoarding = True
    peer.write(b"".join(peer.message(seq, data=b"12345678") for seq in range(1, 6)))
    assert (node.tids, peer.paused) == ([1, 2], True)
    node.release()
    peer.pump()
    assert (node.tids, peer.paused) == ([1, 2, 3, 4], True)
    node.release()
    peer.pump()
    assert (node.tids, peer.paused) == ([1, 2, 3, 4, 5], False)


def test_no_more_is_built_than_the_transport_takes() -> None:
    node, peer, session = ready(write_ahead_bytes=10_000, policy=LOSSLESS_PEER)
    node.send(session, *range(1, 1001), size_bytes=1000)
    node.endpoint.drain(0.0)
    built = len(session.queue.sent)
    assert 0 < built < 1000
    node.endpoint.send_keepalive(session, node.now)
    node.endpoint.drain(0.0)
    assert len(session.queue.sent) == built
    node.endpoint.link_written(peer.link, 2 << 20, node.now)
    node.endpoint.drain(0.0)
    assert len(session.queue.sent) > built
