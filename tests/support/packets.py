"""Packets and capture files, made byte by byte."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
TIME_NS = 1_700_000_000_000_000_000
MILLISECOND_NS = 1_000_000


@dataclass(frozen=True)
class Segment:
    """A TCP segment, and how it is wrapped."""

    source: str = "10.0.0.1:40000"
    target: str = "10.0.0.2:6800"
    sequence: int = 1000
    acknowledged: int = 0
    flags: int = ACK
    payload: bytes = b""
    options: bytes = field(default=b"", kw_only=True)
    """Of TCP; their length is a multiple of four."""
    offloaded: bool = field(default=False, kw_only=True)
    """The IP header has no length, as of large sends that the network card cuts."""

    @property
    def back(self) -> "Segment":
        """Return a segment in the other direction."""
        return replace(self, source=self.target, target=self.source)

    def tcp(self) -> bytes:
        ports = (int(end.rpartition(":")[2]) for end in (self.source, self.target))
        words = 5 + len(self.options) // 4
        numbers = self.sequence & 0xFFFFFFFF, self.acknowledged & 0xFFFFFFFF
        header = struct.pack(">HHIIBBHHH", *ports, *numbers, words << 4, self.flags, 0xFFFF, 0, 0)
        return header + self.options + self.payload

    def addresses(self) -> tuple[bytes, bytes]:
        source, target = (ip_address(end.rpartition(":")[0].strip("[]")) for end in (self.source, self.target))
        return source.packed, target.packed

    def ip(self) -> bytes:
        """Return an IP packet, of the version of its addresses."""
        tcp = self.tcp()
        return ipv4(*self.addresses(), tcp, offloaded=self.offloaded) if self.version == 4 else self._ipv6(tcp)

    def _ipv6(self, tcp: bytes) -> bytes:
        return ipv6(*self.addresses(), tcp, offloaded=self.offloaded)

    @property
    def version(self) -> int:
        return 6 if self.source.startswith("[") else 4

    def ethernet(self, *tags: int) -> bytes:
        """Return an Ethernet frame, with VLAN tags of these types."""
        kind = 0x0800 if self.version == 4 else 0x86DD
        stack = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
        return bytes(range(12)) + stack + struct.pack(">H", kind) + self.ip()


def ipv4(
    source: bytes,
    target: bytes,
    payload: bytes,
    *,
    options: bytes = b"",
    fragment: int = 0x4000,
    identification: int = 1,
    offloaded: bool = False,
) -> bytes:
    """An IPv4 packet whose protocol field is TCP."""
    size = 20 + len(options) + len(payload)
    words = 5 + len(options) // 4
    length = 0 if offloaded else size
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, length, identification, fragment, 64, 6, 0)
    return head + source + target + options + payload


def ipv6(
    source: bytes,
    target: bytes,
    payload: bytes,
    *,
    extensions: Sequence[tuple[int, bytes]] = (),
    offloaded: bool = False,
) -> bytes:
    """An IPv6 packet that carries TCP behind extension headers (type and bytes without the next type)."""
    kinds = [kind for kind, _ in extensions] + [6]
    chain = b"".join(bytes([after]) + body for after, (_, body) in zip(kinds[1:], extensions, strict=True))
    length = 0 if offloaded else len(chain) + len(payload)
    return struct.pack(">IHBB", 6 << 28, length, kinds[0], 64) + source + target + chain + payload


def pcap(
    packets: Iterable[bytes],
    *,
    link_type: int = 1,
    magic: int = 0xA1B2C3D4,
    order: str = "<",
    snap_bytes: int = 1 << 18,
    step_ns: int = MILLISECOND_NS,
) -> bytes:
    """A capture file with packets a millisecond apart."""
    tick_ns = 1 if magic == 0xA1B23C4D else 1000
    out = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap_bytes, link_type)]
    for number, packet in enumerate(packets):
        seconds, rest = divmod(TIME_NS + number * step_ns, 1_000_000_000)
        kept = packet[:snap_bytes]
        out.append(struct.pack(f"{order}IIII", seconds, rest // tick_ns, len(kept), len(packet)))
        out.append(bytes(8) * (magic == 0xA1B2CD34) + kept)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """An option of a block of a pcapng file."""
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"") -> bytes:
    """The block that a pcapng file begins with."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(link_type: int = 1, snap_bytes: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    """A block that describes an interface."""
    return block(1, struct.pack(f"{order}HHI", link_type, 0, snap_bytes) + options, order)


def enhanced(
    packet: bytes, ticks: int = 0, interface_id: int = 0, options: bytes = b"", order: str = "<"
) -> bytes:
    """A block with a packet."""
    head = struct.pack(f"{order}IIIII", interface_id, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(6, head + packet + bytes(-len(packet) % 4) + options, order)
