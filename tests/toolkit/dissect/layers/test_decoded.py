"""Decoded frames as scapy packets."""

from typing import Any

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.utils import EDecimal

from messenger.denc.address import EntityAddr
from messenger.v1 import wire as v1
from messenger.v2.compression import CompressingWriter
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.wire import Ack, encode_banner
from tests.support.frames import message, writer
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.layers import (
    MSGR1,
    MSGR2,
    MSGR1_Ack,
    MSGR1_Banner,
    MSGR1_ClientIdentify,
    MSGR1_Connect,
    MSGR1_ConnectReply,
    MSGR1_Seq,
    MSGR1_ServerIdentify,
    MSGR2_Ack,
    MSGR2_Banner,
    MSGR2_Compressed,
    MSGR2_Message,
    MSGR2_Rev0,
    MSGR2_Secure,
    MSGR_Gap,
    MSGR_Link,
    MSGR_Unknown,
    packet_of,
)
from toolkit.dissect.stream import Stream

HEADER = bytes(MSGR2_Message(seq=9, type="osd_op"))
PARTS = (HEADER, b"front" * 100, b"", b"data")
ADDR = EntityAddr.parse("v1:10.0.0.1:6789/0")


def decoded(tag: str, wire: bytes = b"", **more: Any) -> DecodedFrame:
    """A frame that a client sent."""
    what: dict[str, Any] = {
        "frame": 3,
        "time_ns": 1_700_000_000_123_456_789,
        "packet": 8,
        "stream": Stream(2, "10.0.0.1:40000", "10.0.0.2:3300", opening_seen=True),
        "direction": Direction.TO_SERVER,
        "protocol": "v2.1",
        "mode": "crc",
        "offset": 77,
        "length": len(wire),
        "crc": Verdict.OK,
        "auth": Verdict.NONE,
    }
    return DecodedFrame(tag=tag, wire=wire, **what | more)


def test_addresses_time_and_verdict_of_the_decoder() -> None:
    raw = writer("crc").control(Ack.TAG, Ack(5).encode())
    packet = packet_of(decoded("ACK", memoryview(raw), error="crc of segment 0", crc=Verdict.BAD))
    assert (packet[IP].src, packet[IP].dst, packet.sport, packet.dport) == ("10.0.0.1", "10.0.0.2", 40000, 3300)
    assert packet.time == EDecimal("1700000000.123456789")
    link = packet[MSGR_Link]
    assert (link.frame, link.stream, link.sender, link.protocol, link.mode) == (3, 2, "client", "v2.1", "crc")
    assert (link.offset, link.crc, link.auth, link.error) == (77, "bad", "none", "crc of segment 0")
    assert packet.comment == b"crc of segment 0"
    assert packet[MSGR2_Ack].seq == 5
    assert bytes(packet[TCP].payload) == raw
    assert packet.summary() == "IP / TCP 10.0.0.1:40000 > 10.0.0.2:3300 PA / MSGR2 ACK seq 5"
    assert IP(bytes(packet))[MSGR2_Ack].seq == 5


def test_the_other_direction_and_ipv6() -> None:
    stream = Stream(0, "[fd00::1]:40000", "[fd00::2]:6800", opening_seen=True)
    packet = packet_of(decoded("BANNER", encode_banner(3, 0), stream=stream, direction=Direction.TO_CLIENT))
    assert (packet[IPv6].src, packet[IPv6].dst, packet.sport) == ("fd00::2", "fd00::1", 6800)
    assert (packet[MSGR_Link].sender, packet[MSGR2_Banner].supported) == ("server", 3)


def test_frames_of_both_revisions() -> None:
    for protocol, mode, layer in (("v2.1", "crc", MSGR2), ("v2.0", "rev0 crc", MSGR2_Rev0)):
        raw = message(writer(mode), *PARTS)
        packet = packet_of(decoded("MESSAGE", raw, protocol=protocol, segments=PARTS))
        assert packet[layer].crc_ok
        assert (packet[MSGR2_Message].seq, packet.data, bytes(packet[layer])) == (9, b"data", raw)


def test_a_sealed_frame_with_and_without_its_key() -> None:
    raw = message(writer("secure"), *PARTS)
    packet = packet_of(decoded("MESSAGE", raw, mode="secure", segments=PARTS, auth=Verdict.OK))
    assert (packet[MSGR2_Message].front, bytes(packet[MSGR2_Secure])) == (PARTS[1], raw)
    blind = packet_of(decoded("UNKNOWN", raw, mode="secure", auth=Verdict.NO_KEY))
    assert (blind[MSGR_Unknown].load, blind[MSGR_Link].auth) == (raw, "no-key")
    assert blind.summary().endswith(f"MSGR UNKNOWN {len(raw)} bytes")


def test_a_compressed_frame() -> None:
    pieces: list[Any] = []
    CompressingWriter(writer("crc"), new_compressor(Algorithm.ZSTD), 1).message(pieces, *PARTS)  # type: ignore[arg-type]
    raw = b"".join(pieces)
    packet = packet_of(decoded("MESSAGE", raw, segments=PARTS, compressed=True))
    assert packet[MSGR2].compressed
    assert bytes(packet[MSGR2]) == raw
    assert (packet[MSGR2_Compressed].opened.front, packet[MSGR2_Message].seq) == (PARTS[1], 9)
    assert packet.summary().endswith(
        f"MSGR2 MESSAGE osd_op seq 9 tid 0 front 500 data 4 ({len(raw) - 49} bytes compressed)"
    )


def test_a_gap() -> None:
    packet = packet_of(decoded("GAP", length=12))
    assert (packet[MSGR_Gap].length, bytes(packet[TCP].payload)) == (12, b"")
    assert packet.summary().endswith("MSGR GAP 12 bytes missing")


def test_the_pieces_of_v1() -> None:
    for piece, layer in (
        (v1.Banner(), MSGR1_Banner),
        (v1.ServerIdentify(ADDR, ADDR), MSGR1_ServerIdentify),
        (v1.ClientIdentify(ADDR), MSGR1_ClientIdentify),
        (v1.Connect(0, 8, 1, 0, 0), MSGR1_Connect),  # type: ignore[arg-type]
        (v1.ConnectReply(v1.Tag.READY, 0), MSGR1_ConnectReply),
        (v1.Seq(4), MSGR1_Seq),
        (v1.Ack(4), MSGR1_Ack),
    ):
        packet = packet_of(decoded(piece.PIECE.value, piece.encode(), protocol="v1", mode="crc"))
        assert layer in packet
        assert bytes(packet[TCP].payload) == piece.encode()
    assert MSGR1 in packet
