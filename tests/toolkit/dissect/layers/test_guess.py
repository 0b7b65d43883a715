"""The ways in which scapy selects these layers: by port, by banner, and from a stream socket."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Raw
from scapy.supersocket import StreamSocket

from toolkit.dissect.layers import (
    MSGR,
    MSGR1,
    MSGR2,
    MSGR1_Ack,
    MSGR1_Banner,
    MSGR1_KeepAlive,
    MSGR1_Message,
    MSGR1_ServerIdentify,
    MSGR2_Ack,
    MSGR2_Banner,
    MSGR2_Hello,
    MSGR2_Message,
    MSGR2_Rev0,
    MSGR2_Wait,
)

PACKETS: list[Packet] = [
    MSGR2_Banner(supported=3),
    MSGR2() / MSGR2_Hello(entity_type="osd"),
    MSGR2() / MSGR2_Wait(),
    MSGR2() / MSGR2_Message(front=b"front", data=b"data"),
    MSGR2_Rev0() / MSGR2_Hello(entity_type="osd"),
    MSGR2_Rev0() / MSGR2_Wait(),
    MSGR2_Rev0() / MSGR2_Message(front=b"front", data=b"data"),
    MSGR1_Banner(),
    MSGR1_Banner() / MSGR1_ServerIdentify(),
    MSGR1() / MSGR1_Message(front=b"front", data=b"data"),
    MSGR1() / MSGR1_Ack(seq=5),
    MSGR1() / MSGR1_KeepAlive(),
]
packets = pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet.summary()[:24])


def over_tcp(payload: object, sport: int, dport: int) -> Packet:
    """A packet as a capture has it."""
    return IP(bytes(IP() / TCP(sport=sport, dport=dport) / payload))


@packets
@pytest.mark.parametrize("port", [3300, 6789, 6800, 7000, 7568])
def test_layers_are_found_on_the_ports_of_ceph(packet: Packet, port: int) -> None:
    for ports in ((40000, port), (port, 40000)):
        seen = over_tcp(packet, *ports)
        assert seen[TCP].payload.layers() == packet.layers()
        assert bytes(seen[TCP].payload) == bytes(packet)


@packets
def test_banners_identify_links_on_other_ports(packet: Packet) -> None:
    seen = over_tcp(packet, 40000, 12345)
    assert seen[TCP].payload.layers() == (packet.layers() if "anner" in str(packet.name) else [Raw])


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n", b"\x07" * 100, bytes(200), b"\x11\x01", b"ceph v1\n"])
def test_noise_on_a_ceph_port_is_raw(noise: bytes) -> None:
    assert over_tcp(noise, 40000, 6789)[TCP].payload.layers() == [Raw]


@given(st.binary(max_size=200))
def test_any_payload_passes(raw: bytes) -> None:
    conf.debug_dissector = True
    try:
        packet = over_tcp(raw, 40000, 3300)
    finally:
        conf.debug_dissector = False
    assert bytes(packet[TCP].payload) == raw
    packet.show(dump=True)


def test_a_layer_chooses_the_port() -> None:
    assert (TCP() / MSGR2()).dport == 3300
    assert (TCP() / MSGR1_Banner()).dport == 6789


def test_payloads_on_other_ports_are_raw() -> None:
    assert Raw in over_tcp(b"noise", 40000, 8080)
    assert MSGR2 not in over_tcp(MSGR2() / MSGR2_Wait(), 40000, 7569)


@pytest.mark.parametrize(("supported", "frame"), [(1, MSGR2), (0, MSGR2_Rev0)])
def test_a_stream_socket_reads_frame_by_frame(supported: int, frame: type[Packet]) -> None:
    sent = [
        MSGR2_Banner(supported=supported),
        frame() / MSGR2_Hello(entity_type="mon"),
        frame() / MSGR2_Wait(),
        frame() / MSGR2_Message(front=b"x" * 3000, data=b"y" * 50000),
        frame() / MSGR2_Ack(seq=9),
    ]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"".join(map(bytes, sent)))
        stream = StreamSocket(ours, MSGR)
        for packet in sent:
            received = stream.recv()
            assert received.layers() == packet.layers()
            assert bytes(received) == bytes(packet)
        theirs.sendall(bytes(frame() / MSGR2_Ack(seq=10)))
        assert stream.recv().seq == 10
