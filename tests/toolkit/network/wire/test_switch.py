"""The switch between sockets that stand for tap devices: one datagram is one frame."""

import socket
from collections.abc import Iterator
from time import monotonic_ns

import pytest

from messenger.errors import LocalError
from toolkit.network.state import LinkState
from toolkit.network.wire.switch import Switch

BROADCAST = b"\xff" * 6
HEADER = bytes(10)
"""Of a single packet with its checksums."""
STRANGER = b"\x02\0\0\0\0\x99"


class Host:
    """The host's end of a port."""

    def __init__(self, number: int) -> None:
        self.mac = bytes((2, 0, 0, 0, 0, number))
        self.socket, self.port = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setblocking(False)
        self.port.setblocking(False)

    def send(self, to: bytes, text: bytes = b"", source: bytes = b"") -> None:
        self.socket.send(HEADER + (to + (source or self.mac) + b"\x08\0" + text).ljust(60, b"."))

    def received(self) -> list[bytes]:
        """The text of frames that have arrived."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(2000)[len(HEADER) + 14 :].rstrip(b"."))
            except BlockingIOError:
                return found


class Net:
    """Hosts a, b and c on a network, d on another."""

    def __init__(self) -> None:
        self.switch = Switch()
        self.hosts = {name: Host(number) for number, name in enumerate("abcd", 1)}
        for name, host in self.hosts.items():
            network = "other" if name == "d" else "public"
            self.switch.add(name, network, host.port.detach(), [host.mac])

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def set(self, sender: str, receiver: str, text: str) -> None:
        self.switch.set([(sender, receiver, LinkState.from_text(text))])

    def counts(self, sender: str, receiver: str) -> dict[str, object]:
        (found,) = [
            one for one in self.switch.statistics() if (one["sender"], one["receiver"]) == (sender, receiver)
        ]
        return found

    def settle(self) -> None:
        """Let the switch work until nothing is under way."""
        alarm, nudge = socket.socketpair()
        with alarm, nudge:
            self.switch.watch(alarm.fileno(), lambda: alarm.recv(1))
            for _ in range(3):
                nudge.send(b"!")
                self.switch.turn()
            while any(one["queued"] for one in self.switch.statistics()):
                self.switch.turn()
            self.switch.ignore(alarm.fileno())


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net()
    yield net
    for name, host in net.hosts.items():
        net.switch.remove(name)
        host.socket.close()


def test_frames_go_to_their_receiver_alone(net: Net) -> None:
    net["a"].send(net["b"].mac, b"one")
    net["a"].send(net["b"].mac, b"two")
    net.settle()
    assert net["b"].received() == [b"one", b"two"]
    assert net["c"].received() == net["d"].received() == net["a"].received() == []


def test_broadcasts_stay_on_their_network(net: Net) -> None:
    net["a"].send(BROADCAST, b"who")
    net.settle()
    assert net["b"].received() == net["c"].received() == [b"who"]
    assert net["d"].received() == net["a"].received() == []


def test_multicast_goes_to_all(net: Net) -> None:
    net["a"].send(b"\x33\x33\0\0\0\x01", b"neighbours")
    net.settle()
    assert net["b"].received() == net["c"].received() == [b"neighbours"]


def test_switch_floods_frames_to_unknown_addresses(net: Net) -> None:
    net["a"].send(STRANGER, b"anybody")
    net.settle()
    assert net["b"].received() == net["c"].received() == [b"anybody"]
    net["c"].send(net["a"].mac, b"me", source=STRANGER)
    net.settle()
    net["a"].received()
    net["a"].send(STRANGER, b"you")
    net.settle()
    assert (net["b"].received(), net["c"].received()) == ([], [b"you"])


def test_an_address_may_be_on_two_networks(net: Net) -> None:
    net["d"].send(BROADCAST, b"me", source=net["b"].mac)
    net.settle()
    net["a"].send(net["b"].mac, b"you")
    net.settle()
    assert net["b"].received() == [b"you"]
    assert net["c"].received() == net["d"].received() == []


def test_frames_for_the_same_side_are_not_sent_back(net: Net) -> None:
    net["a"].send(net["a"].mac, b"self")
    net.settle()
    assert all(host.received() == [] for host in net.hosts.values())


def test_a_state_is_of_one_direction(net: Net) -> None:
    net.set("a", "b", "loss 100%")
    net["a"].send(net["b"].mac, b"lost")
    net["b"].send(net["a"].mac, b"back")
    net["a"].send(net["c"].mac, b"past")
    net["a"].send(BROADCAST, b"all")
    net.settle()
    assert net["a"].received() == [b"back"]
    assert net["b"].received() == []
    assert net["c"].received() == [b"past", b"all"]
    assert net.counts("a", "b") | {"packets": 2, "lost": 2, "delivered": 0} == net.counts("a", "b")
    assert net.counts("b", "a") | {"packets": 1, "lost": 0, "delivered": 1} == net.counts("b", "a")


def test_delayed_frames_come_when_they_are_due(net: Net) -> None:
    net.set("a", "b", "delay 30ms")
    net.set("a", "c", "delay 10ms")
    before_ns = monotonic_ns()
    net["a"].send(net["b"].mac, b"slow")
    net["a"].send(net["c"].mac, b"quick")
    net.settle()
    assert monotonic_ns() - before_ns >= 30_000_000
    assert (net["b"].received(), net["c"].received()) == ([b"slow"], [b"quick"])


def test_a_healed_link_delivers_queued_frames_at_once_in_order(net: Net) -> None:
    net.set("a", "b", "delay 60000ms")
    for text in (b"one", b"two"):
        net["a"].send(net["b"].mac, text)
        net.switch.turn()
    net.set("a", "b", "no impairments")
    assert net["b"].received() == [b"one", b"two"]
    net["a"].send(net["b"].mac, b"three")
    net.settle()
    assert net["b"].received() == [b"three"]
    assert net.counts("a", "b") | {"packets": 3, "delivered": 3, "queued": 0} == net.counts("a", "b")


def test_a_state_that_is_replaced_while_packets_wait_is_kept_to_the_end(net: Net) -> None:
    net.set("a", "b", "delay 30ms")
    net["a"].send(net["b"].mac, b"early")
    net.switch.turn()
    net.set("a", "b", "loss 100%")
    net["a"].send(net["b"].mac, b"lost")
    net.settle()
    assert net["b"].received() == [b"early"]
    net["a"].send(net["b"].mac, b"lost as well")
    net.settle()
    assert net["b"].received() == []


def test_states_are_read_back(net: Net) -> None:
    assert net.switch.get("a", "b") == LinkState()
    net.set("a", "b", "delay 30ms, loss 1%, seed 4")
    assert net.switch.get("a", "b") == LinkState.from_text("delay 30ms, loss 1%, seed 4")
    assert net.switch.get("b", "a") == LinkState()
    with pytest.raises(LocalError, match="no link from 'a' to 'd'"):
        net.switch.get("a", "d")


def test_links_of_new_ports_have_the_states_that_were_set(net: Net) -> None:
    net.set("a", "e", "loss 100%")
    late = net.hosts["e"] = Host(5)
    net.switch.add("e", "public", late.port.detach(), [late.mac])
    net["a"].send(late.mac, b"lost")
    net["b"].send(late.mac, b"there")
    net.settle()
    assert late.received() == [b"there"]


def test_a_host_is_on_a_network_once(net: Net) -> None:
    with pytest.raises(LocalError, match="a is on public already"):
        net.switch.add("a", "public", 99, [])


def test_a_host_may_leave_with_packets_under_way(net: Net) -> None:
    net.set("a", "b", "delay 30ms")
    net["a"].send(net["b"].mac, b"gone")
    net.switch.turn()
    net.switch.remove("b")
    net["a"].send(net["b"].mac, b"unknown")
    net.settle()
    assert net["c"].received() == [b"unknown"]


def test_switch_counts_undelivered_packets(net: Net) -> None:
    net["b"].socket.close()
    net["a"].send(net["b"].mac, b"void")
    net.settle()
    assert net.counts("a", "b") | {"packets": 1, "undelivered": 1, "delivered": 0} == net.counts("a", "b")
    net.hosts["b"].socket = socket.socket()


def test_the_same_seed_loses_the_same_frames() -> None:
    found = []
    for _ in range(2):
        net = Net()
        net.set("a", "b", "loss 40% correlation 20%, duplicate 10%, seed 9")
        for number in range(50):
            net["a"].send(net["b"].mac, str(number).encode())
        net.settle()
        found.append(net["b"].received())
        for name, host in net.hosts.items():
            net.switch.remove(name)
            host.socket.close()
    assert found[0] == found[1]
    assert 0 < len(found[0]) < 50
