import gzip
import io
import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.packets import TIME_NS, block, enhanced, interface, option, pcap, section
from toolkit.capture.formats import CaptureReader, open_capture
from toolkit.capture.formats.blocks import MESSENGER_KEY_LOG

PACKETS = [bytes([number]) * (40 + number) for number in range(20)]
SECOND_NS = 1_000_000_000
Form = Callable[[Iterable[bytes]], bytes]


def opened(raw: bytes, window_bytes: int = 1 << 20) -> CaptureReader:
    return open_capture(io.BytesIO(raw), window_bytes)


def packets_of(reader: CaptureReader) -> list[bytes]:
    return [bytes(packet) for batch in reader for *_, packet in batch.packets()]


def pcapng(packets: Iterable[bytes]) -> bytes:
    return section() + interface() + b"".join(map(enhanced, packets))


def times_of(reader: CaptureReader) -> list[int]:
    return [time_ns for batch in reader for time_ns in batch.times_ns.tolist()]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
def test_every_variant_of_pcap(magic: int, order: str) -> None:
    raw = pcap(PACKETS, magic=magic, order=order, link_type=276, step_ns=1_234_000)
    seen = [row for batch in opened(raw) for row in batch.packets()]
    assert [bytes(packet) for *_, packet in seen] == PACKETS
    assert [number for number, *_ in seen] == list(range(20))
    assert [time_ns for _, time_ns, *_ in seen] == [TIME_NS + number * 1_234_000 for number in range(20)]
    assert {link_type for *_, link_type, _ in seen} == {276}


def test_nanoseconds_of_pcap_are_kept() -> None:
    assert times_of(opened(pcap(PACKETS[:3], magic=0xA1B23C4D, step_ns=7))) == [TIME_NS, TIME_NS + 7, TIME_NS + 14]


def test_the_length_of_a_checksum_is_no_part_of_the_link_type() -> None:
    (batch,) = opened(pcap(PACKETS[:1], link_type=0x24000001))
    assert batch.link_types.tolist() == [1]


def test_a_packet_that_was_cut_when_captured() -> None:
    (batch,) = opened(pcap(PACKETS, snap_bytes=45))
    assert batch.captured_bytes.tolist() == [min(len(packet), 45) for packet in PACKETS]
    assert batch.original_bytes.tolist() == list(map(len, PACKETS))


@given(st.integers(1, 300), st.sampled_from([pcap, pcapng]))
def test_reader_returns_the_same_packets_for_any_window_size(window_bytes: int, form: Form) -> None:
    reader = opened(form(PACKETS), window_bytes)
    assert packets_of(reader) == PACKETS
    assert reader.problem is None
    assert reader.packets == 20


# ---- pcapng


@pytest.mark.parametrize("order", ["<", ">"])
def test_enhanced_simple_and_old_packets(order: str) -> None:
    old = struct.pack(f"{order}HHIIII", 0, 9, 0, 5, 40, 40) + PACKETS[0]
    brief = struct.pack(f"{order}I", 41) + PACKETS[1]
    raw = section(order) + interface(113, order=order)
    raw += block(2, old, order) + block(3, brief, order) + enhanced(PACKETS[2], 6, order=order)
    (batch,) = opened(raw)
    assert [bytes(batch.packet(index)) for index in range(3)] == PACKETS[:3]
    assert batch.times_ns.tolist() == [5000, 5000, 6000]
    assert batch.link_types.tolist() == [113] * 3
    assert batch.original_bytes.tolist() == [40, 41, 42]


def test_a_simple_packet_is_cut_at_the_length_of_its_interface() -> None:
    raw = section() + interface(1, 16) + block(3, struct.pack("<I", 40) + bytes(16))
    (batch,) = opened(raw)
    assert (batch.captured_bytes.tolist(), batch.original_bytes.tolist()) == ([16], [40])


@pytest.mark.parametrize(
    ("resolution", "ticks", "time_ns"),
    [
        (3, 1500, 1_500_000_000),
        (9, 1500, 1500),
        (12, 5_000_000, 5000),
        (0x80 | 1, 3, 1_500_000_000),
        (0x80 | 40, 3 << 39, 1_500_000_000),
        (0x80 | 63, 3 << 62, 1_500_000_000),
        (0x80 | 127, 77, 0),
        (127, 77, 0),
    ],
)
def test_time_resolutions(resolution: int, ticks: int, time_ns: int) -> None:
    raw = section() + interface(options=option(9, bytes([resolution]))) + enhanced(b"x", ticks)
    assert times_of(opened(raw)) == [time_ns]


def test_each_interface_has_its_own_link_type_and_clock() -> None:
    raw = section() + interface(1) + interface(101, options=option(9, b"\x09") + option(14, struct.pack("<q", 10)))
    raw += enhanced(b"a", 7, 1) + enhanced(b"b", 7, 0)
    (batch,) = opened(raw)
    assert batch.times_ns.tolist() == [10 * SECOND_NS + 7, 7000]
    assert batch.link_types.tolist() == [101, 1]


def test_sections_of_both_byte_orders() -> None:
    one = section("<") + interface(1) + enhanced(b"one")
    other = section(">") + interface(101, order=">") + enhanced(b"other", order=">")
    batches = list(opened(one + other + one))
    assert [(batch.first, batch.link_types.tolist()) for batch in batches] == [(0, [1]), (1, [101]), (2, [1])]
    assert packets_of(opened(one + other + one)) == [b"one", b"other", b"one"]


def test_unknown_blocks_are_skipped() -> None:
    strange = block(0xBAD, struct.pack("<I", 32473) + b"x" * 40) + block(0x80000001, b"") + block(5, bytes(12))
    raw = section() + strange + interface() + strange + enhanced(b"one") + strange + enhanced(b"two") + strange
    reader = opened(raw)
    assert packets_of(reader) == [b"one", b"two"]
    assert reader.problem is None


def test_a_huge_strange_block_is_not_held_in_memory() -> None:
    size = (1 << 24) + 4096
    raw = section() + interface() + block(0xBAD, bytes(size)) + enhanced(b"behind")
    reader = opened(raw, 4096)
    assert packets_of(reader) == [b"behind"]


def test_comments_of_file_interface_names_statistics_and_packets() -> None:
    raw = section(options=option(1, b"file") + option(1, "zwei \u00e4".encode()) + option(2, b"not this"))
    raw += interface(options=option(2, b"eth0") + option(1, b"interface"))
    raw += block(4, struct.pack("<HH", 1, 6) + b"\x01\x02\x03\x04a\0" + bytes(2) + bytes(4) + option(1, b"names"))
    raw += enhanced(b"12345", options=option(2, bytes(4)) + option(1, b"packet") + option(0, b""))
    raw += block(5, bytes(12) + option(1, b"statistics"))
    reader = opened(raw)
    assert packets_of(reader) == [b"12345"]
    assert sorted(reader.notes) == ["file", "interface", "names", "packet", "statistics", "zwei \u00e4"]


def test_reader_returns_messenger_secrets_only() -> None:
    def secrets(kind: int, text: bytes) -> bytes:
        return block(10, struct.pack("<II", kind, len(text)) + text)

    reader = opened(section() + secrets(0x544C534B, b"CLIENT_RANDOM") + secrets(MESSENGER_KEY_LOG, b"key"))
    assert packets_of(reader) == []
    assert reader.secrets == ["key"]


def test_comments_are_kept_up_to_a_limit() -> None:
    one = enhanced(b"x", options=option(1, b"y" * 60_000))
    reader = opened(section() + interface() + one * 400)
    assert len(packets_of(reader)) == 400
    assert sum(map(len, reader.notes)) <= 1 << 24
    assert reader.problem is not None


# ---- gzip, pipes, files


def test_gzip_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap.gz"
    path.write_bytes(gzip.compress(pcap(PACKETS)))
    with open_capture(path) as reader:
        assert packets_of(reader) == PACKETS
        assert reader.position_bytes == reader.size_bytes == path.stat().st_size


def test_gzip_of_several_members_and_padding() -> None:
    raw = pcap(PACKETS)
    packed = gzip.compress(raw[:100]) + gzip.compress(b"") + gzip.compress(raw[100:]) + bytes(512)
    reader = opened(packed)
    assert packets_of(reader) == PACKETS
    assert reader.problem is None


def test_truncated_gzip_gives_the_packets_before_its_end() -> None:
    whole = gzip.compress(pcap([os.urandom(500) for _ in range(50)]))
    reader = opened(whole[: len(whole) // 2])
    assert 20 <= len(packets_of(reader)) < 30
    assert reader.problem is not None
    assert "ends" in reader.problem


def test_damaged_gzip_gives_the_packets_before_the_damage() -> None:
    whole = bytearray(gzip.compress(pcap(PACKETS)))
    whole[-6] ^= 1  # its checksum
    reader = opened(bytes(whole))
    assert packets_of(reader) == PACKETS
    assert "damaged" in (reader.problem or "")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reader_of_a_pipe_returns_packets_as_they_arrive(pack: type) -> None:
    incoming, outgoing = os.pipe()
    with os.fdopen(incoming, "rb") as pipe, os.fdopen(outgoing, "wb", buffering=0) as end:
        end.write(pack(pcap(PACKETS[:2])))
        with open_capture(pipe) as reader:
            batches = iter(reader)
            assert len(next(batches)) == 2
            assert reader.size_bytes is None
            if pack is bytes:
                end.write(pcap(PACKETS[2:5])[24:])
                assert len(next(batches)) == 3
            end.close()
            assert list(batches) == []
            assert reader.problem is None


# ---- what is no capture, or not all of one


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"hello, world; no capture", "neither pcap nor pcapng"),
        (pcap([])[:10], "within its header"),
        (section()[:10], "within its header"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 3, 1, 0, 0, 0, 1), "version 3.1"),
    ],
)
def test_reader_refuses_other_files_with_a_one_line_error(raw: bytes, words: str) -> None:
    with pytest.raises(LocalError, match=words) as caught:
        opened(raw)
    assert "\n" not in str(caught.value)


def test_reader_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="No such file"):
        open_capture(tmp_path / "none.pcap")


@pytest.mark.parametrize("missing", [1, 30, 50, 58])
@pytest.mark.parametrize("form", [pcap, pcapng])
def test_a_file_that_ends_within_a_packet(missing: int, form: Form) -> None:
    reader = opened(form(PACKETS)[:-missing])
    assert packets_of(reader) == PACKETS[:-1]
    assert "bytes into packet 19" in (reader.unfinished or "")
    assert reader.problem is None


def test_impossible_packet_length_ends_the_capture() -> None:
    raw = bytearray(pcap(PACKETS))
    at = 24 + sum(16 + len(packet) for packet in PACKETS[:5]) + 8
    raw[at : at + 4] = b"\xff\xff\xff\xff"
    reader = opened(bytes(raw))
    assert packets_of(reader) == PACKETS[:5]
    assert f"at byte {at - 8} of the capture" in (reader.problem or "")


@pytest.mark.parametrize("size", [0, 8, 41, 1 << 31])
def test_impossible_block_size_ends_the_capture(size: int) -> None:
    bad = struct.pack("<II", 6, size) + bytes(60)
    reader = opened(section() + interface() + enhanced(b"one") + bad)
    assert packets_of(reader) == [b"one"]
    assert reader.problem is not None
    assert "what follows is not read" in reader.problem


def test_a_block_whose_lengths_differ_ends_the_reading() -> None:
    bad = bytearray(enhanced(b"two"))
    bad[-4] ^= 4
    reader = opened(section() + interface() + enhanced(b"one") + bytes(bad) + enhanced(b"three"))
    assert packets_of(reader) == [b"one"]
    assert "two lengths differ" in (reader.problem or "")


def test_a_packet_longer_than_its_block_is_empty() -> None:
    bad = bytearray(enhanced(b"two"))
    bad[20:24] = struct.pack("<I", 1000)
    reader = opened(section() + interface() + enhanced(b"one") + bytes(bad) + enhanced(b"three"))
    assert packets_of(reader) == [b"one", b"", b"three"]
    assert "packet 1 is not well-formed" in (reader.problem or "")


def test_a_packet_of_an_unknown_interface_is_empty() -> None:
    reader = opened(section() + enhanced(b"one"))
    assert packets_of(reader) == [b""]
    assert reader.problem is not None


@given(st.binary(max_size=400), st.integers(12, 100), st.sampled_from([pcap, pcapng]))
def test_reader_accepts_any_noise_after_the_header(noise: bytes, window_bytes: int, form: Form) -> None:
    reader = opened(form([]) + noise, window_bytes)
    assert sum(map(len, packets_of(reader))) <= len(noise)
