"""The networks of a running cluster, for virtual machines: ``msgrlab vm run --network CLUSTER``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.cluster.backends.netns import SWITCH
from toolkit.errors import Unsupported
from toolkit.machine.labels import Label
from toolkit.machine.leases import Lease
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.machine.vm.networks import Attachment, Network
from toolkit.network import namespaces
from toolkit.network.guests import BridgedNetwork, HostNetwork
from toolkit.network.places import Guest
from toolkit.network.switch import bridge_name

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster

_THIS_MACHINE = "host"
Report = Callable[[str], object]
"""Takes a line about the attachment of a guest."""


class ClusterNetwork:
    """A network of a running cluster that registers its guests there, so that faults can name them.

    Args:
        label: label of the cluster.
        network: name of the network; the first one of the first node unless given.
        status: returns the cluster's status.
        attached: registers a guest with the cluster.
        report: called with a line when a guest is attached.

    Raises:
        LocalError: there is no such network.
        Unsupported: the cluster's nodes are not in network namespaces of this machine.
    """

    def __init__(
        self,
        label: Label,
        network: str,
        status: Callable[[], Mapping[str, Any]],
        attached: Callable[[Guest], AbstractContextManager[object]],
        report: Report = lambda _line: None,
    ) -> None:
        self._label = label
        self._status = status
        self._attached = attached
        self._report = report
        self._network = _hosts(label, status(), network)[0]

    @contextmanager
    def attached(self, *, has_headers: bool = True) -> Iterator[Attachment]:
        """Attach a guest for the duration of a ``with`` block, or until this process ends.

        Args:
            has_headers: True for virtio headers before the frames of the tap device.

        Raises:
            LocalError: the cluster is down, or all addresses for guests are in use.
            Unsupported: tap devices are not available here, or this user may not make them.
        """
        bridge = _bridge(self._label, self._status(), self._network)
        with bridge.attached(has_headers=has_headers) as attachment:
            address = str(attachment.address.ip)
            with self._attached(Guest(attachment.name, self._network, address)):
                self._report(f"{attachment.name} of cluster {self._label.name!r}, {address} on {self._network}")
                yield attachment


def named_network(name: str, report: Report = lambda _line: None) -> Network:
    """Return a network of the running cluster of that name, or of this machine.

    Args:
        name: ``CLUSTER`` for its first network, ``CLUSTER/NETWORK``, or ``host`` for this machine.
        report: called with a line when a guest is attached to a cluster; the line has the guest's name.

    Raises:
        LocalError: there is no such cluster or network, or no supervisor keeps the cluster.
        Unsupported: its nodes are not in network namespaces of this machine.
    """
    from toolkit.cluster.supervisor.client import ask, lasting  # noqa: PLC0415 - only for clusters of other processes

    if name == _THIS_MACHINE:
        return HostNetwork()
    cluster, _, network = name.partition("/")
    lease = Lease.find(cluster)

    def attached(guest: Guest) -> AbstractContextManager[object]:
        return lasting(lease, "guest", name=guest.name, network=guest.network, address=guest.address)

    return ClusterNetwork(lease.label, network, lambda: ask(lease, "status"), attached, report)


def guest_network(cluster: "Cluster", network: str = "") -> Network:
    """Return a network of a running cluster of this process, for :class:`toolkit.machine.vm.Machine`.

    Args:
        cluster: the cluster.
        network: name of the network; the first one of the first node unless given.

    Raises:
        LocalError: there is no such network.
        Unsupported: the cluster's nodes are not in network namespaces of this machine.
    """
    return ClusterNetwork(cluster.lease.label, network, cluster.status, cluster.guests.attached)


def _hosts(label: Label, status: Mapping[str, Any], network: str) -> tuple[str, dict[str, str]]:
    """Return a network's name and the addresses of its hosts, by node."""
    if status["backend"] != "netns":
        raise Unsupported(
            f"cluster {label.name!r}: virtual machines can be attached to clusters with --backend netns,"
            f" not {status['backend']}"
        )
    by_network: dict[str, dict[str, str]] = {}
    for node, about in status["nodes"].items():
        for name, address in about["host"].items():
            by_network.setdefault(name, {})[node] = address
    wanted = network or next(iter(by_network), "")
    if wanted not in by_network:
        known = ", ".join(by_network)
        raise LocalError(f"cluster {label.name!r}: no network {wanted!r}; there is {known}")
    return wanted, by_network[wanted]


def _bridge(label: Label, status: Mapping[str, Any], network: str) -> BridgedNetwork:
    """Return the bridge of a network, with the names and addresses that a guest cannot have."""
    _, hosts = _hosts(label, status, network)
    node, address = next(iter(hosts.items()))
    space = namespaces.DIRECTORY / label.namespace(node)
    length = namespaces.inside(space, lambda: _prefix_length(space, address))
    return BridgedNetwork(
        namespace=namespaces.DIRECTORY / label.namespace(SWITCH),
        bridge=bridge_name(network),
        subnet=ip_interface(f"{address}/{length}").network,
        taken=frozenset(map(ip_address, hosts.values())),
        names=frozenset(status["nodes"]),
    )


def _prefix_length(space: Path, address: str) -> int:
    with rtnetlink() as route:
        for each in route.get_addr():
            if each.get("address") == address:
                return int(each["prefixlen"])
    raise LocalError(f"{space}: no interface has the address {address}")
