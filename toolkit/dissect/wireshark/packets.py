"""Builds IP packets of TCP connections around given bytes, with checksums and sequence numbers."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from struct import Struct

from messenger.denc.codec import Buffer
from toolkit.dissect.direction import Direction

MAX_DATA_BYTES = 45 * 1448
"""Maximum data of one packet, as offloading network cards pass it within a kernel's 64 KiB."""

_IPV4 = Struct("!BBHHHBBH4s4s")
_IPV6 = Struct("!IHBB16s16s")
_TCP = Struct("!HHIIBBHHH")
_PSEUDO = Struct("!II")
_DONT_FRAGMENT = 0x4000
_HOP_LIMIT = 64
_PROTOCOL_TCP = 6
_FIN, _SYN, _RST, _PSH, _ACK = 0x01, 0x02, 0x04, 0x08, 0x10
_WINDOW = 0xFFFF
_WINDOW_SCALE = b"\x03\x03\x0e\x01"  # 2^14: the window never limits a sender
_MODULUS = 1 << 32

Host = IPv4Address | IPv6Address


def parse_end(text: str) -> tuple[Host, int]:
    """Split ``10.0.0.1:3300`` or ``[fd00::1]:3300`` into address and port."""
    host, _, port = text.rpartition(":")
    return ip_address(host.strip("[]")), int(port)


class Conversation:
    """One TCP connection, packet by packet.

    Args:
        client: the end that opens it, as ``address:port``, ``[address]:port`` for IPv6.
        server: the other end.
        client_isn: initial sequence number of the client.
        server_isn: initial sequence number of the server.
    """

    def __init__(self, client: str, server: str, client_isn: int = 0, server_isn: int = 0) -> None:
        ends = parse_end(client), parse_end(server)
        self._ends = {Direction.TO_SERVER: ends, Direction.TO_CLIENT: ends[::-1]}
        self._next = {Direction.TO_SERVER: client_isn, Direction.TO_CLIENT: server_isn}
        self._numbers = count()

    def open(self) -> list[bytes]:
        """Return the three packets of the handshake."""
        syn = self._packet(Direction.TO_SERVER, _SYN, options=_WINDOW_SCALE, acknowledges=False)
        self._advance(Direction.TO_SERVER, 1)
        answer = self._packet(Direction.TO_CLIENT, _SYN | _ACK, options=_WINDOW_SCALE)
        self._advance(Direction.TO_CLIENT, 1)
        return [syn, answer, self._packet(Direction.TO_SERVER, _ACK)]

    def data(self, direction: Direction, data: Buffer) -> list[bytes]:
        """Return packets that carry these bytes and acknowledge everything from the other side."""
        packets = []
        for at in range(0, len(data), MAX_DATA_BYTES):
            piece = bytes(data[at : at + MAX_DATA_BYTES])
            push = _PSH if at + len(piece) == len(data) else 0
            packets.append(self._packet(direction, _ACK | push, piece))
            self._advance(direction, len(piece))
        return packets

    def skip(self, direction: Direction, size_bytes: int) -> list[bytes]:
        """Skip missing bytes: the next packet follows them. Returns no packet."""
        self._advance(direction, size_bytes)
        return []

    def acknowledge(self, direction: Direction) -> bytes:
        """Return a packet without data."""
        return self._packet(direction, _ACK)

    def finish(self, direction: Direction) -> bytes:
        """Return the FIN of one side."""
        packet = self._packet(direction, _FIN | _ACK)
        self._advance(direction, 1)
        return packet

    def reset(self, direction: Direction) -> bytes:
        """Return the RST of one side, which ends both."""
        return self._packet(direction, _RST | _ACK)

    def close(self) -> list[bytes]:
        """Return FIN of the client, FIN of the server, and the last acknowledgement."""
        fins = [self.finish(Direction.TO_SERVER), self.finish(Direction.TO_CLIENT)]
        return [*fins, self.acknowledge(Direction.TO_SERVER)]

    def _advance(self, direction: Direction, size_bytes: int) -> None:
        self._next[direction] = (self._next[direction] + size_bytes) % _MODULUS

    def _packet(
        self,
        direction: Direction,
        flags: int,
        data: bytes = b"",
        options: bytes = b"",
        *,
        acknowledges: bool = True,
    ) -> bytes:
        (source, source_port), (target, target_port) = self._ends[direction]
        ack = self._next[direction.other] if acknowledges else 0
        length = _TCP.size + len(options)
        fields = (source_port, target_port, self._next[direction], ack, length // 4 << 4, flags, _WINDOW)
        size = length + len(data)
        pseudo = source.packed + target.packed + _PSEUDO.pack(size, _PROTOCOL_TCP)
        checksum = _checksum(pseudo + _TCP.pack(*fields, 0, 0) + options + data)
        segment = _TCP.pack(*fields, checksum, 0) + options + data
        if source.version == 6:
            head = (6 << 28, size, _PROTOCOL_TCP, _HOP_LIMIT, source.packed, target.packed)
            return _IPV6.pack(*head) + segment
        number = next(self._numbers) & 0xFFFF
        start = (0x45, 0, _IPV4.size + size, number, _DONT_FRAGMENT, _HOP_LIMIT, _PROTOCOL_TCP)
        hosts = (source.packed, target.packed)
        return _IPV4.pack(*start, _checksum(_IPV4.pack(*start, 0, *hosts)), *hosts) + segment


def _checksum(data: bytes) -> int:
    """Return the internet checksum: the sum of the words modulo 0xFFFF, where 0xFFFF stands for zero."""
    words = data if len(data) % 2 == 0 else data + b"\0"
    return 0xFFFF - (int.from_bytes(words, "big") % 0xFFFF or 0xFFFF)
