"""Captures that no honest network makes. Each function gives the bytes of a file, and takes no time for it."""

import gzip
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.revision import crc_frames
from messenger.v2.wire import MESSAGE_HEADER, Ack, Tag
from tests.support import links
from tests.support.packets import ACK, SYN, Segment, enhanced, interface, ipv4, pcap, section
from toolkit.dissect.direction import Direction

MIB = 1 << 20
RAW_IP = 101
FOLDER = Path(__file__).parents[2] / "captures"
BANNER = b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0)
_CLIENT, _SERVER = "10.0.0.1:40000", "10.0.0.2:6800"
_PACKET_BYTES = 60_000
_BOMB = {"ms_osd_compress_mode": "force", "ms_osd_compression_algorithm": "zstd"}


@cache
def real(name: str) -> bytes:
    """One of ``captures/``, unpacked."""
    return gzip.decompress((FOLDER / name / "capture.pcapng.gz").read_bytes())


def packets_of(script: Iterable[tuple[Direction, bytes]]) -> Iterator[bytes]:
    """Yield the bytes of one link as packets of a TCP connection."""
    ends = {Direction.TO_SERVER: (_CLIENT, _SERVER), Direction.TO_CLIENT: (_SERVER, _CLIENT)}
    places = {Direction.TO_SERVER: 1000, Direction.TO_CLIENT: 5000}
    yield Segment(_CLIENT, _SERVER, 999, 0, SYN).ip()
    for way, raw in script:
        for at in range(0, len(raw), _PACKET_BYTES):
            piece = raw[at : at + _PACKET_BYTES]
            yield Segment(*ends[way], places[way], places[way.other], ACK, piece).ip()
            places[way] += len(piece)


def capture_of(script: Iterable[tuple[Direction, bytes]]) -> bytes:
    """Return the bytes of one link as a capture file."""
    return pcap(packets_of(script), link_type=RAW_IP)


def one_wrong_byte() -> bytes:
    """A byte of a seq, in a message that its crc does not fit any more: 2^62 seqs seem to be missing."""
    raw = bytearray(real("pacific-crc"))
    raw[3559 + 36] ^= 64
    return bytes(raw)


def seqs_far_apart() -> bytes:
    """The same with right crcs: what one end sends is between 1 and the highest seq there is."""
    writer = crc_frames(1, MIB)[1]
    frames: list[object] = []
    for seq in (1, (1 << 64) - 1, 1 << 63, 2):
        pieces: list[object] = []
        header = MESSAGE_HEADER.pack(seq, seq, 42, 127, 8, 0, 0, (1 << 64) - 1, 0, 3, 0)
        writer.message(pieces, header, b"", b"", b"")  # type: ignore[arg-type]
        frames += pieces
    ack = writer.control(Tag.ACK, Ack((1 << 64) - 1).encode())
    opened = links.session("v2.1 crc").script
    return capture_of([*opened, (Direction.TO_SERVER, b"".join(frames) + ack)])  # type: ignore[arg-type]


def no_ceph() -> bytes:
    """Traffic of a web server."""
    client, server = "10.0.0.1:40000", "10.0.0.2:80"
    request, answer = b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nhello"
    segments = [
        Segment(client, server, 999, 0, SYN),
        Segment(server, client, 4999, 1000, SYN | ACK),
        Segment(client, server, 1000, 5000, ACK, request),
        Segment(server, client, 5000, 1000 + len(request), ACK, answer),
    ]
    return pcap([segment.ip() for segment in segments], link_type=RAW_IP)


def connections(count: int, payload: bytes) -> bytes:
    """Connections of as many clients, each with one packet."""
    clients = (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:40000" for number in range(count))
    return pcap((Segment(client, _SERVER, 1000, 0, ACK, payload).ip() for client in clients), link_type=RAW_IP)


def reconnections(count: int) -> bytes:
    """One client and one server, over and over on new connections from the same port."""
    packets = []
    for number in range(count):
        place = number * 100_000
        packets.append(Segment(_CLIENT, _SERVER, place, 0, SYN).ip())
        packets.append(Segment(_CLIENT, _SERVER, place + 1, 0, ACK, BANNER).ip())
    return pcap(packets, link_type=RAW_IP)


def section_headers(count: int) -> bytes:
    """Sections without anything in them."""
    return section() * count


def sections(count: int) -> bytes:
    """Sections of one packet each."""
    packet = Segment(_CLIENT, _SERVER, 1000, 0, ACK, BANNER).ip()
    return (section() + interface(RAW_IP) + enhanced(packet)) * count


def compression_bombs(count: int) -> bytes:
    """Frames of a few KiB that are 120 MiB each when they are decompressed."""
    links.SESSIONS["bombs"] = ("v2-crc", dict(_BOMB))
    opened = links.session("bombs").script
    compressor = new_compressor(Algorithm.ZSTD)
    header = compressor.compress(MESSAGE_HEADER.pack(7, 1, 42, 127, 8, 0, 0, 0, 0, 3, 0))
    data = compressor.compress(bytes(120 * MIB))
    assert header is not None
    assert data is not None
    pieces: list[object] = []
    crc_frames(1, MIB)[1].compressed(pieces, MESSAGE_TAG, (header, b"", b"", data))  # type: ignore[arg-type]
    bomb = b"".join(pieces)  # type: ignore[arg-type]
    return capture_of([*opened, *[(Direction.TO_SERVER, bomb)] * count])


def hellos(count: int) -> bytes:
    """A handshake that never ends."""
    opened = links.decode(links.session("v2.1 crc").script)
    hello = next(bytes(frame.wire) for frame in opened if frame.tag == "HELLO")
    return capture_of(
        [(Direction.TO_SERVER, BANNER), (Direction.TO_CLIENT, BANNER), (Direction.TO_SERVER, hello * count)]
    )


def fragments(count: int) -> bytes:
    """Datagrams in pieces of eight bytes, of which the last but one never comes."""
    source, target = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    packets = []
    for number in range(count):
        place = number % 8000
        if place == 7999:
            continue
        offset = 8000 if not place else place - 1
        packets.append(
            ipv4(
                source,
                target,
                bytes(8),
                fragment=offset | (0 if offset == 8000 else 0x2000),
                identification=number // 8000,
            )
        )
    return pcap(packets, link_type=RAW_IP)


SMALL: Mapping[str, Callable[[], bytes]] = {
    "one-wrong-byte": one_wrong_byte,
    "seqs-far-apart": seqs_far_apart,
    "no-ceph": no_ceph,
    "empty": lambda: pcap([]),
    "connections": lambda: connections(600, b"x"),
    "banners": lambda: connections(600, BANNER),
    "reconnections": lambda: reconnections(600),
    "section-headers": lambda: section_headers(20_000),
    "sections": lambda: sections(400),
    "compression-bombs": lambda: compression_bombs(12),
    "hellos": lambda: hellos(4000),
    "fragments": lambda: fragments(20_000),
}
"""Every command that reads captures gets these."""
