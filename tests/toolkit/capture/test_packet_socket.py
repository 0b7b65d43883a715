"""The kernel's side of a capture: which packets come, from where, and what is reported of them."""

import select
import socket
import time
from collections.abc import Sequence
from struct import pack

import pytest

from messenger.errors import LocalError
from tests.support.ports import low_port
from tests.toolkit.capture.conftest import converse
from toolkit.capture.formats import LinkType
from toolkit.capture.packet_socket import Packet, PacketSocket
from toolkit.capture.ports import parse_ports
from toolkit.capture.target import Target

pytestmark = pytest.mark.needs("capture")
PAYLOAD = b"a word that nobody else says " * 3


def taken(source: PacketSocket) -> list[Packet]:
    """Return the packets that the kernel has counted so far."""
    packets: list[Packet] = []
    wanted = source.received
    while source.read < wanted:
        assert select.select([source], [], [], 5)[0]
        packets += source.block()
    return packets


def with_payload(packets: Sequence[Packet]) -> list[Packet]:
    return [packet for packet in packets if PAYLOAD in packet.data]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_a_conversation_on_loopback_is_seen_once(host: str, interface: str) -> None:
    before_ns = time.time_ns()
    with PacketSocket(Target.parse(interface)) as source:
        converse(PAYLOAD, host)
        (packet,) = with_payload(taken(source))
        assert source.interface_name(packet.interface) == "lo"
        assert source.dropped == 0
    assert packet.link_type == LinkType.ETHERNET
    assert packet.length == len(packet.data)
    assert before_ns <= packet.time_ns <= time.time_ns()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_ports_decide(host: str) -> None:
    port = low_port(host)
    taking = (f"{port}", f"{port}-30001", f"1-{port}", f"9,{port - 1}-{port + 1},10")
    leaving = ("9", f"1-{port - 1}", f"{port + 1}-30001", f"{port - 1},{port + 1}")
    for text in (*taking, *leaving):
        with PacketSocket(Target.parse("lo"), parse_ports(text)) as source:
            converse(PAYLOAD, host, port)
            assert bool(with_payload(taken(source))) is (text in taking), text


def test_both_directions_of_a_port_are_taken() -> None:
    with PacketSocket(Target.parse("lo")) as everything:
        port = converse(PAYLOAD)
        expected = len(taken(everything))
    with PacketSocket(Target.parse("lo"), parse_ports(str(port))) as source:
        converse(PAYLOAD, port=port)
        packets = taken(source)
    senders = {int.from_bytes(packet.data[34:36]) == port for packet in packets}
    assert senders == {True, False}
    assert abs(len(packets) - expected) <= 2  # acknowledgements are sometimes put together


def test_socket_filters_out_packets_other_than_tcp() -> None:
    with PacketSocket(Target.parse("lo")) as source, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.sendto(PAYLOAD, udp.getsockname())
        converse(b"x")
        assert not with_payload(taken(source))


def test_large_packets_are_whole() -> None:
    with PacketSocket(Target.parse("lo")) as source:
        converse(bytes(3_000_000))
        packets = taken(source)
    assert max(len(packet.data) for packet in packets) > 10_000
    assert all(packet.length == len(packet.data) for packet in packets)
    assert sum(len(packet.data) for packet in packets) > 3_000_000


def test_socket_counts_packets_dropped_by_a_full_buffer() -> None:
    with PacketSocket(Target.parse("lo"), buffer_bytes=2 << 20) as source:
        converse(bytes(20_000_000))
        packets = taken(source)
        assert source.dropped > 0
        assert 0 < len(packets) == source.received


def test_packet_socket_refuses_an_unknown_interface() -> None:
    with pytest.raises(LocalError, match=r"no interface 'nosuch'; there are .*lo.*, any"):
        PacketSocket(Target.parse("nosuch"))
    with pytest.raises(LocalError):
        PacketSocket(Target.parse("a-name-that-is-too-long-for-an-interface"))


def test_a_namespace_is_heard_from_outside(namespace: str) -> None:
    target = Target.parse(f"netns:{namespace}")
    with PacketSocket(target) as inside, PacketSocket(Target.parse("any")) as outside:
        converse(PAYLOAD, inside=target)
        (packet,) = with_payload(taken(inside))
        assert inside.interface_name(packet.interface) == "lo"
        assert not with_payload(taken(outside))


def test_the_caller_stays_in_its_own_namespace(namespace: str) -> None:
    before = socket.if_nameindex()
    with PacketSocket(Target.parse(f"netns:{namespace}/lo")):
        assert socket.if_nameindex() == before


def test_an_interface_that_goes_away(namespace: str) -> None:
    from pyroute2 import NetNS

    with NetNS(namespace) as network:
        network.link("add", ifname="msgr7", kind="ifb")
        (index,) = network.link_lookup(ifname="msgr7")
        network.link("set", index=index, state="up")
        with PacketSocket(Target.parse(f"netns:{namespace}/msgr7")) as source:
            assert source.obstacle() == ""
            network.link("set", index=index, state="down")
            assert source.obstacle() == ""  # it may come back
            network.link("del", index=index)
            assert source.obstacle() == "interface msgr7 is gone"


def test_packet_socket_restores_vlan_tags(namespace: str) -> None:
    from pyroute2 import NetNS

    target = Target.parse(f"netns:{namespace}")
    with NetNS(namespace) as network:
        network.link("add", ifname="msgr1", kind="veth", peer="msgr2")
        for name in ("msgr1", "msgr2"):
            network.link("set", index=network.link_lookup(ifname=name)[0], state="up")
    addresses = bytes.fromhex("02fffffffff1 02fffffffff2")
    ip = pack(
        "!BBHHHBBH4s4s", 0x45, 0, 40 + len(PAYLOAD), 1, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    )
    tcp = pack("!HHIIBBHHH", 6800, 40000, 1, 1, 0x50, 0x18, 1000, 0, 0)
    frame = addresses + pack("!HHH", 0x8100, 5, 0x0800) + ip + tcp + PAYLOAD
    with PacketSocket(target, parse_ports("6800")) as source:
        sender = target.inside(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        with sender:
            target.inside(lambda: sender.bind(("msgr1", 0)))
            sender.send(frame)
        # The kernel takes the tag out of what arrives, and leaves it in what goes.
        seen = {source.interface_name(packet.interface): packet.data for packet in with_payload(taken(source))}
    assert seen == {"msgr1": frame, "msgr2": frame}
