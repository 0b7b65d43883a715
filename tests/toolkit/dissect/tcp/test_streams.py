"""Any cutting, repetition, overlap and reordering of two byte streams gives them back; what was lost is a gap."""

import random
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.packets import ACK, FIN, RST, SYN, Segment, pcap
from tests.support.streams import assembled
from toolkit.dissect.direction import Direction

CLIENT, SERVER = "10.0.0.1:40000", "10.0.0.2:6800"
SPACE = 1 << 32
JITTER = 10
"""By how many places packets are displaced; less than a hole is waited for."""
BYTES = random.Random(1).randbytes(4096)


@dataclass
class Sender:
    """One direction: its bytes, and its segments."""

    content: bytes
    first: int
    segments: list[tuple[int, int]]
    """Every byte is in one of them; in the order of their ends."""
    lost: set[int]
    """Which segments the capture does not have."""

    def expected(self) -> list[bytes | int | str]:
        seen = bytearray(len(self.content))
        for number, (start, stop) in enumerate(self.segments):
            if number not in self.lost:
                seen[start:stop] = b"\x01" * (stop - start)
        out: list[bytes | int | str] = []
        at = 0
        while at < len(seen):
            stop = seen.find(1 - seen[at], at)
            stop = len(seen) if stop < 0 else stop
            out.append(self.content[at:stop] if seen[at] else stop - at)
            at = stop
        return [*out, "fin"]


@st.composite
def senders(draw: st.DrawFn, *, lossy: bool) -> Sender:
    content = BYTES[: draw(st.integers(0, 120))]
    cuts = sorted(draw(st.sets(st.integers(1, max(len(content) - 1, 1)), max_size=20)) | {0, len(content)})
    segments = [(a, b) for a, b in pairwise(cuts) if a < b <= len(content)]
    ends = st.integers(0, len(content))
    segments += [tuple(sorted(pair)) for pair in draw(st.lists(st.tuples(ends, ends), max_size=8))]
    segments.sort(key=lambda segment: segment[1])
    lost = draw(st.sets(st.integers(0, max(len(segments) - 1, 0)), max_size=5)) if lossy else set()
    first = draw(st.sampled_from([0, 1, 5000, SPACE - 1, SPACE - 60, SPACE // 2 - 30]))
    return Sender(content, first, segments, lost)


def packets_of(up: Sender, down: Sender, shuffle: random.Random, jitter: int = JITTER) -> list[bytes]:
    """Both directions mixed and slightly shuffled; each segment acknowledges what was sent before it."""
    numbers = [(Direction.TO_SERVER, n) for n in range(len(up.segments))]
    numbers += [(Direction.TO_CLIENT, n) for n in range(len(down.segments))]
    places = {key: shuffle.random() * max(len(up.segments), len(down.segments), 1) for key in numbers}
    for way, sender in ((Direction.TO_SERVER, up), (Direction.TO_CLIENT, down)):
        in_order = sorted(places[way, n] for n in range(len(sender.segments)))
        places |= {(way, n): place for n, place in enumerate(in_order)}
    sent = {Direction.TO_SERVER: 0, Direction.TO_CLIENT: 0}
    speakers = {Direction.TO_SERVER: up, Direction.TO_CLIENT: down}
    packets = []
    for way, number in sorted(numbers, key=places.__getitem__):
        start, stop = speakers[way].segments[number]
        sent[way] = max(sent[way], stop)
        if number not in speakers[way].lost:
            packets.append(_segment(speakers, way, start, ACK, speakers[way].content[start:stop], sent))
    packets = [packet for _, packet in sorted((n + shuffle.random() * jitter, p) for n, p in enumerate(packets))]
    opening = [
        Segment(CLIENT, SERVER, up.first - 1, 0, SYN).ethernet(),
        Segment(SERVER, CLIENT, down.first - 1, up.first, SYN | ACK).ethernet(),
    ]
    ending = [
        _segment(speakers, way, len(speakers[way].content), FIN | ACK, b"", sent)
        for way in (Direction.TO_SERVER, Direction.TO_CLIENT)
    ]
    return opening + packets + ending


def _segment(
    speakers: dict[Direction, Sender],
    way: Direction,
    start: int,
    flags: int,
    payload: bytes,
    sent: dict[Direction, int],
) -> bytes:
    ends = (CLIENT, SERVER) if way is Direction.TO_SERVER else (SERVER, CLIENT)
    acknowledged = speakers[way.other].first + sent[way.other]
    return Segment(*ends, speakers[way].first + start, acknowledged, flags, payload).ethernet()


windows = st.sampled_from([100, 300, 1000, 1 << 20])


@given(senders(lossy=False), senders(lossy=False), st.randoms(use_true_random=False), windows, st.booleans())
def test_streams_without_loss_are_reassembled(
    up: Sender,
    down: Sender,
    shuffle: random.Random,
    window_bytes: int,
    batched: bool,  # noqa: FBT001 - drawn
) -> None:
    result = assembled(packets_of(up, down, shuffle), window_bytes=window_bytes, batched=batched)
    assert result.to_server() == [up.content, "fin"] if up.content else ["fin"]
    assert result.to_client() == [down.content, "fin"] if down.content else ["fin"]


@given(senders(lossy=True), senders(lossy=True), st.randoms(use_true_random=False), windows, st.booleans())
def test_with_loss_there_are_gaps_of_the_right_size_in_the_right_place(
    up: Sender,
    down: Sender,
    shuffle: random.Random,
    window_bytes: int,
    batched: bool,  # noqa: FBT001 - drawn
) -> None:
    result = assembled(packets_of(up, down, shuffle), window_bytes=window_bytes, batched=batched)
    assert result.to_server() == up.expected()
    assert result.to_client() == down.expected()


@given(senders(lossy=True), senders(lossy=True), st.randoms(use_true_random=False), st.integers(60, 2000))
def test_results_do_not_depend_on_the_borders_of_batches(
    up: Sender, down: Sender, shuffle: random.Random, window_bytes: int
) -> None:
    raw = pcap(packets_of(up, down, shuffle))
    whole, cut = assembled(raw), assembled(raw, window_bytes=window_bytes)
    assert cut.order == whole.order
    assert cut.rows == whole.rows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 63), st.integers(-9, 9), st.binary(max_size=4))))
@example([(1, RST, 0, b""), (1, SYN | FIN, 0, b""), (0, SYN, 0, b"")])
@example([(0, RST, 0, b""), (0, SYN, 0, b"\0"), (0, SYN | ACK, 0, b"")])
def test_hostile_packets_never_raise(moves: list[tuple[int, int, int, bytes]]) -> None:
    packets = [
        Segment(
            f"10.0.0.{1 + which % 2}:6800",
            f"10.0.0.{2 - which % 2}:6800",
            number << 30 if which > 1 else number,
            number,
            flags,
            payload,
        ).ethernet()
        for which, flags, number, payload in moves
    ]
    raw = pcap(packets)
    whole = assembled(raw)
    assert sum(len(what) for _, what in whole.order if isinstance(what, bytes)) <= sum(len(m[3]) for m in moves)
    assert assembled(raw, window_bytes=100).lanes == whole.lanes


@pytest.mark.needs("tshark")
def test_tshark_sees_the_same_streams(tmp_path: Path) -> None:
    shuffle = random.Random(7)
    up = Sender(BYTES, 5000, [(n * 64, min(n * 64 + 99, 4096)) for n in range(64)], set())
    down = Sender(BYTES[::-1], SPACE - 99, [(n * 64, n * 64 + 64) for n in range(64)], set())
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(packets_of(up, down, shuffle, jitter=0)))  # tshark gives up what is acknowledged at once
    command = ["tshark", "-r", path, "-q", "-z", "follow,tcp,raw,0"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    content = {False: b"", True: b""}
    for line in lines:
        if line.strip() and set(line.strip()) <= set("0123456789abcdef"):
            content[line.startswith("\t")] += bytes.fromhex(line.strip())
    result = assembled(path.read_bytes())
    assert result.to_server() == [content[False], "fin"] == [up.content, "fin"]
    assert result.to_client() == [content[True], "fin"] == [down.content, "fin"]
