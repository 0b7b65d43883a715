"""Capture files of any kind, and the TCP streams in them.

``capture-formats`` takes a file as it is. ``tcp`` takes a byte that chooses the link type and a script: packets of
one of two connections with numbers near to each other, or raw bytes for a packet.
"""

import gzip
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from struct import pack

from messenger.errors import LocalError
from tests.fuzz.target import KIB, Cursor, Target, require_same
from tests.support.packets import (
    ACK,
    SYN,
    Segment,
    enhanced,
    interface,
    ipv4,
    ipv6,
    option,
    pcap,
    section,
)
from tests.support.streams import assembled
from toolkit.capture.formats import LinkType, open_capture

_WINDOWS = (64, 4096)
_LINK_TYPES = tuple(LinkType)
_MOST_PACKETS = 60
_RAW, _PLAIN, _FRAGMENT = range(3)


def _everything(raw: bytes, window_bytes: int) -> tuple[object, ...]:
    try:
        reader = open_capture(BytesIO(raw), window_bytes)
        packets = [(*row, bytes(data)) for batch in reader for *row, data in batch.packets()]
    except LocalError as error:
        return ("refused", str(error))
    return packets, sorted(reader.notes), reader.secrets, reader.problem is None


def _run_formats(data: bytes) -> int:
    one, other = (_everything(data, window_bytes) for window_bytes in _WINDOWS)
    require_same("what is read through small windows, and through large ones", one, other)
    return len(data)


def _seed_files() -> Iterator[bytes]:
    packets = [bytes([number]) * (9 + number) for number in range(5)]
    for magic in (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34):
        for order in "<>":
            yield pcap(packets, magic=magic, order=order)
    for order in "<>":
        brief = section(order) + interface(113, order=order)
        yield brief + b"".join(enhanced(packet, 7, order=order) for packet in packets)
    options = option(1, b"note") + option(9, b"\x89") + option(14, bytes(8))
    talkative = section(options=option(1, b"note")) + interface(options=options) + enhanced(b"x", options=options)
    yield talkative
    yield talkative + section(">") + interface(order=">") + enhanced(b"y", order=">")
    yield gzip.compress(talkative, mtime=0)
    yield section() * 9
    yield (section() + interface(101) + enhanced(b"E" * 20)) * 4


def _run_tcp(data: bytes) -> int:
    cursor = Cursor(data)
    link_type = _LINK_TYPES[cursor.number() % len(_LINK_TYPES)]
    packets = []
    while cursor and len(packets) < _MOST_PACKETS:
        kind = cursor.number() % 3
        packets.append(cursor.counted() if kind == _RAW else _packet(cursor, link_type, whole=kind == _PLAIN))
    raw = pcap(packets, link_type=link_type)
    one, other = assembled(raw, window_bytes=64), assembled(raw, window_bytes=4096)
    require_same("the streams of small batches, and of large ones", one.lanes, other.lanes)
    require_same(
        "the bytes of a stream", sum(size for _, size, *_ in one.rows) <= sum(map(len, packets)), other=True
    )
    return len(raw)


def _packet(cursor: Cursor, link_type: LinkType, *, whole: bool) -> bytes:
    choice, flags = cursor.number(), cursor.number()
    ends = ("[fd00::1]:40000", "[fd00::2]:3300") if choice & 2 else ("10.0.0.1:40000", "10.0.0.2:3300")
    segment = Segment(*(reversed(ends) if choice & 1 else ends), flags=flags, payload=b"")
    numbers = (cursor.number() + (choice >> 4 << 28), cursor.number() + (choice >> 4 << 28))
    segment = Segment(segment.source, segment.target, *numbers, flags, cursor.counted())
    packet = segment.ip() if whole else _fragment(cursor, segment)
    return _head(link_type, segment.version) + packet


def _fragment(cursor: Cursor, segment: Segment) -> bytes:
    tcp, place = segment.tcp(), cursor.number()
    start, stop = 8 * (place & 7), 8 * (place >> 3 & 7)
    more = place & 64
    part = tcp[start : stop if more else None]
    if segment.version == 4:
        return ipv4(*segment.addresses(), part, fragment=bool(more) << 13 | start >> 3)
    header = bytes(1) + pack(">HI", start | bool(more), 1)
    return ipv6(*segment.addresses(), part, extensions=[(60, bytes(7)), (44, header)])


def _head(link_type: LinkType, version: int) -> bytes:
    kind = pack(">H", 0x0800 if version == 4 else 0x86DD)
    heads = {
        LinkType.ETHERNET: bytes(12) + b"\x81\x00\x00\x07" + kind,
        LinkType.LINUX_SLL: bytes(14) + kind,
        LinkType.LINUX_SLL2: kind + bytes(18),
        LinkType.NULL: bytes(4),
        LinkType.LOOP: bytes(4),
    }
    return heads.get(link_type, b"")


def _seed_scripts() -> Iterator[bytes]:
    def step(choice: int, flags: int, sequence: int, acknowledged: int, payload: bytes = b"") -> bytes:
        return bytes([_PLAIN, choice, flags, sequence, acknowledged, len(payload)]) + payload

    opening = step(0, SYN, 9, 0) + step(1, SYN | ACK, 49, 10) + step(0, ACK, 10, 50)
    talk = [step(0, ACK, 10 + 4 * number, 50, b"abcd") for number in range(5)]
    for link_type in range(len(_LINK_TYPES)):
        yield bytes([link_type]) + opening + b"".join(talk)
    yield b"\x01" + opening + b"".join(talk[::-1]) + step(1, ACK, 50, 30, b"ok") + step(0, ACK | 1, 30, 52)
    yield b"\x01" + opening + talk[0] + talk[3] + step(1, ACK | 4, 50, 30)
    tcp = b"".join(
        bytes([_FRAGMENT, choice, ACK, 10, 50, 40]) + bytes(40) + bytes([start | stop << 3 | (stop < 7) << 6])
        for choice in (0, 2)
        for start, stop in pairwise([0, 3, 5, 7])
    )
    yield b"\x01" + tcp
    yield b"\x04" + bytes([_RAW, 40]) + Segment(payload=b"").ip()


TARGETS = [
    Target(
        name="capture-formats",
        run=_run_formats,
        seeds=_seed_files,
        allowance_bytes=1024 * KIB,
        bytes_per_byte=1200,  # gzip packs a thousandfold
    ),
    Target(name="tcp", run=_run_tcp, seeds=_seed_scripts, allowance_bytes=2048 * KIB, mutations=150),
]
