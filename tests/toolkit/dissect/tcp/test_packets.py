"""Link types, IP, and headers: where a packet's bytes are."""

import io
import struct
from itertools import pairwise

import pytest

from tests.support.packets import ACK, Segment, enhanced, interface, ipv4, ipv6, pcap, section
from tests.support.streams import assembled
from toolkit.capture.formats import LinkType, open_capture
from toolkit.dissect.tcp import Assembler
from toolkit.dissect.tcp import segments as segments_module

V4 = Segment(payload=b"four")
V6 = Segment("[fd00::1]:40000", "[fd00::2]:3300", payload=b"sixsix")
HEADS = {
    LinkType.RAW: b"",
    LinkType.RAW_BSD: b"",
    LinkType.RAW_OPENBSD: b"",
    LinkType.NULL: struct.pack("<I", 2),
    LinkType.LOOP: struct.pack(">I", 24),
}


def cooked(segment: Segment) -> bytes:
    return bytes(14) + struct.pack(">H", 0x0800 if segment.version == 4 else 0x86DD) + segment.ip()


def cooked_again(segment: Segment, *tags: int) -> bytes:
    kinds = [*tags, 0x0800 if segment.version == 4 else 0x86DD]
    behind = b"".join(struct.pack(">HH", 7, kind) for kind in kinds[1:])
    return struct.pack(">H", kinds[0]) + bytes(18) + behind + segment.ip()


@pytest.mark.parametrize("segment", [V4, V6])
@pytest.mark.parametrize("link_type", HEADS)
def test_link_types_without_an_ethertype(link_type: LinkType, segment: Segment) -> None:
    assert assembled([HEADS[link_type] + segment.ip()], link_type=link_type).to_server() == [segment.payload]


@pytest.mark.parametrize("segment", [V4, V6])
def test_cooked_captures(segment: Segment) -> None:
    assert assembled([cooked(segment)], link_type=113).to_server() == [segment.payload]
    assert assembled([cooked_again(segment)], link_type=276).to_server() == [segment.payload]
    assert assembled([cooked_again(segment, 0x8100, 0x88A8)], link_type=276).to_server() == [segment.payload]


@pytest.mark.parametrize("tags", [(), (0x8100,), (0x88A8, 0x8100), (0x9100, 0x8100, 0x8100)])
@pytest.mark.parametrize("segment", [V4, V6])
def test_packets_with_vlan_tags_are_read(segment: Segment, tags: tuple[int, ...]) -> None:
    assert assembled([segment.ethernet(*tags)]).to_server() == [segment.payload]


def test_link_types_of_ip_alone() -> None:
    assert assembled([V4.ip()], link_type=228).to_server() == [b"four"]
    assert assembled([V6.ip()], link_type=229).to_server() == [b"sixsix"]


def test_several_link_types_in_one_capture() -> None:
    second = Segment(sequence=1004, payload=b"more")
    raw = section() + interface(1) + interface(113) + interface(147)
    raw += enhanced(V4.ethernet()) + enhanced(b"?" * 60, 0, 2) + enhanced(cooked(second), 0, 1)
    assert assembled(raw).to_server() == [b"fourmore"]


def test_packets_of_an_unknown_link_type_are_counted() -> None:
    (batch,) = open_capture(io.BytesIO(pcap([V4.ethernet()] * 3, link_type=147)))
    assembler = Assembler()
    assert assembler.feed(batch) == []
    assert assembler.skipped == {"link type 147 is not known": 3}


def test_both_versions_of_ip_are_numbered_in_one_order() -> None:
    mixed = [segment.ethernet() for segment in (V6, V4, V6.back, V4.back)]
    result = assembled(mixed)
    assert {index: stream.client for index, stream in result.streams.items()} == {
        0: "[fd00::1]:40000",
        1: "10.0.0.1:40000",
    }
    assert [what for _, what in result.order] == [b"sixsix", b"four", b"sixsix", b"four"]


def test_ethernet_padding_is_no_payload() -> None:
    assert assembled([V4.ethernet() + bytes(20)]).to_server() == [b"four"]


def test_options_of_ip_and_tcp() -> None:
    segment = Segment(payload=b"data", options=bytes([1, 1, 8, 10]) + bytes(8))
    packet = ipv4(*segment.addresses(), segment.tcp(), options=b"\x94\x04\x00\x00")
    assert assembled([packet], link_type=101).to_server() == [b"data"]


@pytest.mark.parametrize("source", ["10.0.0.1:40000", "[fd00::1]:40000"])
def test_large_sends_have_no_length(source: str) -> None:
    target = "[fd00::2]:6800" if source[0] == "[" else "10.0.0.2:6800"
    payload = bytes(range(256)) * 700
    segment = Segment(source, target, payload=payload, offloaded=True)
    assert assembled([segment.ethernet()]).to_server() == [payload]


def test_extension_headers_of_ipv6() -> None:
    chain = [
        (0, bytes([0]) + bytes(6)),
        (43, bytes([1]) + bytes(14)),
        (51, bytes([4]) + bytes(22)),
        (60, bytes(7)),
    ]
    packet = ipv6(*V6.addresses(), V6.tcp(), extensions=chain)
    assert assembled([packet], link_type=101).to_server() == [b"sixsix"]


def test_other_protocols_are_skipped() -> None:
    udp = bytearray(V4.ip())
    udp[9] = 17
    other = bytearray(V6.ip())
    other[6] = 58
    assert assembled([bytes(udp), bytes(other), b"", b"\x00", V4.ip()], link_type=101).to_server() == [b"four"]


@pytest.mark.parametrize("segment", [V4, V6])
def test_packet_cut_at_any_byte_gives_a_gap(segment: Segment) -> None:
    packet = segment.ethernet(0x8100)
    head = len(packet) - len(segment.payload)
    for size in range(len(packet)):
        result = assembled(pcap([packet], snap_bytes=size))
        missing = len(segment.payload) - max(size - head, 0)
        payloads = [segment.payload[: size - head]] * (size > head) + [missing] * (size >= head - 12)
        if size < head:
            assert not any(isinstance(what, bytes) for what in result.to_server())
        else:
            assert result.to_server() == payloads


# ---- fragments


def fragments_of(segment: Segment, *cuts: int) -> list[bytes]:
    tcp = segment.tcp()
    packets = []
    for start, stop in pairwise([0, *cuts, len(tcp)]):
        more = stop < len(tcp)
        if segment.version == 4:
            packets.append(
                ipv4(*segment.addresses(), tcp[start:stop], fragment=more << 13 | start >> 3, identification=77)
            )
        else:
            header = bytes([0]) + struct.pack(">HI", start | more, 77)
            packets.append(ipv6(*segment.addresses(), tcp[start:stop], extensions=[(44, header)]))
    return packets


LONG = bytes(range(200))


@pytest.mark.parametrize(
    "segment", [Segment(payload=LONG), Segment("[fd00::1]:40000", "[fd00::2]:6800", payload=LONG)]
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 2, 0)])
def test_fragments_are_put_together(segment: Segment, order: tuple[int, ...]) -> None:
    pieces = fragments_of(segment, 16, 96)
    then = Segment(segment.source, segment.target, segment.sequence + len(LONG), payload=b"then").ip()
    result = assembled([*(pieces[index] for index in order), then], link_type=101)
    assert result.to_server() == [LONG + b"then"]
    assert [packet for *_, packet in result.rows] == [len(order) - 1, len(order)]


def test_fragments_in_different_batches() -> None:
    pieces = fragments_of(Segment(payload=LONG), 16, 96)
    assert assembled(pieces, link_type=101, window_bytes=100).to_server() == [LONG]


def test_a_missing_fragment_leaves_a_gap() -> None:
    head = Segment(sequence=990, payload=b"first here").ip()
    tail = Segment(sequence=1200, payload=b"tail").ip()
    pieces = fragments_of(Segment(payload=LONG), 16, 96)[:2]
    assert assembled([head, *pieces, tail], link_type=101).to_server() == [b"first here", 200, b"tail"]


def test_memory_for_fragments_is_bounded() -> None:
    segment = Segment(payload=LONG)
    lonely = [
        ipv4(*segment.addresses(), segment.tcp()[:16], fragment=1 << 13, identification=number)
        for number in range(3000)
    ]
    pieces = fragments_of(segment, 16)
    assert assembled([pieces[0], *lonely, pieces[1]], link_type=101).to_server() == []
    assert assembled([*lonely, *pieces], link_type=101).to_server() == [LONG]


# ---- endpoints


def test_assembler_reads_only_the_given_ports() -> None:
    packets = [
        Segment(f"10.0.0.1:{number}", f"10.0.0.2:{port}", payload=b"x", flags=ACK).ethernet()
        for number, port in [(40000, 80), (40001, 3300), (3300, 40002), (40003, 3301)]
    ]
    result = assembled(packets, ports={3300})
    assert [(s.client, s.server) for s in result.streams.values()] == [
        ("10.0.0.1:40001", "10.0.0.2:3300"),
        ("10.0.0.2:40002", "10.0.0.1:3300"),
    ]


def test_connections_with_equal_hashes_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [Segment(f"10.0.0.{1 + n % 3}:4000{n % 2}", payload=bytes([n]) * 3) for n in range(6)]
    segments += [Segment(f"[fd00::{1 + n % 3}]:40000", f"[fd00::{n % 2}]:6800", payload=b"six") for n in range(6)]
    packets = [segment.ethernet() for segment in segments] + [segment.back.ethernet() for segment in segments]
    usual = assembled(packets)
    monkeypatch.setattr(segments_module, "_mixed", lambda words: words[0] * 0)
    assert assembled(packets).order == usual.order
    assert len(usual.streams) == 12
