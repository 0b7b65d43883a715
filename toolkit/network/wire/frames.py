"""Frames as tap devices with offloads exchange them: behind a header, and with TCP segments in bundles.

A bundle is one frame with the payload of several TCP segments; the header has the size of each. The kernel cuts it
where an interface needs single packets. Checksums may be missing; the header says where the kernel is to put them.
Here a bundle is several packets, each with a fate of its own. Those that stay together are written as a bundle
again, so that little is done for each packet. The header is ``struct virtio_net_hdr`` of linux/virtio_net.h.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

HEADER_BYTES = 10
"""Size of the header before the frame."""
MAX_BYTES = HEADER_BYTES + 18 + 65_535
"""Most bytes of a bundle: a header, an Ethernet header with a VLAN tag, and an IP packet."""
_HEADER = struct.Struct("=BBHHHH")
"""flags, gso_type, hdr_len, gso_size, csum_start, csum_offset; the last two count from the frame's beginning."""
_KIND = 1
"""Position of gso_type."""
_NEEDS_CHECKSUM = 1
_NO_BUNDLE, _IPV4, _IPV6 = 0, 1, 4
"""Values of gso_type."""
_PLAIN = bytes(HEADER_BYTES)
_ETHERNET_BYTES, _TAG_BYTES = 14, 4
_TAGGED = b"\x81\x00"
_FIN, _PSH = 0x01, 0x08
_TCP = 6
_WORD = struct.Struct("!H")
_LONG = struct.Struct("!I")


@dataclass(slots=True, eq=False)
class Bundle:
    """A frame with its header, as read from a tap."""

    raw: bytes
    count: int = 1
    """Number of packets. The following fields matter for more than one."""
    size_bytes: int = 0
    """Bytes of each packet's payload, but for the last one, which may be shorter."""
    kind: int = _NO_BUNDLE
    """Value of gso_type."""
    network: int = 0
    """Position of the IP header in ``raw``."""
    transport: int = 0
    """Position of the TCP header in ``raw``."""
    payload: int = 0
    """Position of the payload in ``raw``."""

    @classmethod
    def read(cls, raw: bytes) -> "Bundle":
        """Parse a frame with its header; one that is no bundle is a single packet, whatever it has inside."""
        kind = raw[_KIND] & 0x7F
        if kind not in {_IPV4, _IPV6}:
            return cls(raw)
        _, _, _, size, start, _ = _HEADER.unpack_from(raw)
        if not size or HEADER_BYTES + start + 20 > len(raw):
            return cls(raw)
        at = HEADER_BYTES + _ETHERNET_BYTES
        network = at + _TAG_BYTES if raw[at - 2 : at] == _TAGGED else at
        transport = HEADER_BYTES + start
        payload = transport + (raw[transport + 12] >> 4) * 4
        count = -(-(len(raw) - payload) // size)
        return cls(raw, count, size, kind, network, transport, payload) if count > 1 else cls(raw)

    def packets(self) -> "Sequence[Packet]":
        """Return the packets in order."""
        count = self.count
        if count == 1:
            return (Packet(self, 0, len(self.raw) - HEADER_BYTES),)
        whole = self.payload - HEADER_BYTES + self.size_bytes
        packets = [Packet(self, number, whole) for number in range(count)]
        packets[-1].size_bytes = len(self.raw) - HEADER_BYTES - (count - 1) * self.size_bytes
        return packets

    @property
    def sent_bytes(self) -> int:
        """Bytes of all packets, each with its headers."""
        return len(self.raw) - HEADER_BYTES + (self.count - 1) * (self.payload - HEADER_BYTES)

    def part(self, first: int, end: int) -> bytes:
        """Return the frame, with header, that has the packets from ``first`` to ``end``, which is excluded."""
        if first == 0 and end == self.count:
            return self.raw
        raw, size = self.raw, self.size_bytes
        head = bytearray(raw[: self.payload])
        data = raw[self.payload + first * size : self.payload + end * size]
        flags, kind, length, _, start, offset = _HEADER.unpack_from(raw)
        single = end - first == 1
        _HEADER.pack_into(
            head, 0, flags, _NO_BUNDLE if single else kind, length, 0 if single else size, start, offset
        )
        tcp_bytes = self.payload - self.transport + len(data)
        if self.kind == _IPV4:
            self._fit_ipv4(head, first, tcp_bytes)
        else:
            _WORD.pack_into(head, self.network + 4, self.transport - self.network - 40 + tcp_bytes)
        seq = _LONG.unpack_from(raw, self.transport + 4)[0] + first * size
        _LONG.pack_into(head, self.transport + 4, seq & 0xFFFF_FFFF)
        # The sum of the pseudo header, to which the kernel adds the rest.
        _WORD.pack_into(head, self.transport + 16, (_sum(self._addresses) + _TCP + tcp_bytes) % 0xFFFF)
        if end < self.count:
            head[self.transport + 13] &= ~(_FIN | _PSH)
        return bytes(head) + data

    @property
    def _addresses(self) -> bytes:
        """Source and destination address."""
        first, size = (12, 8) if self.kind == _IPV4 else (8, 32)
        return self.raw[self.network + first : self.network + first + size]

    def _fit_ipv4(self, head: bytearray, first: int, tcp_bytes: int) -> None:
        """Set length, identification and checksum of an IPv4 header."""
        at = self.network
        _WORD.pack_into(head, at + 2, self.transport - at + tcp_bytes)
        _WORD.pack_into(head, at + 4, (_WORD.unpack_from(head, at + 4)[0] + first) & 0xFFFF)
        _WORD.pack_into(head, at + 10, 0)
        _WORD.pack_into(head, at + 10, ~_sum(head[at : self.transport]) & 0xFFFF)


@dataclass(slots=True, eq=False)
class Packet:
    """A packet of a bundle; its length is that of its frame."""

    bundle: Bundle
    number: int
    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes

    def flipped(self, bit: int) -> "Packet":
        """Return the packet alone with one bit flipped; its checksums are those from before."""
        raw = complete(self.bundle.part(self.number, self.number + 1))
        damaged = bytearray(raw)
        damaged[HEADER_BYTES + (bit >> 3)] ^= 1 << (bit & 7)
        return Packet(Bundle(bytes(damaged)), 0, self.size_bytes)


def joined(packets: Sequence[Packet]) -> list[tuple[bytes, int]]:
    """Return frames with headers, and the number of packets in each; neighbours in a bundle stay together."""
    frames = []
    at = 0
    while at < len(packets):
        packet = packets[at]
        bundle, number = packet.bundle, packet.number
        end = at + 1
        while end < len(packets) and packets[end].bundle is bundle and packets[end].number == number + end - at:
            end += 1
        frames.append((bundle.part(number, number + end - at), end - at))
        at = end
    return frames


def complete(raw: bytes) -> bytes:
    """Return a single packet with the checksum that its header asks for, and an empty header."""
    flags, _, _, _, start, offset = _HEADER.unpack_from(raw)
    frame = bytearray(raw)
    frame[:HEADER_BYTES] = _PLAIN
    if flags & _NEEDS_CHECKSUM:
        at = HEADER_BYTES + start
        # The field has the sum of the pseudo header; 0 would mean no checksum in UDP.
        _WORD.pack_into(frame, at + offset, ~_sum(frame[at:]) & 0xFFFF or 0xFFFF)
    return bytes(frame)


def _sum(data: bytes | bytearray) -> int:
    """Return the one's complement sum of 16-bit words (RFC 1071): the remainder modulo 0xFFFF is the same sum."""
    if len(data) & 1:
        data = bytes(data) + b"\0"
    return int.from_bytes(data, "big") % 0xFFFF
