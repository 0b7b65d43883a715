"""Faults between nodes and guests: a namespace at the other end of a tap device stands for a guest."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import peers
from tests.support.clusters import state as state  # noqa: PLC0414 - a fixture
from tests.support.tap_guests import TapGuest, tap_guest
from toolkit.cluster import Cluster, up
from toolkit.cluster.guest_network import guest_network
from toolkit.cluster.nemesis import Timeline, torment
from toolkit.errors import Unsupported
from toolkit.network.places import Guest

pytestmark = [pytest.mark.needs("netns", "nft")]
PORT = 7000
TIMEOUT_S = 0.5
"""For what has to fail, because packets are dropped."""
PATIENCE_S = 10.0
"""For what has to succeed: the guest's kernel may look for its neighbour again, a second later."""
DELAY_S = 0.1


@pytest.fixture
def cluster(state: Path) -> Iterator[Cluster]:
    with up(peers(), backend="netns") as cluster:
        yield cluster


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def guest(cluster: Cluster, undo: ExitStack) -> TapGuest:
    return undo.enter_context(tap_guest(guest_network(cluster)))


class Sockets:
    """Connections between the guest and the node a, in both directions."""

    def __init__(self, cluster: Cluster, guest: TapGuest, undo: ExitStack) -> None:
        self._host, self._guest, self._undo = cluster.nodes["a"].host, guest, undo
        self._address = self._host.addresses["public"]
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        at_node = self._host.inside(lambda: socket.create_server((self._address, PORT), family=family))
        self._at_node = self._kept(at_node)
        self._at_guest = guest.open(lambda: socket.create_server((guest.address, PORT), family=family))

    def _kept(self, made: socket.socket) -> socket.socket:
        made.settimeout(PATIENCE_S)
        self._undo.callback(made.close)
        return made

    def dial(
        self, *, from_guest: bool = True, timeout_s: float = PATIENCE_S
    ) -> tuple[socket.socket, socket.socket]:
        """A new connection: the guest's end and the node's."""
        if from_guest:
            own = self._guest.open(lambda: socket.create_connection((self._address, PORT), timeout_s))
            return self._kept(own), self._kept(self._at_node.accept()[0])
        there = self._host.inside(lambda: socket.create_connection((self._guest.address, PORT), timeout_s))
        return self._kept(self._at_guest.accept()[0]), self._kept(there)

    def dials(self, timeout_s: float = PATIENCE_S) -> tuple[float, str]:
        """Seconds until the guest has a connection with the node or an error, and that."""
        began_s = time.monotonic()
        try:
            self.dial(timeout_s=timeout_s)
        except OSError as error:
            return time.monotonic() - began_s, type(error).__name__
        return time.monotonic() - began_s, ""


@pytest.fixture
def sockets(cluster: Cluster, guest: TapGuest, undo: ExitStack) -> Sockets:
    return Sockets(cluster, guest, undo)


def traces(cluster: Cluster) -> list[object]:
    """Return what faults have left in a cluster and in its kernel."""
    status = cluster.status()
    assert hasattr(cluster.network, "standing")
    return [*status["guests"], *status["faults"], *status["links"], *cluster.network.standing()]


@pytest.mark.parametrize("fault", ["link guest0 a delay-ms=100", "link a guest0 delay-ms=100"])
def test_a_link_delays_packets_of_one_direction_until_it_is_healed(
    cluster: Cluster, sockets: Sockets, fault: str
) -> None:
    node_end = sockets.dial()[1]
    cluster.fault(fault)
    took_s, error = sockets.dials()
    assert (error, took_s >= DELAY_S) == ("", True)
    _, a, b, _ = fault.split()
    assert cluster.status()["links"] == [{"from": a, "to": b, "delay_ms": 100.0}]
    cluster.fault("heal")
    assert min(sockets.dials()[0] for _ in range(5)) < DELAY_S
    assert traces(cluster) == ["guest0"]
    node_end.close()


def test_a_link_that_loses_all_packets_of_a_guest_has_its_own_counters(cluster: Cluster, sockets: Sockets) -> None:
    cluster.fault("link guest0 a loss=100")
    assert sockets.dials(TIMEOUT_S)[1] == "TimeoutError"
    cluster.fault("undo link guest0 a loss=100")
    assert sockets.dials()[1] == ""


@pytest.mark.parametrize(
    "fault",
    ["partition guest0 a", "partition a guest0 --one-way", "block guest0 a 7000", "isolate a", "flap guest0 a"],
)
def test_no_packet_passes_a_partition_until_it_is_undone(cluster: Cluster, sockets: Sockets, fault: str) -> None:
    cluster.fault(fault)
    assert sockets.dials(TIMEOUT_S)[1] == "TimeoutError"
    assert cluster.status()["faults"] == [fault]
    cluster.fault(f"undo {fault}")
    assert sockets.dials()[1] == ""
    assert traces(cluster) == ["guest0"]


def test_what_waits_at_a_partition_passes_when_it_is_healed(cluster: Cluster, sockets: Sockets) -> None:
    at_guest, at_node = sockets.dial()
    cluster.fault("partition a guest0")
    at_guest.sendall(b"late")
    at_node.settimeout(TIMEOUT_S)
    with pytest.raises(TimeoutError):
        at_node.recv(4)
    cluster.fault("heal a guest0")
    at_node.settimeout(PATIENCE_S)
    assert at_node.recv(4) == b"late"


@pytest.mark.parametrize("fault", ["refuse guest0 a", "refuse guest0 a 7000"])
def test_connections_of_a_guest_are_refused(cluster: Cluster, sockets: Sockets, fault: str) -> None:
    cluster.fault(fault)
    assert sockets.dials()[1] == "ConnectionRefusedError"
    cluster.fault("heal guest0 a")
    assert sockets.dials()[1] == ""


def test_a_nat_between_a_node_and_a_guest_changes_ports(cluster: Cluster, sockets: Sockets) -> None:
    cluster.fault("nat a guest0")
    at_guest, at_node = sockets.dial(from_guest=False)
    assert at_guest.getpeername()[1] != at_node.getsockname()[1]


@pytest.mark.parametrize("from_guest", [True, False])
@pytest.mark.parametrize("fault", ["reset guest0 a", "reset a guest0"])
def test_both_ends_of_connections_with_a_guest_are_reset(
    cluster: Cluster, sockets: Sockets, fault: str, *, from_guest: bool
) -> None:
    ends = sockets.dial(from_guest=from_guest)
    assert cluster.fault(fault) == "1 connection"
    for end in ends:
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    assert cluster.fault(fault) == "0 connections"


@pytest.mark.parametrize("from_guest", [True, False])
@pytest.mark.parametrize(("fault", "ended"), [("finish guest0 a", 1), ("finish a guest0", 0)])
def test_the_receiver_of_a_forged_end_sees_a_close(
    cluster: Cluster, sockets: Sockets, fault: str, ended: int, *, from_guest: bool
) -> None:
    ends = sockets.dial(from_guest=from_guest)
    assert cluster.fault(fault) == "1 connection"
    assert ends[ended].recv(1) == b""
    ends[1 - ended].settimeout(TIMEOUT_S)
    with pytest.raises(TimeoutError):
        ends[1 - ended].recv(1)
    assert cluster.fault(fault) == "0 connections"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kill guest0", "guest0 is a virtual machine: only faults of the network act on it"),
        ("nat guest0 a", "guest0 is a virtual machine: its kernel cannot be changed from here"),
        ("black-hole guest0 a 600", "black hole guest0 a: the kernel of guest0 sends many segments as one packet"),
        ("reset guest0 guest1", "guest0 and guest1 are virtual machines: their connections are unknown here"),
    ],
)
def test_what_needs_the_kernel_of_a_guest_is_refused(
    cluster: Cluster, guest: TapGuest, fault: str, why: str
) -> None:
    with tap_guest(guest_network(cluster)), pytest.raises(Unsupported, match=why):
        cluster.fault(fault)
    assert cluster.status()["faults"] == []


def test_faults_of_a_guest_end_with_it_and_its_name_is_free_again(cluster: Cluster) -> None:
    cluster.fault("link a b delay-ms=20")
    with tap_guest(guest_network(cluster)) as guest:
        assert cluster.status()["guests"] == {"guest0": {"network": "public", "address": guest.address}}
        for fault in ("link guest0 a loss=1", "partition b guest0", "nat a guest0", "flap a guest0", "isolate b"):
            cluster.fault(fault)
    status = cluster.status()
    assert (status["guests"], status["faults"]) == ({}, ["link a b delay-ms=20", "isolate b"])
    cluster.fault("undo isolate b")
    with pytest.raises(LocalError, match="no node 'guest0'"):
        cluster.fault("partition b guest0")
    assert traces(cluster) == ["link a b delay-ms=20", {"from": "a", "to": "b", "delay_ms": 20.0}]
    with tap_guest(guest_network(cluster)) as another, ExitStack() as undo:
        assert another.name == "guest0"
        assert Sockets(cluster, another, undo).dials()[1] == ""


def test_the_end_of_an_isolation_leaves_the_partition_of_a_guest_that_came_later(cluster: Cluster) -> None:
    cluster.fault("isolate a")
    with tap_guest(guest_network(cluster)):
        cluster.fault("partition a guest0")
        cluster.fault("undo isolate a")
        assert traces(cluster)[-2:] == ["block a guest0", "block guest0 a"]


def test_a_node_that_is_added_reaches_a_guest(cluster: Cluster, guest: TapGuest, sockets: Sockets) -> None:
    cluster.fault("link guest0 a delay-ms=100")
    added = cluster.add_node("c", entity="osd.3")
    with added.host.inside(lambda: socket.create_connection((guest.address, PORT), PATIENCE_S)):
        assert sockets.dials()[0] >= DELAY_S
    cluster.fault("partition c guest0")
    cluster.remove_node("c")
    assert traces(cluster) == [
        "guest0",
        "link guest0 a delay-ms=100",
        {"from": "guest0", "to": "a", "delay_ms": 100.0},
    ]


def test_faults_act_on_guests_of_an_ipv6_network(state: Path, undo: ExitStack) -> None:
    with up(peers(networks={"public": {"subnet": "fd77::/64"}}), backend="netns") as cluster:
        sockets = Sockets(cluster, undo.enter_context(tap_guest(guest_network(cluster))), undo)
        cluster.fault("partition a guest0")
        assert sockets.dials(TIMEOUT_S)[1] == "TimeoutError"
        cluster.fault("heal")
        ends = sockets.dial()
        assert cluster.fault("reset a guest0") == "1 connection"
        for end in ends:
            with pytest.raises(ConnectionResetError):
                end.recv(1)
        undo.close()


def test_a_guest_and_a_node_never_have_the_same_name_or_address(cluster: Cluster, guest: TapGuest) -> None:
    with pytest.raises(LocalError, match="node guest0: a virtual machine on the network has that name"):
        cluster.add_node("guest0", entity="osd.3")
    cluster.add_node("guest1", entity="osd.3")
    with tap_guest(guest_network(cluster)) as second:
        assert second.name == "guest2"


def test_a_node_does_not_get_the_address_of_a_guest(state: Path) -> None:
    spec = peers(networks={"small": {"subnet": "10.77.0.0/29"}})
    with up(spec, backend="netns") as cluster, ExitStack() as undo:
        guests = [undo.enter_context(tap_guest(guest_network(cluster))) for _ in range(4)]
        assert [guest.address for guest in guests] == [f"10.77.0.{number}" for number in (6, 5, 4, 3)]
        with pytest.raises(LocalError, match="has room for 6 hosts"):
            cluster.add_node("c", entity="osd.3")


def test_a_guest_whose_port_has_gone_does_not_hinder_other_faults(cluster: Cluster) -> None:
    with cluster.guests.attached(Guest("guest0", "public", "10.77.0.254")):
        cluster.fault("partition a b")
        cluster.fault("partition a guest0")
        with pytest.raises(LocalError, match="there is no guest0, or it is on no bridge"):
            cluster.fault("link guest0 a delay-ms=10")
        assert cluster.status()["faults"] == ["partition a b", "partition a guest0"]
    assert cluster.status()["faults"] == ["partition a b"]
    cluster.fault("heal")
    assert traces(cluster) == []


def test_a_step_of_a_timeline_needs_its_guest_when_its_time_comes(cluster: Cluster) -> None:
    faults = ("partition a guest0", "undo partition a guest0")
    timeline = Timeline.of_values([{"at_s": 0.0, "fault": fault} for fault in faults])
    without = torment(cluster, timeline)
    with tap_guest(guest_network(cluster)):
        present = torment(cluster, timeline)
    assert ["guest0" in done.error for done in without.done] == [True, True]
    assert [done.error for done in present.done] == ["", ""]
    assert present.passed, present.failures


def test_an_attached_guest_is_in_the_status_of_its_cluster(cluster: Cluster, guest: TapGuest) -> None:
    assert f"guest0: {guest.address} on public" in re.sub("<[^>]*>", "", cluster._repr_html_())
    steps = [record["args"] for record in cluster.history.so_far().of("step") if record["verb"] == "guest"]
    assert steps == ["attach guest0"]


@pytest.mark.usefixtures("guest")
def test_an_impairment_of_the_spec_names_the_fault_for_a_guest(cluster: Cluster) -> None:
    with pytest.raises(Unsupported, match=r"link guest0 a: .*: msgrlab fault link guest0 a delay-ms=20"):
        cluster.add_link("guest0", "a", delay_ms=5)
    cluster.fault("link guest0 a delay-ms=20")
    assert cluster.status()["faults"] == ["link guest0 a delay-ms=20"]


def test_a_guest_may_leave_after_its_cluster(state: Path) -> None:
    with ExitStack() as undo, up(peers(), backend="netns") as cluster:
        undo.enter_context(guest_network(cluster).attached())
        cluster.fault("partition a guest0")
    assert cluster.guests.status() == {}
