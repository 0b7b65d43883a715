"""Links over real veth pairs and bridges; the kernel here need not have netem."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from messenger.errors import LocalError
from tests.support.hosts import Hosts, make_hosts
from tests.support.machine import new_lease  # noqa: F401 - a fixture
from toolkit.errors import Unsupported
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import Lease
from toolkit.network.links import Links, open_links
from toolkit.network.namespaces import within
from toolkit.network.netem import kernel
from toolkit.network.state import LinkState
from toolkit.network.wire import forwarding
from toolkit.network.wire.links import WireLinks

pytestmark = pytest.mark.needs("netns", "tun")


def state(text: str) -> LinkState:
    return LinkState.from_text(text)


@pytest.fixture
def hosts(new_lease: Callable[[], Lease]) -> Hosts:  # noqa: F811
    return make_hosts(new_lease(), "abc")


@pytest.fixture(params=["steered", "bridged"])
def links(hosts: Hosts, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Links]:
    """Links impaired by the wire, with and without rules that steer frames into it."""
    if request.param == "bridged":
        monkeypatch.setattr(forwarding, "why_not", lambda: "no nft here")
    with open_links(hosts.cables, way="wire") as links:
        yield links


def test_clear_links_start_no_wire(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): LinkState(), ("b", "a"): state("seed 5, limit 3")})
    assert links.describe() == "bridges; the wire in user space when a link needs it"
    assert links.get("a", "b") == LinkState()
    assert links.passed() == {}
    assert [number for number, _ in hosts.send("a", "b", 20)] == list(range(20))


def test_states_are_applied_and_read_back(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): state("delay 30ms"), ("a", "c"): state("loss 100%")})
    assert "process" in links.describe()
    assert links.get("a", "b") == state("delay 30ms")
    assert links.get("b", "a") == LinkState()
    delays_s = [delay_s for _, delay_s in hosts.send("a", "b", 20)]
    assert len(delays_s) == 20
    assert min(delays_s) >= 0.03
    assert hosts.send("a", "c", 20) == []
    assert len(hosts.send("b", "c", 20)) == len(hosts.send("c", "a", 20)) == 20
    passed = links.passed()
    assert (passed["a", "b"].packets, passed["a", "b"].lost) == (20, 0)
    assert (passed["a", "c"].packets, passed["a", "c"].lost) == (20, 20)


def test_heal_restores_the_initial_link_states(hosts: Hosts) -> None:
    with open_links(hosts.cables, way="wire", states={("a", "b"): state("loss 100%")}) as links:
        links.set({("a", "b"): state("delay 5ms"), ("b", "a"): state("loss 100%")})
        assert len(hosts.send("a", "b", 5)) == 5
        links.heal()
        assert links.get("a", "b") == state("loss 100%")
        assert links.get("b", "a") == LinkState()
        assert hosts.send("a", "b", 5) == []
        assert len(hosts.send("b", "a", 5)) == 5


def test_the_same_seed_loses_the_same_packets(hosts: Hosts, links: Links) -> None:
    found = []
    for _ in range(2):
        links.set({("a", "b"): state("loss 50%, seed 11")})
        found.append([number for number, _ in hosts.send("a", "b", 40)])
    assert found[0] == found[1]
    assert 5 < len(found[0]) < 35


def test_damaged_packets_do_not_reach_a_program(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): state("corrupt 100%, seed 3")})
    # A bit of the sender's Ethernet address, or of a field that no checksum covers, is checked by neither side.
    assert len(hosts.send("a", "b", 50)) < 10


def test_tcp_stream_survives_an_impaired_wire(hosts: Hosts, links: Links) -> None:
    impaired = state("delay 2ms ± 1ms, loss 1%, duplicate 1%, corrupt 1%, seed 1")
    links.set({("a", "b"): impaired, ("b", "a"): state("loss 1%")})
    sent = bytes(range(256)) * 2000
    received = bytearray()
    with hosts.socket("b", socket.SOCK_STREAM) as listener, hosts.socket("a", socket.SOCK_STREAM) as client:
        listener.bind((hosts.address("b"), 7))
        listener.listen()

        def take() -> None:
            connection, _ = listener.accept()
            with connection:
                while chunk := connection.recv(1 << 16):
                    received.extend(chunk)

        taker = threading.Thread(target=take)
        taker.start()
        client.connect((hosts.address("b"), 7))
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        taker.join()
    assert bytes(received) == sent
    passed = links.passed()["a", "b"]
    assert passed.packets > len(sent) / 1500


def test_without_impairments_the_wire_is_quick(hosts: Hosts, links: Links) -> None:
    links.set({("a", "c"): state("delay 1ms")})
    # Twice through the wire, and some of what a busy machine adds.
    assert median(hosts.round_trips("a", "b", 200)) < 0.005


def test_starting_the_wire_keeps_packets_in_order(hosts: Hosts, links: Links) -> None:
    arrived: list[int] = []
    sender = threading.Thread(
        target=lambda: arrived.extend(number for number, _ in hosts.send("a", "b", 500, every_s=0.002))
    )
    sender.start()
    links.set({("a", "c"): state("loss 1%")})
    arrived_late = hosts.send("b", "a", 20)
    sender.join()
    assert arrived == sorted(arrived)
    assert arrived[-1] == 499
    # While ports change from one bridge to another, a few are lost.
    assert len(arrived) == 500 if not forwarding.why_not() else len(arrived) > 400
    assert len(arrived_late) == 20


def test_unknown_links_are_refused(hosts: Hosts, links: Links) -> None:
    for pair in (("a", "x"), ("a", "a"), ("y", "a")):
        with pytest.raises(LocalError, match=r"no link from .* there is a, b, c"):
            links.set({pair: state("loss 1%")})
        with pytest.raises(LocalError, match="no link from"):
            links.get(*pair)


def test_environment_selects_netem_or_wire(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSGRLAB_LINKS", "wire")
    with open_links(hosts.cables) as links:
        assert isinstance(links, WireLinks)
    monkeypatch.setenv("MSGRLAB_LINKS", "pigeons")
    with pytest.raises(LocalError, match="netem or wire, not 'pigeons'"):
        open_links(hosts.cables)


def test_netem_is_preferred_if_the_kernel_has_it(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MSGRLAB_LINKS", raising=False)
    with open_links(hosts.cables) as links:
        assert links.way == ("netem" if kernel.has_netem() else "wire")


def test_open_links_refuses_netem_without_kernel_support(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = kernel.Abilities(netem=False, why_not="the kernel has no netem (modprobe sch_netem)")
    monkeypatch.setattr(kernel, "abilities", lambda: missing)
    with pytest.raises(Unsupported, match=r"modprobe sch_netem\); MSGRLAB_LINKS=wire"):
        open_links(hosts.cables, way="netem")


def test_the_wire_carries_its_clusters_label(new_lease: Callable[[], Lease]) -> None:  # noqa: F811
    lease = new_lease()
    hosts = make_hosts(lease, "ab")
    environment = {PROCESS_VARIABLE: str(lease.label)}
    links = open_links(hosts.cables, way="wire", states={("a", "b"): state("delay 1ms")}, environment=environment)
    # The fixture checks that the journal alone ends it.
    assert isinstance(links, WireLinks)
    assert links.describe().startswith("the wire")
    lease.journal.undo()
    with pytest.raises(LocalError, match="the wire has ended"):
        links.get("a", "b")
    deadline_s = time.monotonic() + 10
    while "has ended" not in links.describe():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    links.close()


def test_closing_ends_the_wire_and_gives_ports_back(hosts: Hosts, links: Links) -> None:
    from pyroute2 import IPRoute

    for _ in range(2):
        links.set({("a", "b"): state("loss 100%")})
        assert hosts.send("a", "b", 3) == []
        links.close()
        assert links.get("a", "b") == LinkState()
        assert len(hosts.send("a", "b", 3)) == 3
    with within(hosts.switch), IPRoute() as route:
        assert not route.link_lookup(ifname="ta-0")
