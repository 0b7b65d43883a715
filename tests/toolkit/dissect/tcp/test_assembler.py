"""Connections: how they begin and end, and what is made of segments that are not in order."""

import io
from dataclasses import replace

import pytest

from tests.support.packets import ACK, FIN, MILLISECOND_NS, RST, SYN, TIME_NS, Segment, pcap
from tests.support.streams import assembled
from toolkit.capture.formats import open_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Gap, Run, StreamEvent
from toolkit.dissect.tcp import Assembler
from toolkit.dissect.tcp.flow import PATIENCE_PACKETS
from toolkit.dissect.tcp.lane import FARTHEST_AHEAD_BYTES, MOST_WAITING_BYTES, STRANGERS

SPACE = 1 << 32


class Talk:
    """Makes the packets of a connection."""

    def __init__(self, client: str = "10.0.0.1:40000", server: str = "10.0.0.2:6800", first: int = 1000) -> None:
        self.template = Segment(client, server)
        self.next = {Direction.TO_SERVER: first, Direction.TO_CLIENT: first + 5_000_000}

    def _make(self, direction: Direction, flags: int, payload: bytes, **changes: int) -> bytes:
        template = self.template if direction is Direction.TO_SERVER else self.template.back
        numbers = {"sequence": self.next[direction], "acknowledged": self.next[direction.other], **changes}
        return replace(template, flags=flags, payload=payload, **numbers).ethernet()

    def segment(self, direction: Direction, payload: bytes = b"", flags: int = ACK) -> bytes:
        packet = self._make(direction, flags, payload)
        self.next[direction] += len(payload) + bool(flags & SYN) + bool(flags & FIN)
        return packet

    def again(self, direction: Direction, payload: bytes, back: int, flags: int = ACK) -> bytes:
        """A segment that begins so many bytes before the next one."""
        return self._make(direction, flags, payload, sequence=self.next[direction] - back)

    def open(self) -> list[bytes]:
        syn = self._make(Direction.TO_SERVER, SYN, b"", acknowledged=0)
        self.next[Direction.TO_SERVER] += 1
        return [syn, self.segment(Direction.TO_CLIENT, flags=SYN | ACK), self.segment(Direction.TO_SERVER)]

    def up(self, payload: bytes = b"", flags: int = ACK) -> bytes:
        return self.segment(Direction.TO_SERVER, payload, flags)

    def down(self, payload: bytes = b"", flags: int = ACK) -> bytes:
        return self.segment(Direction.TO_CLIENT, payload, flags)


UP, DOWN = Direction.TO_SERVER, Direction.TO_CLIENT


def test_a_connection_from_syn_to_fin() -> None:
    talk = Talk()
    packets = [
        *talk.open(),
        talk.up(b"hello"),
        talk.down(b"world"),
        talk.up(b"bye", FIN | ACK),
        talk.down(b"", FIN | ACK),
    ]
    result = assembled(packets)
    assert result.to_server() == [b"hellobye", "fin"]
    assert result.to_client() == [b"world", "fin"]
    stream = result.streams[0]
    assert (stream.client, stream.server, stream.opening_seen) == ("10.0.0.1:40000", "10.0.0.2:6800", True)
    assert [what for _, what in result.order] == [b"hello", b"world", b"bye", "fin", "fin"]


def test_times_and_numbers_of_packets() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"1"), talk.up(b"22"), talk.down(b"333"), talk.up(b"4444")]
    for batched in (False, True):
        rows = assembled(packets, batched=batched).rows
        assert [(size, (time_ns - TIME_NS) // MILLISECOND_NS, packet) for _, size, time_ns, packet in rows] == [
            (1, 3, 3),
            (2, 4, 4),
            (3, 5, 5),
            (4, 6, 6),
        ]


def events_of(packets: list[bytes], assembler: Assembler, *, first: int = 0) -> list[StreamEvent]:
    (batch,) = open_capture(io.BytesIO(pcap(packets)))
    batch.first = first
    return assembler.feed(batch)


def test_runs_alternate_until_order_does_not_matter() -> None:
    talk, assembler = Talk(), Assembler()
    events_of(talk.open(), assembler)
    exchange = [talk.up(b"a"), talk.up(b"b"), talk.down(b"c"), talk.up(b"d"), talk.down(b"e")]
    runs = [event for event in events_of(exchange, assembler, first=3) if isinstance(event, Run)]
    assert [(bytes(run.data), run.direction) for run in runs] == [
        (b"ab", UP),
        (b"c", DOWN),
        (b"d", UP),
        (b"e", DOWN),
    ]
    runs[0].stream.batched = True
    exchange = [talk.up(b"a"), talk.up(b"b"), talk.down(b"c"), talk.up(b"d"), talk.down(b"e")]
    runs = [event for event in events_of(exchange, assembler, first=8) if isinstance(event, Run)]
    assert [(bytes(run.data), list(run.packets)) for run in runs] == [(b"abd", [8, 9, 11]), (b"ce", [10, 12])]


def test_a_run_of_one_packet_is_not_copied() -> None:
    talk, assembler = Talk(), Assembler()
    events_of(talk.open(), assembler)
    (batch,) = open_capture(io.BytesIO(pcap([talk.up(b"payload")])))
    (run,) = assembler.feed(batch)
    assert isinstance(run, Run)
    assert run.data.obj is batch.data.obj


def test_the_other_direction_of_a_cooked_conversation_that_began_before() -> None:
    packets = [Segment("10.0.0.9:6801", "10.0.0.8:50000", 700, 300, payload=b"answer").ethernet()]
    packets.append(Segment("10.0.0.8:50000", "10.0.0.9:6801", 300, 706, payload=b"question").ethernet())
    result = assembled(packets)
    assert (result.to_client(), result.to_server()) == ([b"answer"], [b"question"])
    assert result.streams[0].client == "10.0.0.8:50000"
    assert not result.streams[0].opening_seen


@pytest.mark.parametrize(
    ("one", "other", "client"),
    [(3300, 900, "10.0.0.2:900"), (50000, 12000, "10.0.0.1:50000"), (6789, 6700, "10.0.0.2:6700")],
)
def test_the_client_is_guessed_by_the_ports(one: int, other: int, client: str) -> None:
    packets = [Segment(f"10.0.0.1:{one}", f"10.0.0.2:{other}", payload=b"x").ethernet()]
    assert assembled(packets).streams[0].client == client


@pytest.mark.parametrize("window_bytes", [100, 1 << 20])
@pytest.mark.parametrize("distance", [-4, 0, 7])
def test_acknowledgement_before_any_data_is_only_a_hint(distance: int, window_bytes: int) -> None:
    talk = Talk()
    packets = [
        talk.up(b"question"),
        talk.again(DOWN, b"said", -distance),
        talk.again(DOWN, b"more", -distance - 4),
    ]
    result = assembled(packets, window_bytes=window_bytes)
    assert (result.to_server(), result.to_client()) == ([b"question"], [b"saidmore"])


def test_a_duplicate_of_every_packet_changes_nothing() -> None:
    talk = Talk()
    packets = talk.open()
    for number in range(20):
        packets += [talk.up(b"u%d" % number), talk.down(b"d%d" % number)]
    twice = [packet for packet in packets for _ in range(2)]
    for window_bytes in (300, 1 << 20):
        result = assembled(twice, window_bytes=window_bytes)
        assert [what for _, what in result.order] == [what for _, what in assembled(packets).order]
        assert all(packet % 2 == 0 for *_, packet in result.rows)


def test_only_the_answer_to_a_syn_was_seen() -> None:
    talk = Talk("10.0.0.1:6800", "10.0.0.2:40000")
    result = assembled([*talk.open()[1:], talk.up(b"hello")])
    assert (result.streams[0].client, result.streams[0].opening_seen) == ("10.0.0.1:6800", True)
    assert result.to_server() == [b"hello"]


def test_data_on_a_syn() -> None:
    talk = Talk()
    packets = [talk.up(b"early", SYN), talk.down(b"", SYN | ACK), talk.up(b"late")]
    assert assembled(packets).to_server() == [b"earlylate"]


def test_sequence_numbers_wrap_around() -> None:
    talk = Talk(first=SPACE - 1000)
    packets = talk.open() + [talk.up(bytes([number]) * 300) for number in range(10)]
    packets[5], packets[6] = packets[6], packets[5]
    assert assembled(packets).to_server() == [b"".join(bytes([number]) * 300 for number in range(10))]


def test_keepalive_probes_are_no_data() -> None:
    talk = Talk()
    packets = [
        *talk.open(),
        talk.up(b"one"),
        talk.again(UP, b"", 1),
        talk.again(UP, b"?", 1),
        talk.down(),
        talk.up(b"two"),
    ]
    assert assembled(packets).to_server() == [b"onetwo"]


def test_a_keepalive_probe_may_be_the_first_that_is_seen() -> None:
    talk = Talk()
    packets = [talk.again(UP, b"", 1), talk.down(), talk.up(b"data"), talk.down(b"more")]
    result = assembled(packets)
    assert (result.to_server(), result.to_client()) == ([b"data"], [b"more"])


def test_retransmission_and_overlap_keep_the_first_bytes() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"abcdef"), talk.again(UP, b"ABCDEF", 6), talk.again(UP, b"EFgh", 2)]
    talk.next[UP] += 2
    assert assembled([*packets, talk.up(b"ij")]).to_server() == [b"abcdefghij"]


def test_first_of_overlapping_waiting_segments_wins() -> None:
    talk = Talk()
    start = talk.open()
    packets = [talk.again(UP, b"567", -5), talk.again(UP, b"-----XXX89", 0), talk.again(UP, b"01234", 0)]
    assert assembled([*start, *packets]).to_server() == [b"-----56789"]
    assert assembled([*start, packets[0], packets[2], packets[1]]).to_server() == [b"0123456789"]


# ---- what is missing


def lossy(talk: Talk) -> list[bytes]:
    """Ten segments of ten bytes, the fourth of which the capture does not have."""
    segments = [talk.up(bytes([48 + number]) * 10) for number in range(10)]
    del segments[3]
    return segments


BEFORE, BEHIND = (
    b"".join(bytes([48 + n]) * 10 for n in range(3)),
    b"".join(bytes([48 + n]) * 10 for n in range(4, 10)),
)


def test_hole_becomes_a_gap_at_the_end() -> None:
    talk = Talk()
    assert assembled(talk.open() + lossy(talk)).to_server() == [BEFORE, 10, BEHIND]


def test_acknowledged_hole_becomes_a_gap_after_a_number_of_packets() -> None:
    talk, assembler = Talk(), Assembler()
    early = events_of([*talk.open(), *lossy(talk), talk.down()], assembler)
    assert [type(event) for event in early] == [Run]
    late = events_of([talk.down()] * (PATIENCE_PACKETS + 1), assembler, first=100)
    gap, run = late
    assert isinstance(gap, Gap)
    assert (gap.size_bytes, gap.direction, gap.packet) == (10, UP, 100 + PATIENCE_PACKETS - 1)
    assert isinstance(run, Run)
    assert (bytes(run.data), list(run.packets)) == (BEHIND, list(range(6, 12)))


def test_a_hole_that_was_acknowledged_is_filled_by_a_packet_out_of_order() -> None:
    talk = Talk()
    start, late = talk.open(), talk.up(b"0123")
    packets = [*start, talk.up(b"45"), talk.down(b"yes"), talk.up(b"67"), late, talk.up(b"8")]
    assert assembled(packets).to_server() == [b"012345678"]


def test_assembler_declares_a_gap_when_too_much_data_waits() -> None:
    talk = Talk()
    start, _ = talk.open(), talk.up(b"lost")
    chunk = bytes(50_000)
    count = MOST_WAITING_BYTES // len(chunk) + 5
    assembler, events = Assembler(), []
    for batch in open_capture(io.BytesIO(pcap(start + [talk.up(chunk) for _ in range(count)]))):
        events += assembler.feed(batch)
    assert isinstance(events[0], Gap)
    assert events[0].size_bytes == 4
    assert sum(len(event.data) for event in events if isinstance(event, Run)) == count * len(chunk)


def test_bytes_missing_at_the_tail_are_known_by_their_acknowledgement() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"there")]
    talk.up(b"lost")
    assert assembled([*packets, talk.down()]).to_server() == [b"there", 4]


def test_acknowledgements_reveal_a_gap_behind_in_order_data() -> None:
    talk, assembler = Talk(), Assembler()
    events_of(talk.open(), assembler)
    there = talk.up(b"there")
    talk.up(b"lost")
    assert [type(event) for event in events_of([there, talk.down()], assembler, first=3)] == [Run]
    assert [type(event) for event in events_of([talk.down()] * 40, assembler, first=5)] == [Gap]


def test_acknowledgements_reveal_the_gaps_of_a_one_way_capture() -> None:
    talk = Talk()
    packets = talk.open()
    for _ in range(100):
        talk.up(b"unseen")
        packets.append(talk.down(b"seen"))
    result = assembled(packets)
    assert result.to_server() == [600]
    assert result.to_client() == [b"seen" * 100]


def test_a_loss_before_the_fin() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"there")]
    talk.up(b"lost")
    packets += [talk.up(b"", FIN | ACK), talk.down()]
    assert assembled(packets).to_server() == [b"there", 4, "fin"]


def test_packets_that_were_cut_leave_gaps_at_once() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"a" * 50), talk.up(b"b" * 20), talk.up(b"c" * 50)]
    for window_bytes in (200, 1 << 20):
        result = assembled(pcap(packets, snap_bytes=14 + 40 + 30), window_bytes=window_bytes)
        assert result.to_server() == [b"a" * 30, 20, b"b" * 20 + b"c" * 30, 20]
    assert assembled(pcap(packets, snap_bytes=14 + 40)).to_server() == [120]


def test_stream_continues_after_a_jump_of_sequence_numbers() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"before")]
    talk.next[UP] += 3 << 30  # farther than sequence numbers can tell
    packets += [talk.up(b"after!") for _ in range(STRANGERS + 2)]
    skipped = (3 << 30) + 6 * (STRANGERS - 1)
    assert assembled(packets).to_server() == [b"before", skipped, b"after!" * 3]


def test_single_segment_far_ahead_is_no_gap() -> None:
    talk = Talk()
    packets = [*talk.open(), talk.up(b"a"), talk.again(UP, b"junk", -FARTHEST_AHEAD_BYTES - 9), talk.up(b"b")]
    assert assembled(packets).to_server() == [b"ab"]


# ---- ends, and ports that are used again


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_a_reset_ends_both_directions(direction: Direction) -> None:
    talk = Talk()
    packets = [
        *talk.open(),
        talk.up(b"a"),
        talk.segment(direction, flags=RST | ACK),
        talk.up(b"too late"),
        talk.down(b"x"),
    ]
    result = assembled(packets)
    assert [what for _, what in result.order] == [b"a", "reset"]
    assert result.order[-1][0] == (0, direction)


def test_a_refused_connection() -> None:
    talk = Talk()
    packets = [talk.open()[0], Segment("10.0.0.2:6800", "10.0.0.1:40000", 0, 1001, RST | ACK).ethernet()]
    assert [what for _, what in assembled(packets).order] == ["reset"]


def test_waiting_data_is_emitted_before_a_reset() -> None:
    talk = Talk()
    packets = talk.open() + lossy(talk) + [talk.down(b"", RST | ACK)]
    assert assembled(packets).to_server() == [BEFORE, 10, BEHIND]


def test_a_port_that_is_used_again_is_another_stream() -> None:
    one, two = Talk(), Talk(first=77_000_000)
    packets = [*one.open(), one.up(b"one"), one.down(b"uno"), *two.open(), two.up(b"two"), two.down(b"due")]
    result = assembled(packets)
    assert (result.to_server(0), result.to_client(0)) == ([b"one"], [b"uno"])
    assert (result.to_server(1), result.to_client(1)) == ([b"two"], [b"due"])
    assert result.streams[0].client == result.streams[1].client


def test_a_port_that_the_other_side_uses_again() -> None:
    one, two = Talk(), Talk("10.0.0.2:6800", "10.0.0.1:40000", first=77_000_000)
    packets = [*one.open(), one.up(b"one", FIN | ACK), one.down(b"", FIN | ACK), *two.open(), two.up(b"two")]
    result = assembled(packets)
    assert (result.to_server(0), result.to_server(1)) == ([b"one", "fin"], [b"two"])
    assert result.streams[1].client == "10.0.0.2:6800"


def test_a_repeated_syn_is_the_same_stream() -> None:
    talk = Talk()
    opening = talk.open()
    result = assembled([opening[0], *opening, opening[0], opening[1], talk.up(b"data"), opening[1]])
    assert result.to_server() == [b"data"]
    assert len(result.streams) == 1


@pytest.mark.parametrize("first", [1000, 1_900_000_000, 2_100_000_000])
def test_reset_of_an_old_connection_does_not_end_the_new_one(first: int) -> None:
    old, new = Talk(first=first), Talk(first=2_000_000_000)
    packets = [*old.open(), old.up(b"old")]
    opening = new.open()
    challenge, answer = old.down(), old.again(UP, b"", 0, RST)
    packets += [opening[0], challenge, answer, *opening, new.up(b"new")]
    result = assembled(packets)
    assert (result.to_server(0), result.to_server(1)) == ([b"old"], [b"new"])


def test_assembler_accepts_data_captured_before_its_syn() -> None:
    talk = Talk()
    opening = talk.open()
    assert assembled([opening[1], opening[2], talk.up(b"data"), opening[0], talk.up(b"more")]).to_server() == [
        b"datamore"
    ]


# ---- many


def test_streams_are_numbered_by_their_first_packets() -> None:
    talks = [Talk(f"10.0.{number}.1:40000") for number in range(40)]
    packets = [packet for talk in talks for packet in talk.open()]
    packets += [talk.up(b"x") for talk in reversed(talks)]
    result = assembled(packets)
    assert [result.streams[number].client for number in range(40)] == [f"10.0.{n}.1:40000" for n in range(40)]
    assert [lane[0] for lane, _ in result.order] == list(reversed(range(40)))


def test_events_of_all_streams_are_in_the_order_of_the_capture() -> None:
    one, two, assembler = Talk(), Talk("10.0.0.3:40000"), Assembler()
    events_of(one.open() + two.open(), assembler)
    packets = [one.up(b"1"), two.up(b"2"), two.again(UP, b"2", 1), one.down(b"3"), two.down(b"4"), one.up(b"5")]
    runs = events_of(packets, assembler, first=6)
    assert b"".join(bytes(run.data) for run in runs if isinstance(run, Run)) == b"12345"


def test_assembler_forgets_old_connections_above_its_limit() -> None:
    assembler = Assembler(most_flows=100)
    lasting = Talk("10.9.9.9:40000")
    events = events_of(lasting.open(), assembler)
    for number in range(50):
        flood = [Segment(f"10.0.{number}.{low}:50000", flags=SYN).ethernet() for low in range(40)]
        events += events_of([*flood, lasting.up(b"x")], assembler)
        assert len(assembler._flows) <= 141
    assert sum(len(event.data) for event in events if isinstance(event, Run)) == 50
    assert len({event.stream for event in events}) == 1
    assert assembler.streams == 2001
    assert not [event for event in events if isinstance(event, End)]
