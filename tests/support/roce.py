"""Packets of RoCEv2 made byte by byte, and those of the kept captures."""

import gzip
import io
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tests.support.packets import ipv4, pcap
from toolkit.capture.formats import open_capture
from toolkit.dissect.decode import Decoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.roce.headers import ICRC_BYTES, RoceHeader
from toolkit.dissect.stream import Stream
from toolkit.dissect.tcp.internet import ROCE_PORT, UDP_HEADER_BYTES

CAPTURES = Path(__file__).parents[2] / "captures" / "roce"
CLIENT, SERVER = "10.9.0.1", "10.9.0.2"
_UDP = 17
_PROTOCOL_AT = 14 + 9
_SOURCE_AT = 14 + 12
_HEADERS_BYTES = 14 + 20 + UDP_HEADER_BYTES


def datagram(source: str, target: str, contents: bytes, identification: int = 0) -> bytes:
    """An Ethernet frame with a UDP datagram to the port of RoCE."""
    udp = struct.pack(">HHHH", 50_000, ROCE_PORT, UDP_HEADER_BYTES + len(contents), 0) + contents
    ends = IPv4Address(source).packed, IPv4Address(target).packed
    ip = bytearray(ipv4(*ends, udp, identification=identification))
    ip[9] = _UDP
    return bytes(12) + b"\x08\x00" + bytes(ip)


def packet(source: str, target: str, header: RoceHeader, payload: bytes = b"", identification: int = 0) -> bytes:
    """An Ethernet frame with a packet of a queue pair."""
    contents = header.encode() + payload + bytes(header.padding_bytes + ICRC_BYTES)
    return datagram(source, target, contents, identification)


@cache
def kept(name: str) -> tuple[bytes, ...]:
    """The packets of a kept capture."""
    with gzip.open(CAPTURES / f"roce-{name}" / "capture.pcapng.gz") as file:
        raw = io.BytesIO(file.read())
    return tuple(bytes(data) for batch in open_capture(raw) for _, _, _, data in batch.packets())


def is_roce(frame: bytes) -> bool:
    """True for a packet of a queue pair, False for one of TCP."""
    return frame[_PROTOCOL_AT] == _UDP


def is_from(frame: bytes, source: str) -> bool:
    """True if a packet's sender has an address."""
    return frame[_SOURCE_AT : _SOURCE_AT + 4] == IPv4Address(source).packed


def header_of(frame: bytes) -> RoceHeader:
    """The header of a packet of a queue pair."""
    return RoceHeader.decode(frame[_HEADERS_BYTES:])


def decoded(
    frames: Iterable[bytes], *, snap_bytes: int = 1 << 18, **options: Any
) -> tuple[list[DecodedFrame], Sequence[Stream]]:
    """Frames and streams of packets that were captured a millisecond apart."""
    decoder = Decoder(KeyBook(), **options)
    found: list[DecodedFrame] = []
    for batch in open_capture(io.BytesIO(pcap(frames, snap_bytes=snap_bytes))):
        found += decoder.feed(batch)
    found += decoder.finish()
    return found, decoder.streams


def contents(frames: Iterable[DecodedFrame]) -> dict[str, list[tuple[object, ...]]]:
    """Return the contents of each direction, without times."""
    contents: dict[str, list[tuple[object, ...]]] = {}
    for frame in frames:
        segments = tuple(map(bytes, frame.segments))
        contents.setdefault(str(frame.direction), []).append((frame.tag, frame.offset, segments, frame.error))
    return contents
