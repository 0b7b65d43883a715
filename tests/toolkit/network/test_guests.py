"""Attachments of virtual machines to a bridge: addresses, ports, and what a killed process leaves."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from tests.support.waiting import eventually
from toolkit.machine.changes import Namespace
from toolkit.machine.leases import Lease
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network import namespaces
from toolkit.network.guests import BridgedNetwork, HostNetwork

pytestmark = pytest.mark.needs("netns")
ATTACHED = """\
import sys, time
from ipaddress import ip_network
from pathlib import Path
from toolkit.network.guests import BridgedNetwork

network = BridgedNetwork(Path(sys.argv[1]), "br-net", ip_network("10.77.0.0/29"), ())
with network.attached():
    print("attached", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def switch(new_lease: Callable[[], Lease]) -> Path:
    """A namespace with a bridge."""
    lease = new_lease()
    name = lease.label.namespace("net-switch")
    lease.journal.note(Namespace(name))
    path = namespaces.create(name)

    def make_bridge() -> None:
        with rtnetlink() as route:
            route.link("add", ifname="br-net", kind="bridge", mtu=1400, state="up")

    namespaces.inside(path, make_bridge)
    return path


def network(switch: Path, subnet: str = "10.77.0.0/29", *taken: str) -> BridgedNetwork:
    return BridgedNetwork(switch, "br-net", ip_network(subnet), frozenset(map(ip_address, taken)))


def ports(switch: Path) -> list[str]:
    """The ports of the bridge."""

    def look() -> list[str]:
        with rtnetlink() as route:
            (bridge,) = route.link_lookup(ifname="br-net")
            return [link.get("ifname") for link in route.get_links() if link.get("master") == bridge]

    return namespaces.inside(switch, look)


def test_guests_have_the_last_addresses_that_no_host_has(switch: Path) -> None:
    with ExitStack() as attached:
        first, second = (
            attached.enter_context(network(switch, "10.77.0.0/29", "10.77.0.5").attached()) for _ in range(2)
        )
        assert [str(each.address) for each in (first, second)] == ["10.77.0.6/29", "10.77.0.4/29"]
        assert (first.mac, first.mtu) == ("02:00:0a:4d:00:06", 1400)
        assert ports(switch) == ["guest0", "guest1"]
    assert ports(switch) == []


def test_the_address_of_a_guest_is_free_again_after_its_end(switch: Path) -> None:
    with ExitStack() as other, network(switch).attached():
        with network(switch).attached() as second:
            assert str(second.address.ip) == "10.77.0.5"
        third = other.enter_context(network(switch).attached())
        assert third.address == second.address


def test_guests_have_ipv6_addresses_in_a_subnet_of_ipv6(switch: Path) -> None:
    with network(switch, "fd77::/64").attached() as attachment:
        assert str(attachment.address) == "fd77::ffff:ffff:ffff:fffe/64"


def test_a_subnet_without_a_free_address_is_refused(switch: Path) -> None:
    full = network(switch, "10.77.0.0/30", "10.77.0.1", "10.77.0.2")
    with pytest.raises(LocalError, match=r"br-net: no free address in 10\.77\.0\.0/30 for another"):
        full.attached().__enter__()


def test_a_bridge_that_is_not_there_is_refused(switch: Path) -> None:
    gone = BridgedNetwork(switch, "br-gone", ip_network("10.77.0.0/29"), ())
    with pytest.raises(LocalError, match=r"net-switch: no bridge br-gone"):
        gone.attached().__enter__()


def test_guests_of_this_machine_have_a_subnet_that_no_route_leads_to(switch: Path) -> None:
    with namespaces.within(switch), ExitStack() as attached:
        with rtnetlink() as route:
            route.addr("add", index=route.link_lookup(ifname="br-net")[0], address="10.79.0.5", prefixlen=30)
        first, second = (attached.enter_context(HostNetwork().attached()) for _ in range(2))
        assert [str(each.address) for each in (first, second)] == ["10.79.0.2/30", "10.79.0.10/30"]
        with rtnetlink() as route:
            addresses = [each.get("address") for each in route.get_addr(label="mlguest2")]
        assert addresses == ["10.79.0.9"]
        attached.close()
        with rtnetlink() as route:
            assert not route.link_lookup(ifname="mlguest0")


def test_a_killed_process_leaves_no_port(switch: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ATTACHED, str(switch)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"attached\n"
            assert ports(switch) == ["guest0"]
        finally:
            process.kill()
    eventually(lambda: ports(switch) == [])
