"""TCP segments without data or options, in IPv4 and IPv6 packets: built and parsed as far as forging needs it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from toolkit.network.places import Address

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_TCP = 6
_HOPS = 64
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_IPV6 = struct.Struct(">IHBB16s16s")
_HEADER = struct.Struct(">HHIIBBHHH")
_DO_NOT_FRAGMENT = 0x4000
SEQUENCE_NUMBERS = 1 << 32


@dataclass(frozen=True, slots=True)
class Flow:
    """One end of a TCP connection."""

    address: Address
    port: int
    peer_address: Address
    peer_port: int

    @property
    def other_end(self) -> "Flow":
        """The same connection from the peer's side."""
        return Flow(self.peer_address, self.peer_port, self.address, self.port)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of TCP."""

    flow: Flow
    """The connection from the sender's side."""
    flags: int
    seq: int
    ack: int = 0
    window: int = 0
    """Window field of the header, not scaled."""
    size_bytes: int = 0
    """Size of its data; only for parsed segments."""

    @property
    def next_seq(self) -> int:
        """Sequence number that follows it."""
        count = self.size_bytes + bool(self.flags & SYN) + bool(self.flags & FIN)
        return (self.seq + count) % SEQUENCE_NUMBERS

    def packet(self) -> bytes:
        """Return the IP packet with this segment, with checksums."""
        flow = self.flow
        header = self._header(0)
        ends = flow.address.packed + flow.peer_address.packed
        tcp = self._header(_checksum(ends + struct.pack(">II", len(header), _TCP) + header))
        if flow.address.version == 6:
            return _IPV6.pack(6 << 28, len(tcp), _TCP, _HOPS, *_halves(ends)) + tcp
        fields = (0x45, 0, _IPV4.size + len(tcp), 0, _DO_NOT_FRAGMENT, _HOPS, _TCP)
        checksum = _checksum(_IPV4.pack(*fields, 0, *_halves(ends)))
        return _IPV4.pack(*fields, checksum, *_halves(ends)) + tcp

    def _header(self, checksum: int) -> bytes:
        ports = (self.flow.port, self.flow.peer_port)
        return _HEADER.pack(
            *ports, self.seq, self.ack, _HEADER.size // 4 << 4, self.flags, self.window, checksum, 0
        )

    @classmethod
    def read(cls, packet: bytes) -> "Segment | None":
        """Parse the segment in a packet; None unless it is unfragmented TCP without IPv6 extension headers."""
        try:
            if packet[0] >> 4 == 6:
                _, size, kind, _, source, destination = _IPV6.unpack_from(packet)
                start, end = _IPV6.size, _IPV6.size + size
            else:
                _, _, end, _, fragment, _, kind, _, source, destination = _IPV4.unpack_from(packet)
                start = (packet[0] & 0x0F) * 4
                kind = 0 if fragment & 0x3FFF else kind
            port, peer_port, seq, ack, offset, flags, window, _, _ = _HEADER.unpack_from(packet, start)
        except (struct.error, IndexError):
            return None
        if kind != _TCP:
            return None
        flow = Flow(ip_address(source), port, ip_address(destination), peer_port)
        return cls(flow, flags, seq, ack, window, max(0, end - start - (offset >> 4) * 4))


def _halves(ends: bytes) -> Iterator[bytes]:
    half = len(ends) // 2
    yield ends[:half]
    yield ends[half:]


def _checksum(raw: bytes) -> int:
    """Compute the checksum of RFC 1071; ``raw`` has an even length."""
    total: int = sum(struct.unpack(f">{len(raw) // 2}H", raw))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
