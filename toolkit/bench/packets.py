"""Writes byte streams as the packets of TCP connections in a capture."""

from ipaddress import IPv4Address
from struct import Struct

from messenger.denc.codec import Buffer
from toolkit.capture.formats import PcapngWriter
from toolkit.dissect.direction import Direction

_HEADERS = Struct(">12sH BBHHHBBHII HHIIBBHHH")
"""Headers of Ethernet, IPv4 and TCP without options."""
_IP_SUMMED = Struct(">14x10H")
_IP_CHECKSUM_AT = 24
_ETHERTYPE_IPV4 = 0x0800
_IPV4_OVER_TCP = (0x45, 0)
_DONT_FRAGMENT = 0x4000
_TTL = 64
_TCP = 6
_IP_TCP_SIZE = 40
_DATA_OFFSET = 0x50
_WINDOW = 0xFFFF
_FIN, _SYN, _PUSH, _ACK = 0x01, 0x02, 0x08, 0x10
_MACS = bytes.fromhex("020000000001020000000002")
_U16, _U32 = (1 << 16) - 1, (1 << 32) - 1
_SEGMENTS_PER_ACK = 2
"""Number of segments after which the receiver's kernel sends its own TCP acknowledgement."""


class Clock:
    """The clock of a capture: every packet has a timestamp a fixed step after the previous one."""

    def __init__(self, start_ns: int, step_ns: int) -> None:
        self._now_ns = start_ns
        self._step_ns = step_ns

    def next_ns(self) -> int:
        """Return the timestamp of the next packet."""
        self._now_ns += self._step_ns
        return self._now_ns


class _End:
    """One end of a connection: its address, and the numbers of the packets it sends."""

    def __init__(self, address: str, port: int, first_seq: int) -> None:
        self.ip = int(IPv4Address(address))
        self.port = port
        self.seq = first_seq
        self.packets = 0


class Conversation:
    """One TCP connection, written packet by packet; no packet is lost or out of order.

    Args:
        writer: writer of the capture.
        clock: clock that the connections of a capture share.
        client: address and port of the connecting side.
        server: address and port of the accepting side.
        segment_bytes: largest TCP payload of a packet.
    """

    def __init__(
        self,
        writer: PcapngWriter,
        clock: Clock,
        client: tuple[str, int],
        server: tuple[str, int],
        segment_bytes: int,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._segment_bytes = segment_bytes
        # the client's sequence numbers begin near the end of the range, so that they wrap
        self._ends = {Direction.TO_SERVER: _End(*client, _U32 - 1000), Direction.TO_CLIENT: _End(*server, 1000)}

    def open(self) -> None:
        """Write the TCP handshake."""
        for direction, flags in ((Direction.TO_SERVER, _SYN), (Direction.TO_CLIENT, _SYN | _ACK)):
            self._packet(direction, flags)
            self._ends[direction].seq += 1
        self._packet(Direction.TO_SERVER, _ACK)

    def send(self, direction: Direction, stream: memoryview) -> None:
        """Write the packets of bytes that one side sends at once."""
        for count, at in enumerate(range(0, len(stream), self._segment_bytes), 1):
            part = stream[at : at + self._segment_bytes]
            last = at + len(part) == len(stream)
            self._packet(direction, _ACK | _PUSH if last else _ACK, part)
            self._ends[direction].seq += len(part)
            if not count % _SEGMENTS_PER_ACK:
                self._packet(direction.other, _ACK)

    def close(self) -> None:
        """Write the packets that close the connection from both sides."""
        for direction in Direction:
            self._packet(direction, _FIN | _ACK)
            self._ends[direction].seq += 1
        self._packet(Direction.TO_SERVER, _ACK)

    def _packet(self, direction: Direction, flags: int, payload: Buffer = b"") -> None:
        sender, receiver = self._ends[direction], self._ends[direction.other]
        sender.packets += 1
        headers = bytearray(
            _HEADERS.pack(
                _MACS,
                _ETHERTYPE_IPV4,
                *_IPV4_OVER_TCP,
                _IP_TCP_SIZE + len(payload),
                sender.packets & _U16,
                _DONT_FRAGMENT,
                _TTL,
                _TCP,
                0,
                sender.ip,
                receiver.ip,
                sender.port,
                receiver.port,
                sender.seq & _U32,
                receiver.seq & _U32 if flags & _ACK else 0,
                _DATA_OFFSET,
                flags,
                _WINDOW,
                0,  # TCP checksum: the network card computes it, so that captures of local traffic lack it
                0,
            )
        )
        total = sum(_IP_SUMMED.unpack_from(headers))
        total = (total & _U16) + (total >> 16)
        headers[_IP_CHECKSUM_AT : _IP_CHECKSUM_AT + 2] = (~(total + (total >> 16)) & _U16).to_bytes(2, "big")
        self._writer.packet(self._clock.next_ns(), b"".join((headers, payload)))
