"""Links of msgr 2.0 and 2.1: the banners decide, and nothing else changes (docs/protocol.md §4.2, §4.5, §4.12)."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from messenger.v2.revision import crc_frames
from messenger.v2.wire import Hello, KeepAlive2, KeepAlive2Ack
from tests.support.network import Pair
from tests.support.node import new_node, numbered
from tests.support.raw_peer import ROLES, meet

OLD, CRIMSON, COMPRESSION_ONLY, CURRENT = 0, 1, 2, 3
MASKS = (OLD, CRIMSON, COMPRESSION_ONLY, CURRENT)
SIZES = (0, 1, 1023, 1024, 1 << 20)

by_mode = pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])


def pair_of(mode: ConMode, mine: int, theirs: int) -> Pair:
    pair = Pair(auth="cephx", mode=mode, msgr2_features=mine)
    pair.b.endpoint.config.msgr2_features = theirs
    return pair


def hello_overhead_bytes(pair: Pair) -> int:
    """Return the bytes of a crc frame beside preamble and payload: one crc in 2.1, the whole epilogue in 2.0."""
    frames = [
        record.fields for record in pair.a.trace if record.kind == "frame" and record.fields["tag"] == "HELLO"
    ]
    lengths = {int(str(fields["length"])) for fields in frames}
    (length,) = lengths
    return length - 32 - 36  # HELLO of an IPv4 address


@by_mode
@pytest.mark.parametrize("mine", MASKS)
@pytest.mark.parametrize("theirs", MASKS)
def test_the_common_features_decide(mine: int, theirs: int, mode: ConMode) -> None:
    pair = pair_of(mode, mine, theirs)
    session, peer_session = pair.established()
    pair.a.send(session, 1, 2)
    pair.b.send(peer_session, 3)
    pair.drive()
    assert (pair.b.tids, pair.a.tids) == ([1, 2], [3])
    assert pair.a.faults == pair.b.faults == []
    common = mine & theirs
    assert hello_overhead_bytes(pair) == (4 if common & 1 else 17)
    assert ("COMPRESSION_REQUEST" in pair.a.frames("tx")) == bool(common & 2)
    assert ("COMPRESSION_DONE" in pair.b.frames("tx")) == bool(common & 2)


@pytest.mark.parametrize("mine", MASKS)
@pytest.mark.parametrize("theirs", MASKS)
def test_sealed_frames_have_the_layout_of_the_common_revision(mine: int, theirs: int) -> None:
    """Two ends that choose the same wrong layout understand each other, so the length says which one it is."""
    pair = pair_of(ConMode.SECURE, mine, theirs)
    session, _ = pair.established()
    pair.a.endpoint.send_keepalive(session, pair.clock.now)
    pair.drive()
    (length,) = {
        record.fields["length"]
        for record in pair.a.trace
        if record.kind == "frame" and record.fields["tag"] == "KEEPALIVE2"
    }
    assert length == (96 if mine & theirs & 1 else 80), "the lengths of the vectors of §10"


@by_mode
@pytest.mark.parametrize("piece_bytes", [1, 31, 33, 4096])
def test_old_frames_may_arrive_in_any_pieces(mode: ConMode, piece_bytes: int) -> None:
    pair = pair_of(mode, OLD, CURRENT)

    def tap(wire: object) -> None:
        for pipe in pair.wire.pipes:
            pipe.piece_bytes = piece_bytes

    pair.opened = tap
    session, _ = pair.established()
    sizes = SIZES if piece_bytes == 4096 else SIZES[:-1]
    for number, size in enumerate(sizes, 1):
        assert pair.a.endpoint.send(session, numbered(number, size), pair.clock.now)
    pair.drive()
    assert [bytes(message.data) for _, message in pair.b.delivered] == [
        bytes(numbered(number, size).data) for number, size in enumerate(sizes, 1)
    ]


@by_mode
def test_session_continues_when_the_peer_returns_with_another_revision(mode: ConMode) -> None:
    """As in a rolling upgrade, where only the link is new."""
    pair = pair_of(mode, CURRENT, OLD)
    session, _ = pair.established()
    pair.a.send(session, 1)
    pair.drive()
    pair.b.endpoint.config.msgr2_features = CURRENT
    pair.wire.hold()
    pair.a.send(session, 2, 3)
    pair.wire.cut()
    pair.drive()
    assert session.state is SessionState.READY
    assert pair.b.tids == [1, 2, 3]
    assert EventKind.REMOTE_RESET not in pair.a.kinds


@by_mode
@pytest.mark.parametrize("role", ROLES)
def test_old_peer_gets_frames_of_its_revision(role: str, mode: ConMode) -> None:
    node = meet(role, new := new_node(auth="cephx", mode=mode), auth="cephx", mode=mode, features=OLD).handshake()
    node.send_messages(1, 2)
    node.send(KeepAlive2(7, 8))
    assert new.tids == [1, 2]
    assert KeepAlive2Ack(7, 8) in node.rest()
    assert new.faults == []


@pytest.mark.parametrize("role", ROLES)
def test_an_aborted_old_frame_is_skipped(role: str) -> None:
    node = new_node(auth="cephx", mode=ConMode.CRC)
    peer = meet(role, node, auth="cephx", features=OLD).handshake()
    aborted = bytearray(peer.message(1, data=bytes(4)))
    aborted[-17] = 0x01
    peer.write(bytes(aborted))
    peer.send_messages(1)
    assert node.tids == [1]
    assert node.faults == []


@pytest.mark.parametrize(
    ("advertised", "spoken", "fault"),
    [(OLD, CRIMSON, FaultReason.READY_TIMEOUT), (CRIMSON, OLD, FaultReason.SEGMENT_CRC)],
)
@pytest.mark.parametrize("role", ROLES)
def test_frames_of_the_other_revision_are_a_fault(
    role: str, advertised: int, spoken: int, fault: FaultReason
) -> None:
    """A frame of 2.1 looks like one of 2.0 whose epilogue is still to come."""
    node = new_node(auth="cephx", mode=ConMode.CRC)
    peer = meet(role, node, auth="cephx", features=advertised)
    peer.banner()
    _, peer.writer = crc_frames(spoken, 1 << 20)
    peer.send(Hello(peer.name.type, node.endpoint.addrs.front))
    node.run(9.9)
    peer.pump()
    node.run(0.2)
    assert node.faults == [fault]
    assert peer.closed
