"""Packets inside of others: read as if they were bare; what cannot be read is counted, and named to the user."""

import gzip
import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, CookedLinux, Dot1AD, Dot1AH, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from tests.support.packets import Segment, ipv4, pcap
from tests.support.streams import assembled
from toolkit.capture.formats import open_capture
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.tcp import Assembler

CAPTURE = Path(__file__).parents[4] / "captures" / "reef-crc" / "capture.pcapng.gz"


ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
"""Its addresses are given, because scapy asks the network for those that are not."""
OUTER = ETHER / IP(src="192.0.2.1", dst="192.0.2.2")
OUTER_6 = ETHER / IPv6(src="2001:db8::1", dst="2001:db8::2")
INNER = Segment(payload=b"ceph v2\n")

CARRIERS: dict[str, Callable[[Packet], Packet]] = {
    "VXLAN": lambda ip: OUTER / UDP(dport=4789) / VXLAN(vni=7) / ETHER / ip,
    "VXLAN on Linux' port, in IPv6": lambda ip: OUTER_6 / UDP(dport=8472) / VXLAN(vni=7) / ETHER / ip,
    "VXLAN-GPE": lambda ip: OUTER / UDP(dport=4790) / VXLAN(flags=0x0C, NextProtocol=1, vni=7) / ip,
    "Geneve": lambda ip: OUTER / UDP(dport=6081) / GENEVE(vni=7) / ETHER / ip,
    "Geneve with options": lambda ip: (
        OUTER / UDP(dport=6081) / GENEVE(vni=7, options=GeneveOptions(classid=1, data=b"12345678")) / ETHER / ip
    ),
    "GRE": lambda ip: OUTER / GRE(proto=0x0800) / ip,
    "GRE with a checksum, a key, and numbers": lambda ip: (
        OUTER_6 / GRE(proto=0x0800, chksum_present=1, key_present=1, key=5, seqnum_present=1) / ip
    ),
    "Ethernet in GRE": lambda ip: OUTER / GRE(proto=0x6558, key_present=1) / ETHER / Dot1Q(vlan=3) / ip,
    "ERSPAN": lambda ip: OUTER / GRE(proto=0x88BE) / ETHER / ip,
    "ERSPAN II": lambda ip: OUTER / GRE(proto=0x88BE, seqnum_present=1) / Raw(b"\x10" + bytes(7)) / ETHER / ip,
    "ERSPAN III": lambda ip: (
        OUTER / GRE(proto=0x22EB, seqnum_present=1) / Raw(b"\x20" + bytes(10) + b"\1" + bytes(8)) / ETHER / ip
    ),
    "IP in IP": lambda ip: OUTER / ip,
    "IPv4 in IPv6": lambda ip: OUTER_6 / ip,
    "MPLS in UDP": lambda ip: OUTER / UDP(dport=6635) / MPLS(label=9, s=1) / ip,
    "MPLS": lambda ip: ETHER / MPLS(label=16, s=0) / MPLS(label=17, s=0) / MPLS(label=18, s=1) / ip,
    "Ethernet in MPLS": lambda ip: ETHER / MPLS(label=16, s=1) / Raw(bytes(4)) / ETHER / ip,
    "PPPoE": lambda ip: ETHER / PPPoE(sessionid=3) / PPP(proto=0x21) / ip,
    "QinQ": lambda ip: ETHER / Dot1AD(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / ip,
    "PBB": lambda ip: ETHER / Dot1AH(isid=2) / ETHER / ip,
    "a tunnel in a tunnel": lambda ip: (
        OUTER
        / GRE(proto=0x86DD)
        / IPv6(src="2001:db8::3", dst="2001:db8::4")
        / UDP(dport=4789)
        / VXLAN()
        / ETHER
        / Dot1Q()
        / ip
    ),
}


@cache
def bare() -> tuple[list[bytes], list[dict[str, object]]]:
    """IP packets of a capture of a cluster, and its frames."""
    raw = gzip.decompress(CAPTURE.read_bytes())
    packets = []
    for batch in open_capture(io.BytesIO(raw)):
        for _, _, link_type, packet in batch.packets():
            assert link_type == 1
            packets.append(bytes(packet[14:]))
    packets = packets[:150]
    return packets, frames(pcap(packets, link_type=101))


def frames(raw: bytes) -> list[dict[str, object]]:
    return [frame.as_json() for frame in decode_capture(io.BytesIO(raw))]


@pytest.mark.parametrize("name", CARRIERS)
def test_a_link_reads_the_same_inside_another_packet(name: str) -> None:
    packets, expected = bare()
    empty = bytes(CARRIERS[name](IP(src="10.0.0.1", dst="10.0.0.2", len=20)))
    shell = empty[: empty.rindex(b"\x45")]
    assert len(expected) > 50
    assert frames(pcap(wrapped(packets, shell))) == expected


def wrapped(packets: list[bytes], shell: bytes) -> Iterator[bytes]:
    """The packets behind headers whose lengths fit them."""
    for packet in packets:
        grown = bytearray(shell)
        kind = int.from_bytes(grown[12:14])
        if kind == 0x0800:
            struct.pack_into(">H", grown, 16, len(grown) - 14 + len(packet))
        elif kind == 0x86DD:
            struct.pack_into(">H", grown, 18, len(grown) - 54 + len(packet))
        inner = grown.find(b"\x60\0\0\0\0", 54 if kind == 0x86DD else 34)
        if inner >= 0:
            struct.pack_into(">H", grown, inner + 4, len(grown) - inner - 40 + len(packet))
        yield bytes(grown) + packet


@pytest.mark.parametrize("name", ["IPv6 in IP", "IPv6 in IPv6"])
def test_ipv6_in_ip(name: str) -> None:
    segment = Segment("[fd00::1]:40000", "[fd00::2]:6800", payload=b"sixsix")
    outer = OUTER if name == "IPv6 in IP" else OUTER_6
    packet = bytes(outer / IPv6(segment.ip()))
    assert assembled([packet]).to_server() == [b"sixsix"]


def test_tunnels_in_cooked_captures() -> None:
    inner = bytes(IP(src="192.0.2.1", dst="192.0.2.2") / IP(INNER.ip()))
    assert assembled([bytes(CookedLinux(proto=0x0800)) + inner], link_type=113).to_server() == [INNER.payload]
    labelled = struct.pack(">H", 0x8847) + bytes(18) + bytes(MPLS(label=16, s=1)) + INNER.ip()
    assert assembled([labelled], link_type=276).to_server() == [INNER.payload]


def test_packets_captured_inside_and_outside_a_tunnel_count_once() -> None:
    later = Segment(sequence=INNER.sequence + len(INNER.payload), payload=b"more")
    both = [wrap for each in (INNER, later) for wrap in (each.ethernet(), bytes(CARRIERS["VXLAN"](IP(each.ip()))))]
    result = assembled(both)
    assert len(result.streams) == 1
    assert result.to_server() == [b"ceph v2\nmore"]
    assert result.streams[0].tcp.repeats == [0, 0]


def test_a_fragmented_tunnel_is_put_together() -> None:
    outer = bytes(CARRIERS["GRE"](IP(INNER.ip())))[34:]
    addresses = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
    pieces = [ipv4(*addresses, outer[:16], fragment=0x2000), ipv4(*addresses, outer[16:], fragment=2)]
    marked = [bytes(12) + b"\x08\x00" + piece[:9] + b"\x2f" + piece[10:] for piece in pieces]
    assert assembled(marked).to_server() == [INNER.payload]
    assert skipped(marked[:1]) == {"IP fragments of packets that are not in the capture as a whole": 1}


def skipped(packets: list[bytes]) -> dict[str, int]:
    assembler = Assembler()
    for batch in open_capture(io.BytesIO(pcap(packets))):
        assembler.feed(batch)
    assembler.finish()
    return {reason: count for reason, count in assembler.skipped.items() if count}


def test_a_declared_port_of_vxlan() -> None:
    packet = bytes(OUTER / UDP(dport=14789) / VXLAN() / ETHER / IP(INNER.ip()))
    other = bytes(OUTER / UDP(dport=14789) / Raw(bytes(40)))
    assert assembled([packet, other], ports=[6800]).streams == {}
    assert assembled([packet, other], ports=[6800, 14789]).to_server() == [INNER.payload]


DEEP = bytes(INNER.ip())
for _ in range(8):
    DEEP = bytes(IP(src="192.0.2.1", dst="192.0.2.2") / IP(DEEP))

NOT_READ = {
    "inside IPsec (ESP), which is not read": ETHER
    / IP(src="192.0.2.1", dst="192.0.2.2", proto=50)
    / Raw(bytes(40)),
    "inside IPsec (ESP in UDP), which is not read": OUTER / UDP(dport=4500) / Raw(bytes(40)),
    "inside MACsec, which is not read": Ether(bytes(12) + struct.pack(">H", 0x88E5)) / Raw(bytes(40)),
    "inside GRE with a header that is not known": OUTER / GRE(proto=0x880B, version=1) / Raw(bytes(40)),
    "inside VXLAN with a header that is not known": OUTER / UDP(dport=4789) / VXLAN(flags=0) / Raw(bytes(40)),
    "inside MPLS, and neither IP nor Ethernet behind a control word": ETHER / MPLS(s=1) / Raw(b"\xff" * 20),
    "behind more than 16 headers": Ether(bytes(12) + b"\x81\x00\0\7" * 17 + b"\x08\x00" + INNER.ip()),
    "behind more than 32 labels of MPLS": Ether(bytes(12) + b"\x88\x47" + bytes(4) * 40),
    "inside more than 8 layers of IP": Ether(bytes(12) + struct.pack(">H", 0x0800)) / Raw(DEEP),
    "cut short within its headers": OUTER / UDP(dport=4789) / Raw(b"\x08"),
}


@pytest.mark.parametrize("reason", NOT_READ)
def test_assembler_counts_packets_that_it_does_not_read(reason: str) -> None:
    assert skipped([bytes(NOT_READ[reason])] * 3) == {reason: 3}


@pytest.mark.parametrize("form", ["table", "csv"])
def test_decode_names_the_packets_that_it_does_not_read(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "carried.pcap"
    path.write_bytes(pcap([bytes(NOT_READ["inside MACsec, which is not read"])] * 3))
    assert msgrlab(["decode", str(path), "--format", form]) == 1
    assert "packets not read: 3 inside MACsec, which is not read" in capsys.readouterr().err


EXAMPLES = [bytes(carrier(IP(INNER.ip()))) for carrier in CARRIERS.values()]


@given(
    st.lists(
        st.tuples(st.sampled_from(EXAMPLES), st.integers(0, 160), st.binary(max_size=12), st.integers(0, 200)),
        min_size=1,
        max_size=20,
    )
)
def test_damaged_headers_never_raise(damaged: list[tuple[bytes, int, bytes, int]]) -> None:
    packets = [(raw[:place] + patch + raw[place + len(patch) :])[:size] for raw, place, patch, size in damaged]
    bytes_of = [what for lane in assembled(packets).lanes.values() for what in lane if isinstance(what, bytes)]
    assert sum(map(len, bytes_of)) <= sum(map(len, packets))
