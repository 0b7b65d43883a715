"""Bundles of TCP segments, built here as the kernel does, cut into packets and joined again."""

import struct
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.network.wire.frames import HEADER_BYTES, Bundle, Packet, complete, joined

ETHERNET = bytes(range(12))
MSS = 100
FIN, PSH, ACK = 0x01, 0x08, 0x10
SEQ = 0xFFFF_FF80
"""It wraps within a bundle."""


def ones_sum(data: bytes) -> int:
    """The sum of RFC 1071, word by word."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def bundle(payload: bytes, version: int = 4, *, tagged: bool = False, flags: int = FIN | PSH | ACK) -> Bundle:
    """A bundle with a TCP option, and the sum of the pseudo header as its checksum."""
    tcp_bytes = 24 + len(payload)
    if version == 4:
        ends = IPv4Address("10.9.0.1").packed + IPv4Address("10.9.0.2").packed
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + tcp_bytes, 0xFFFE, 0x4000, 64, 6, 0) + ends
        ip = ip[:10] + struct.pack("!H", ~ones_sum(ip) & 0xFFFF) + ip[12:]
    else:
        ends = IPv6Address("fd00::1").packed + IPv6Address("fd00::2").packed
        ip = struct.pack("!IHBB", 6 << 28, tcp_bytes, 6, 64) + ends
    pseudo = ones_sum(ends + struct.pack("!II", tcp_bytes, 6))
    tcp = struct.pack("!HHIIBBHHH", 1, 2, SEQ, 7, 6 << 4, flags, 500, pseudo, 0) + b"\x02\x04\x05\xb4"
    link = ETHERNET + (b"\x81\x00\x00\x05" if tagged else b"") + (b"\x08\x00" if version == 4 else b"\x86\xdd")
    start = len(link) + len(ip)
    header = struct.pack("=BBHHHH", 1, 1 if version == 4 else 4, start + 24, MSS, start, 16)
    return Bundle.read(header + link + ip + tcp + payload)


def check(raw: bytes, version: int, link_bytes: int) -> tuple[int, int, bytes]:
    """Check lengths and checksums of a single packet; returns its sequence number, flags and payload."""
    ip = complete(raw)[HEADER_BYTES + link_bytes :]
    if version == 4:
        assert ones_sum(ip[:20]) == 0xFFFF
        assert int.from_bytes(ip[2:4], "big") == len(ip)
        ends, tcp = ip[12:20], ip[20:]
    else:
        assert int.from_bytes(ip[4:6], "big") == len(ip) - 40
        ends, tcp = ip[8:40], ip[40:]
    assert ones_sum(ends + struct.pack("!II", len(tcp), 6) + tcp) == 0xFFFF
    return int.from_bytes(tcp[4:8], "big"), tcp[13], tcp[24:]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link_bytes", [14, 18])
@pytest.mark.parametrize("size", [1, MSS, MSS + 1, 3 * MSS, 3 * MSS + 7])
def test_bundle_is_cut_into_packets_of_its_size(version: int, link_bytes: int, size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    whole = bundle(payload, version, tagged=link_bytes == 18)
    packets = whole.packets()
    assert len(packets) == whole.count == -(-size // MSS)
    assert sum(map(len, packets)) == whole.sent_bytes
    found = b""
    for number, packet in enumerate(packets):
        raw = whole.part(number, number + 1)
        assert len(packet) == len(raw) - HEADER_BYTES
        last = number == len(packets) - 1
        seq, flags, data = check(raw, version, link_bytes)
        assert seq == (SEQ + len(found)) % (1 << 32)
        assert flags == (FIN | PSH | ACK if last else ACK)
        found += data
    assert found == payload


@given(st.lists(st.integers(0, 9), unique=True, min_size=1), st.sampled_from([4, 6]))
def test_neighbours_are_written_as_one_bundle(numbers: list[int], version: int) -> None:
    whole = bundle(bytes(range(100)) * 10, version)
    packets = whole.packets()
    written = list(joined([packets[number] for number in numbers]))
    assert sum(count for _, count in written) == len(numbers)
    assert len(written) == 1 + sum(one + 1 != other for one, other in pairwise(numbers))
    again = [part for raw, count in written for part in Bundle.read(raw).packets()]
    assert [complete(packet.bundle.part(packet.number, packet.number + 1)) for packet in again] == [
        complete(whole.part(number, number + 1)) for number in numbers
    ]


def test_untouched_bundles_are_written_as_they_were_read() -> None:
    one, other = bundle(b"x" * 350), bundle(b"y" * 50)
    assert list(joined([*one.packets(), *other.packets()])) == [(one.raw, 4), (other.raw, 1)]


def test_packets_of_other_kinds_are_not_cut() -> None:
    frame = bytes(HEADER_BYTES) + ETHERNET + b"\x08\x06" + b"arp".ljust(46)
    (packet,) = Bundle.read(frame).packets()
    assert len(packet) == len(frame) - HEADER_BYTES
    assert list(joined([packet])) == [(frame, 1)]


@given(st.integers(0, 8 * 200 - 1))
def test_flipped_bit_makes_the_checksum_wrong(bit: int) -> None:
    packet = bundle(bytes(350)).packets()[1]
    intact = complete(packet.bundle.part(1, 2))
    ((damaged, _),) = joined([packet.flipped(bit % (8 * len(packet)))])
    different = int.from_bytes(damaged, "big") ^ int.from_bytes(intact, "big")
    assert different.bit_count() == 1
    assert damaged[:HEADER_BYTES] == bytes(HEADER_BYTES)


def test_sum_of_a_datagram_is_never_the_one_for_none() -> None:
    # The words add up to 0xFFFF, so that the checksum would be 0.
    frame = struct.pack("=BBHHHH", 1, 0, 0, 0, 14, 6) + bytes(14) + struct.pack("!HHHH", 0xFFF0, 0x000F, 0, 0)
    assert complete(frame)[-2:] == b"\xff\xff"
    assert isinstance(Bundle.read(frame).packets()[0], Packet)
