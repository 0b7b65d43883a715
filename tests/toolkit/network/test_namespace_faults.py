"""Faults of a network between namespaces, on sockets that know nothing of it."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from toolkit.cluster.backends.base import Host, HostWish, NetworkWish
from toolkit.cluster.backends.netns import NetnsBackend
from toolkit.errors import Unsupported
from toolkit.machine.leases import Lease
from toolkit.network.namespace_faults import NamespaceNetwork
from toolkit.network.segments import RST, Segment
from toolkit.network.state import LinkState

pytestmark = [pytest.mark.needs("netns"), pytest.mark.needs("nft")]

PORT = 7000
_ETH_P_ALL = 0x0003
_PATIENCE_S = 10.0
_SILENCE_S = 0.1


class Net:
    """Three hosts, and sockets on them."""

    def __init__(self, lease: Lease, undo: ExitStack, *, subnet: str = "", on_switch: bool = True) -> None:
        self.backend = NetnsBackend(lease, lambda _: None)
        undo.callback(self.backend.close)
        self.backend.open([NetworkWish("public", subnet)], [HostWish(name, ("public",)) for name in "abc"])
        self.faults = self.backend.network if on_switch else NamespaceNetwork(lease, self.backend.hosts)
        self._undo = undo
        self._listeners: dict[tuple[str, int], socket.socket] = {}

    def host(self, name: str) -> Host:
        return self.backend.hosts[name]

    def address(self, name: str) -> str:
        return self.host(name).addresses["public"]

    def open(self, name: str, make: Callable[[], socket.socket]) -> socket.socket:
        made = self.host(name).inside(make)
        self._undo.callback(made.close)
        return made

    def connect(self, a: str = "a", b: str = "b", port: int = PORT) -> tuple[socket.socket, socket.socket]:
        """Both ends of a new connection."""
        address = self.address(b)
        if (b, port) not in self._listeners:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._listeners[b, port] = self.open(b, lambda: socket.create_server((address, port), family=family))
        dialled = self.open(a, lambda: socket.create_connection((address, port), _SILENCE_S * 3))
        accepted = self._listeners[b, port].accept()[0]
        self._undo.callback(accepted.close)
        for end in (dialled, accepted):
            end.settimeout(_PATIENCE_S)
        return dialled, accepted

    def datagrams(self, *names: str) -> list[socket.socket]:
        """A bound socket for datagrams on each host."""

        def bound(name: str) -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((self.address(name), PORT))
            return made

        return [self.open(name, lambda name=name: bound(name)) for name in names]

    def listen(self, name: str, interface: str = "eth0") -> socket.socket:
        """Hears all packets at an interface, as captures do."""

        def listener() -> socket.socket:
            made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
            made.bind((interface, _ETH_P_ALL))
            return made

        return self.open(name, listener)


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def net(new_lease: Callable[[], Lease], undo: ExitStack) -> Net:
    return Net(new_lease(), undo)


@pytest.fixture(params=[True, False], ids=["on our switch", "on a bridge of others"])
def any_net(request: pytest.FixtureRequest, new_lease: Callable[[], Lease], undo: ExitStack) -> Net:
    """Return a network whose packets pass our switch, or one in which only the hosts are accessible."""
    return Net(new_lease(), undo, on_switch=request.param)


def receive_one(end: socket.socket) -> bytes | None:
    """Return the bytes that come at once; None for nothing."""
    return end.recv(65_536) if select.select([end], [], [], _SILENCE_S)[0] else None


def receives(end: socket.socket, content: bytes) -> bool:
    """True if a packet with this content comes; a host sends packets of its own, such as IGMP reports, too."""
    return any(content in packet for packet in iter(lambda: receive_one(end), None))


def test_a_block_loses_one_direction_until_it_is_undone(any_net: Net) -> None:
    a, b, c = any_net.datagrams("a", "b", "c")
    to = {name: (any_net.address(name), PORT) for name in "abc"}
    any_net.faults.block("a", "b")
    for sender, receiver in ((a, "b"), (b, "a"), (a, "c"), (c, "b")):
        sender.sendto(b"x", to[receiver])
    assert [receive_one(end) for end in (a, b, c)] == [b"x", b"x", b"x"]
    assert receive_one(b) is None
    assert (any_net.faults.is_blocked("a", "b"), any_net.faults.is_blocked("b", "a")) == (True, False)
    assert any_net.faults.standing() == ["block a b"]
    any_net.faults.unblock("a", "b")
    a.sendto(b"y", to["b"])
    assert receive_one(b) == b"y"
    assert any_net.faults.standing() == []


def test_changes_can_take_effect_at_once_or_not_at_all(any_net: Net) -> None:
    faults = any_net.faults
    with faults.at_once():
        faults.block("a", "b")
        faults.block("b", "a")
        assert faults.standing() == []
    assert faults.standing() == ["block a b", "block b a"]
    with pytest.raises(LocalError), faults.at_once():  # noqa: PT012 - the second one is to fail
        faults.unblock("a", "b")
        faults.block("a", "x")
    assert faults.standing() == ["block a b", "block b a"]


def test_block_drops_datagrams_after_the_sender_has_sent_them(net: Net) -> None:
    at_sender, at_receiver = net.listen("a"), net.listen("b")
    (a,) = net.datagrams("a")
    net.faults.block("a", "b")
    a.sendto(b"lost", (net.address("b"), PORT))
    assert receives(at_sender, b"lost")
    assert not receives(at_receiver, b"lost")


def test_one_port_can_be_blocked(any_net: Net) -> None:
    stands, _ = any_net.connect()
    any_net.faults.block("a", "b", port=PORT)
    stands.sendall(b"x")
    with pytest.raises(TimeoutError):
        any_net.connect()
    any_net.connect(port=PORT + 1)
    any_net.connect("b", "a")
    any_net.faults.unblock("a", "b", port=PORT)
    any_net.connect()


@pytest.mark.parametrize("port", [0, PORT])
def test_refused_connection_is_reset_and_open_ones_continue(any_net: Net, port: int) -> None:
    dialled, accepted = any_net.connect()
    any_net.faults.refuse("a", "b", port=port)
    with pytest.raises(ConnectionRefusedError):
        any_net.connect()
    any_net.connect("c", "b")
    if port:
        any_net.connect(port=PORT + 1)
    dialled.sendall(b"x")
    assert accepted.recv(1) == b"x"
    any_net.faults.refuse("a", "b", port=port, refused=False)
    any_net.connect()


def test_a_black_hole_swallows_long_packets_in_silence(any_net: Net) -> None:
    a, b = any_net.datagrams("a", "b")
    to = any_net.address("b"), PORT
    headers_bytes = 20 + 8
    any_net.faults.black_hole("a", "b", 1000)
    for size_bytes in (1000 - headers_bytes, 1001 - headers_bytes, 10):
        a.sendto(bytes(size_bytes), to)
    assert [len(receive_one(b) or b""), len(receive_one(b) or b""), receive_one(b)] == [
        1000 - headers_bytes,
        10,
        None,
    ]
    assert any_net.faults.standing() == ["black_hole a b mtu_bytes=1000"]
    any_net.faults.black_hole("a", "b", 1400)
    a.sendto(bytes(1001 - headers_bytes), to)
    assert receive_one(b)
    assert any_net.faults.standing() == ["black_hole a b mtu_bytes=1400"]
    any_net.faults.black_hole("a", "b", 0)
    a.sendto(bytes(1401 - headers_bytes), to)
    assert receive_one(b)


def test_black_hole_stalls_a_stream_until_it_is_removed(any_net: Net) -> None:
    dialled, accepted = any_net.connect()
    any_net.faults.black_hole("a", "b", 1000)
    dialled.sendall(b"short")
    assert accepted.recv(100) == b"short"
    dialled.sendall(bytes(20_000))
    assert receive_one(accepted) is None
    any_net.faults.heal()
    received = 0
    while received < 20_000:
        received += len(accepted.recv(65_536))


def test_a_reset_ends_the_connections_of_two_hosts_on_both_sides(any_net: Net) -> None:
    struck = [any_net.connect(), any_net.connect("b", "a")]
    spared = any_net.connect("a", "c")
    assert any_net.faults.reset("a", "b") == 2
    for end in (end for pair in struck for end in pair):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    spared[0].sendall(b"x")
    assert spared[1].recv(1) == b"x"
    assert any_net.faults.standing() == []
    assert any_net.faults.reset("a", "b") == 0


def test_capture_at_the_receiver_shows_a_forged_reset(net: Net) -> None:
    net.connect()
    listener = net.listen("a")
    net.faults.reset("a", "b")
    seen = []
    while packet := receive_one(listener):
        seen.append(Segment.read(packet))
    assert [str(one.flow.address) for one in seen if one and one.flags & RST] == [net.address("b")]


def test_ipv6_is_no_different(new_lease: Callable[[], Lease], undo: ExitStack) -> None:
    net = Net(new_lease(), undo, subnet="fd77:1::/64")
    _, accepted = net.connect()
    net.faults.refuse("a", "b")
    with pytest.raises(ConnectionRefusedError):
        net.connect()
    net.faults.heal()
    assert net.faults.reset("a", "b") == 1
    with pytest.raises(ConnectionResetError):
        accepted.recv(1)
    dialled, accepted = net.connect()
    dialled.sendall(b"x")
    assert net.faults.finish("a", "b") == 1
    assert (accepted.recv(10), accepted.recv(10)) == (b"x", b"")


@pytest.mark.needs("tun")
def test_stream_over_ipv6_passes_an_impaired_link(
    new_lease: Callable[[], Lease], undo: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSGRLAB_LINKS", "wire")
    net = Net(new_lease(), undo, subnet="fd77:1::/64")
    net.faults.set_link("a", "b", LinkState.from_text("delay 1ms ± 0.5ms, loss 1%, corrupt 1%, seed 1"))
    dialled, accepted = net.connect()
    pattern = bytes(range(251)) * 4000
    sender = threading.Thread(target=dialled.sendall, args=(pattern,))
    sender.start()
    received = bytearray()
    while len(received) < len(pattern):
        received += accepted.recv(1 << 16)
    sender.join()
    assert received == pattern


def test_forged_fin_ends_one_direction_after_the_received_data(any_net: Net) -> None:
    dialled, accepted = any_net.connect()
    dialled.sendall(b"all of it")
    accepted.sendall(b"before")
    assert any_net.faults.finish("a", "b") == 1
    assert (accepted.recv(100), accepted.recv(100)) == (b"all of it", b"")
    assert any_net.faults.finish("a", "b") == 0
    # The sender knows of nothing, and believes nothing either: its peer confirms a FIN that it has not sent.
    assert dialled.recv(100) == b"before"
    accepted.sendall(b"after")
    assert receive_one(dialled) is None
    dialled.sendall(b"more")
    with pytest.raises(ConnectionResetError):
        dialled.recv(100)


@pytest.mark.parametrize("fault", ["reset", "finish"])
def test_segments_are_forged_into_streams_that_flow(any_net: Net, fault: str) -> None:
    dialled, accepted = any_net.connect()
    pattern = bytes(range(256)) * 1000
    sent = 0

    def send() -> None:
        nonlocal sent
        try:
            while True:
                dialled.sendall(pattern)
                sent += len(pattern)
        except OSError:
            return

    sender = threading.Thread(target=send)
    sender.start()
    received = bytearray()
    forged: list[int] = []
    forger = threading.Timer(0.1, lambda: forged.append(getattr(any_net.faults, fault)("a", "b")))
    forger.start()
    try:
        while chunk := accepted.recv(1 << 20):
            received += chunk
        assert fault == "finish"
    except ConnectionResetError:
        pass
    forger.join()
    with suppress(OSError):  # it ended, or has not noticed yet that there is no listener
        dialled.shutdown(socket.SHUT_RDWR)
    sender.join()
    assert forged == [1]
    assert bytes(received) == (pattern * (len(received) // len(pattern) + 1))[: len(received)]


def test_links_have_states_that_are_read_back_and_healed(net: Net) -> None:
    a, b = net.datagrams("a", "b")
    state = LinkState(delay_ms=60)
    net.faults.set_link("a", "b", state)
    assert (net.faults.link("a", "b"), net.faults.link("b", "a")) == (state, LinkState())
    began_s = time.monotonic()
    a.sendto(b"late", (net.address("b"), PORT))
    assert b.recv(10) == b"late"
    assert time.monotonic() - began_s >= 0.06
    net.faults.heal()
    assert net.faults.link("a", "b") == LinkState()


@pytest.mark.needs("nft-fwd")
def test_impaired_link_can_be_partitioned(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSGRLAB_LINKS", "wire")
    a, b, c = net.datagrams("a", "b", "c")
    to_b = net.address("b"), PORT
    net.faults.set_link("a", "b", LinkState(delay_ms=60))
    net.faults.block("a", "b")
    c.sendto(b"bystander", to_b)
    a.sendto(b"blocked", to_b)
    assert b.recv(10) == b"bystander"
    assert receive_one(b) is None
    began_s = time.monotonic()
    net.faults.unblock("a", "b")
    a.sendto(b"delayed", to_b)
    assert b.recv(10) == b"delayed"
    assert time.monotonic() - began_s >= 0.06
    net.faults.heal()
    net.faults.block("b", "a")
    a.sendto(b"healed", to_b)
    assert b.recv(10) == b"healed"
    b.sendto(b"blocked", (net.address("a"), PORT))
    assert receive_one(a) is None


def test_heal_restores_the_initial_link_states(net: Net) -> None:
    initial = LinkState(delay_ms=5)
    net.faults.set_link("a", "b", initial)
    net.faults.initial = {("a", "b"): initial}
    net.faults.set_link("a", "b", LinkState(delay_ms=50))
    net.faults.set_link("b", "a", LinkState(delay_ms=50))
    net.faults.block("a", "c")
    net.faults.heal()
    assert (net.faults.link("a", "b"), net.faults.link("b", "a")) == (initial, LinkState())
    assert net.faults.standing() == []


def test_faults_stay_when_a_host_comes_later(net: Net) -> None:
    net.faults.set_link("a", "b", LinkState(delay_ms=60))
    net.faults.block("c", "b")
    net.backend.add(HostWish("late", ("public",)))
    net.faults.block("late", "b")
    net.faults.block("b", "late")
    late, a, b, c = net.datagrams("late", "a", "b", "c")
    to_b = net.address("b"), PORT
    began_s = time.monotonic()
    a.sendto(b"a", to_b)
    c.sendto(b"c", to_b)
    late.sendto(b"late", to_b)
    late.sendto(b"not blocked", (net.address("a"), PORT))
    assert receive_one(a) == b"not blocked"
    assert b.recv(10) == b"a"
    assert time.monotonic() - began_s >= 0.06
    assert receive_one(b) is None


def test_impairments_stay_when_a_host_leaves(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSGRLAB_LINKS", "wire")
    net.faults.set_link("a", "b", LinkState(delay_ms=60))
    net.faults.set_link("a", "c", LinkState(delay_ms=60))
    net.backend.remove("b")
    a, c = net.datagrams("a", "c")
    began_s = time.monotonic()
    a.sendto(b"late", (net.address("c"), PORT))
    assert c.recv(10) == b"late"
    assert time.monotonic() - began_s >= 0.06


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda net: net.block("a", "x"), "no node 'x'; there is a, b, c"),
        (lambda net: net.block("a", "a"), "not two different nodes"),
        (lambda net: net.refuse("a", "b", port=65_536), "port 65536 is invalid"),
        (lambda net: net.black_hole("a", "b", 20), "every link carries 68 bytes"),
        (lambda net: net.set_link("a", "x", LinkState()), "no node 'x'"),
    ],
)
def test_impossible_faults_are_errors(net: Net, ask: Callable[[NamespaceNetwork], Any], words: str) -> None:
    with pytest.raises(LocalError, match=words):
        ask(net.faults)
    assert net.faults.standing() == []


def test_faults_of_hosts_on_other_machines_are_unsupported(new_lease: Callable[[], Lease]) -> None:
    far = {
        name: SimpleNamespace(name=name, addresses={"x": f"10.0.0.{n}"}, namespace=None)
        for n, name in ((1, "a"), (2, "b"))
    }
    with pytest.raises(Unsupported, match="node a has no network namespace on this machine"):
        NamespaceNetwork(new_lease(), far).block("b", "a")


def test_missing_nft_is_an_error_with_the_package(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match="apt-get install nftables"):
        net.faults.block("a", "b")


def test_cables_of_others_are_found_by_address(new_lease: Callable[[], Lease], undo: ExitStack) -> None:
    from pyroute2 import IPRoute

    from toolkit.machine.changes import Interface
    from toolkit.network.cables import find_cables
    from toolkit.network.places import Places

    lease = new_lease()
    net = Net(lease, undo)
    port = lease.label.interface("p")
    lease.journal.note(Interface(port))
    # As Docker does: one end in the host's namespace, the other on this machine.
    with closing(IPRoute()) as machine, net.host("a").namespace.open("rb") as namespace:
        machine.link(
            "add", ifname=port, kind="veth", peer={"ifname": "eth7", "net_ns_fd": namespace.fileno()}, state="up"
        )

    def settle() -> None:
        with IPRoute() as route:
            (index,) = route.link_lookup(ifname="eth7")
            route.link("set", index=index, state="up")
            route.addr("add", index=index, address="10.99.0.1", prefixlen=24)

    net.host("a").inside(settle)
    place = SimpleNamespace(name="a", addresses={"docker": "10.99.0.1"}, namespace=net.host("a").namespace)
    (cable,) = find_cables(lease.label, Places({"a": place}))
    assert (cable.port, cable.interface, cable.network, cable.switch) == (port, "eth7", "docker", None)
    assert cable.tap.startswith(lease.label.prefix)
    with pytest.raises(LocalError, match="b: no interface has its address"):
        find_cables(
            lease.label,
            Places({"b": SimpleNamespace(name="b", addresses={"x": "10.99.0.9"}, namespace=place.namespace)}),
        )
