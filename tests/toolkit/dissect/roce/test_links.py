"""Links over queue pairs: what is decoded when packets are lost, doubled, late, cut or damaged."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messenger.transport.rdma.record import Record
from tests.support.packets import ACK, SYN, Segment
from tests.support.roce import CLIENT, SERVER, contents, decoded, header_of, is_from, is_roce, kept, packet
from toolkit.dissect.conduct import Outcome
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, UNKNOWN, DecodedFrame, Verdict
from toolkit.dissect.roce.conduct import QueuePairConduct
from toolkit.dissect.roce.headers import SENDS, Answer, Opcode, RoceHeader
from toolkit.dissect.stream import Stream

seeds = st.integers(0, 1 << 32)
few = settings(max_examples=15, deadline=None)
BANNER = b"ceph v2\n" + (16).to_bytes(2, "little") + (3).to_bytes(8, "little") + bytes(8)


def link_of(streams: Sequence[Stream]) -> Stream:
    (link,) = [stream for stream in streams if stream.queue_pairs]
    return link


def conduct_of(streams: Sequence[Stream]) -> QueuePairConduct:
    conduct = link_of(streams).tcp
    assert isinstance(conduct, QueuePairConduct)
    return conduct


def with_payload(name: str) -> list[int]:
    """Places of the packets of SENDs with bytes in them, behind the handshake."""
    frames = kept(name)
    places = [at for at, frame in enumerate(frames) if is_roce(frame) and header_of(frame).opcode in SENDS]
    return [at for at in places[30:] if len(frames[at]) > 200]


def without_false_verdicts(found: Sequence[DecodedFrame], name: str) -> bool:
    """Every frame of a capture that is not whole is one of the whole capture, and nothing is called wrong."""
    whole = {(frame.direction, bytes(frame.wire)) for frame in decoded(kept(name))[0]}
    return all(
        frame.tag in {GAP, UNKNOWN}
        or (frame.direction, bytes(frame.wire)) in whole
        or "not have all" in str(frame.error)
        for frame in found
    ) and not any(Verdict.BAD in {frame.crc, frame.auth} for frame in found)


@few
@given(seeds)
def test_packets_that_come_in_another_order(seed: int) -> None:
    random = Random(seed)
    late = [(at + random.choice((0, 0, 0, 3.5)), frame) for at, frame in enumerate(kept("crc"))]
    found, streams = decoded(frame for _, frame in sorted(late, key=lambda each: each[0]))
    assert contents(found) == contents(decoded(kept("crc"))[0])
    assert conduct_of(streams).repeats == [0, 0]


@few
@given(seeds)
def test_packets_that_come_twice_are_no_new_data(seed: int) -> None:
    random = Random(seed)
    frames: list[bytes] = []
    for frame in kept("crc"):
        frames += [frame] * (2 if is_roce(frame) and random.random() < 0.3 else 1)
    found, streams = decoded(frames)
    assert contents(found) == contents(decoded(kept("crc"))[0])
    assert conduct_of(streams).repeats == [0, 0]  # one packet that was captured twice


def test_packets_that_are_sent_again_are_counted() -> None:
    frames = list(kept("crc"))
    places = with_payload("crc")[:3]
    again = [bytearray(frames[at]) for at in places]
    for frame in again:
        frame[18] ^= 0xFF  # another IP id
    frames[places[-1] + 1 : places[-1] + 1] = map(bytes, again)
    found, streams = decoded(frames)
    assert contents(found) == contents(decoded(kept("crc"))[0])
    assert sum(conduct_of(streams).repeats) == 3
    assert "sent 3 packets again" in conduct_of(streams).trouble("a", "b")


@few
@given(seeds)
def test_missing_packets_are_reported(seed: int) -> None:
    random = Random(seed)
    frames = list(kept("crc"))
    first = random.choice(with_payload("crc"))
    del frames[first : first + random.choice((1, 1, 4))]
    found, _ = decoded(frames)
    assert without_false_verdicts(found, "crc")
    assert any(frame.error for frame in found if frame.auth is not Verdict.NO_KEY)


@pytest.mark.parametrize("name", ["crc", "v1"])
def test_without_the_introduction_directions_are_paired_by_acknowledgements(name: str) -> None:
    whole = contents(decoded(kept(name))[0])
    found, streams = decoded(filter(is_roce, kept(name)))
    assert contents(found) == whole
    assert not link_of(streams).opening_seen
    assert link_of(streams).client == f"{CLIENT}:4791"
    assert link_of(streams).queue_pairs == link_of(decoded(kept(name))[1]).queue_pairs


@pytest.mark.parametrize("name", ["crc", "secure"])
def test_the_handshake_shows_the_client_if_the_server_sends_first(name: str) -> None:
    frames = [frame for frame in kept(name) if is_roce(frame)]
    early = [frame for frame in frames if is_from(frame, SERVER) and header_of(frame).opcode in SENDS][:2]
    found, streams = decoded([*early, *(frame for frame in frames if frame not in early)])
    assert [(frame.tag, frame.direction) for frame in found[:2]] == [
        ("BANNER", Direction.TO_CLIENT),
        ("HELLO", Direction.TO_CLIENT),
    ]
    assert link_of(streams).client == f"{CLIENT}:4791"
    assert without_false_verdicts(found, name)


def test_the_first_sender_counts_as_client_if_no_frame_shows_it() -> None:
    frames = [frame for frame in kept("crc") if is_roce(frame)]
    _, streams = decoded(frames[:8])
    assert link_of(streams).client == f"{CLIENT}:4791"


def test_one_way_capture_is_decoded_with_unknown_queue_pair() -> None:
    found, streams = decoded(frame for frame in kept("crc") if is_roce(frame) and is_from(frame, CLIENT))
    assert sum(frame.message is not None for frame in found) == 5
    pairs = link_of(streams).queue_pairs
    assert pairs is not None
    assert pairs[0] == -1


def test_snapped_packets_have_their_headers_decoded() -> None:
    found, _ = decoded(kept("crc"), snap_bytes=200)
    names = [frame.message.name for frame in found if frame.message is not None]
    assert names == ["ping"] * 2  # the others begin in the part of a packet that was not captured
    assert without_false_verdicts(found, "crc")


@few
@given(seeds)
def test_damaged_packets_raise_nothing(seed: int) -> None:
    random = Random(seed)
    frames = []
    for frame in kept("v1"):
        damaged = bytearray(frame)
        if random.random() < 0.2:
            damaged[random.randrange(14, len(damaged))] ^= 1 << random.randrange(8)
        frames.append(bytes(damaged[: random.randrange(len(damaged))] if random.random() < 0.05 else damaged))
    found, _ = decoded(frames)
    assert [frame.as_json()["frame"] for frame in found] == list(range(len(found)))


def test_ports_choose_links_by_their_introduction() -> None:
    server = link_of(decoded(kept("crc"))[1]).server
    port = int(server.rpartition(":")[2])
    assert decoded(kept("crc"), ports=[port])[0]
    assert not decoded(kept("crc"), ports=[1])[0]
    assert decoded(kept("crc"), ports=[4791])[0]


def test_receivers_that_are_not_ready_are_named() -> None:
    found, streams = decoded(kept("rnr"))
    naks = [
        header
        for frame in kept("rnr")
        if is_roce(frame) and (header := header_of(frame)).answer is Answer.RNR_NAK and is_from(frame, SERVER)
    ]
    assert conduct_of(streams).not_ready == [0, len(naks)]
    assert f"b was not ready to receive {len(naks)} times (RNR NAK)" in conduct_of(streams).trouble("a", "b")
    assert not any(frame.error for frame in found if frame.auth is not Verdict.NO_KEY)


def test_lost_packets_are_sent_again_and_counted_like_the_capture_has_them() -> None:
    _, streams = decoded(kept("loss"))
    expected = []
    for source in (CLIENT, SERVER):
        sent = [header_of(frame) for frame in kept("loss") if is_roce(frame) and is_from(frame, source)]
        numbers = [header.psn for header in sent if header.opcode in SENDS]
        expected.append(len(numbers) - len(set(numbers)))
    assert conduct_of(streams).repeats == expected
    assert min(conduct_of(streams).asked_again) > 0


# ---- made by hand


def introduced(*frames: bytes) -> list[bytes]:
    """Packets of queue pairs 17 (client) and 18 behind the records that introduce them."""
    gids = [bytes(10) + b"\xff\xff\x0a\x09\x00" + last for last in (b"\x01", b"\x02")]
    client = Record(0, 17, 0xFFFFFE, 0, gids[0]).encode()
    server = Record(0, 18, 5, 17, gids[1]).encode()
    there = Segment(f"{CLIENT}:40000", f"{SERVER}:6800", 99, flags=SYN)
    back = Segment(f"{SERVER}:6800", f"{CLIENT}:40000", 499, 100, SYN | ACK)
    text = [
        there,
        back,
        Segment(there.source, there.target, 100, 500, ACK, client),
        Segment(back.source, back.target, 500, 165, ACK, server),
    ]
    return [*(segment.ethernet() for segment in text), *frames]


def send(psn: int, payload: bytes = b"", opcode: Opcode = Opcode.SEND_ONLY) -> bytes:
    padding_bytes = -len(payload) % 4
    return packet(CLIENT, SERVER, RoceHeader(opcode, 18, psn & 0xFFFFFF, padding_bytes), payload)


def test_sequence_numbers_wrap_around_and_pieces_have_any_length() -> None:
    pieces = [BANNER[:1], BANNER[1:9], BANNER[9:]]
    opcodes = Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMMEDIATE, Opcode.SEND_LAST
    frames = [
        send(0xFFFFFE + number, piece, opcode)
        for number, (piece, opcode) in enumerate(zip(pieces, opcodes, strict=True))
    ]
    found, streams = decoded(introduced(*frames))
    assert [frame.tag for frame in found] == ["BANNER"]
    assert link_of(streams).client == f"{CLIENT}:40000"
    assert link_of(streams).queue_pairs == (17, 18)


def test_an_empty_send_is_the_end() -> None:
    _, streams = decoded(introduced(send(0xFFFFFE, BANNER), send(0xFFFFFF)))
    conduct = conduct_of(streams)
    assert conduct.outcome(conduct.last_ns) is Outcome.CLOSED
    assert conduct.ending("a", "b", conduct.last_ns) == "a closed it first (empty SEND)"


def test_a_broken_tcp_connection_breaks_the_link() -> None:
    reset = Segment(f"{SERVER}:6800", f"{CLIENT}:40000", 565, 165, ACK | 4)
    _, streams = decoded([*introduced(send(0xFFFFFE, BANNER)), reset.ethernet()])
    conduct = conduct_of(streams)
    assert conduct.outcome(conduct.last_ns) is Outcome.RESET
    ending = conduct.ending("a", "b", conduct.last_ns)
    assert ending == "b broke it off (its TCP connection ended without an empty SEND)"


def test_a_refusal_is_named() -> None:
    refusal = RoceHeader(Opcode.ACKNOWLEDGE, 17, 0xFFFFFE, answer=Answer.NAK, value=2)
    _, streams = decoded(introduced(send(0xFFFFFE, BANNER), packet(SERVER, CLIENT, refusal)))
    assert conduct_of(streams).trouble("a", "b") == "b refused a packet (NAK, remote access error)"


def test_queue_pairs_that_are_used_again_are_another_link() -> None:
    first = introduced(send(0xFFFFFE, BANNER))
    port = 41_000
    again = [
        Segment(f"{CLIENT}:{port}", f"{SERVER}:6800", 99, flags=SYN),
        Segment(f"{SERVER}:6800", f"{CLIENT}:{port}", 499, 100, SYN | ACK),
    ]
    gids = [bytes(10) + b"\xff\xff\x0a\x09\x00" + last for last in (b"\x01", b"\x02")]
    client, server = Record(0, 17, 7_000_000, 0, gids[0]), Record(0, 18, 9, 17, gids[1])
    again += [
        Segment(f"{CLIENT}:{port}", f"{SERVER}:6800", 100, 500, ACK, client.encode()),
        Segment(f"{SERVER}:6800", f"{CLIENT}:{port}", 500, 165, ACK, server.encode()),
    ]
    found, streams = decoded([*first, *(segment.ethernet() for segment in again), send(7_000_000, BANNER)])
    assert [frame.tag for frame in found] == ["BANNER", "BANNER"]
    assert [stream.client for stream in streams if stream.queue_pairs] == [f"{CLIENT}:40000", f"{CLIENT}:{port}"]
