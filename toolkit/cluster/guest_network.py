"""The networks of a running cluster, for virtual machines: ``msgrlab vm run --network CLUSTER``."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.backends.netns import SWITCH
from toolkit.errors import Unsupported
from toolkit.machine.labels import Label
from toolkit.machine.leases import Lease
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.machine.vm.networks import Network
from toolkit.network import namespaces
from toolkit.network.guests import BridgedNetwork, HostNetwork
from toolkit.network.switch import bridge_name

_THIS_MACHINE = "host"


def named_network(name: str) -> Network:
    """Return a network of the running cluster of that name, or of this machine.

    Args:
        name: ``CLUSTER`` for its first network, ``CLUSTER/NETWORK``, or ``host`` for this machine.

    Raises:
        LocalError: there is no such cluster or network, or no supervisor keeps the cluster.
        Unsupported: its nodes are not in network namespaces of this machine.
    """
    from toolkit.cluster.supervisor.client import ask  # noqa: PLC0415 - only for clusters of other processes

    if name == _THIS_MACHINE:
        return HostNetwork()
    cluster, _, network = name.partition("/")
    lease = Lease.find(cluster)
    return guest_network(lease.label, ask(lease, "status"), network)


def guest_network(label: Label, status: Mapping[str, Any], network: str = "") -> BridgedNetwork:
    """Return a network of a running cluster, for :class:`toolkit.machine.vm.Machine`.

    Args:
        label: label of the cluster.
        status: its :meth:`~toolkit.cluster.cluster.Cluster.status`.
        network: name of the network; the first one of the first node unless given.

    Raises:
        LocalError: there is no such network.
        Unsupported: the cluster's nodes are not in network namespaces of this machine.
    """
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
    hosts = by_network[wanted]
    node, address = next(iter(hosts.items()))
    space = namespaces.DIRECTORY / label.namespace(node)
    length = namespaces.inside(space, lambda: _prefix_length(space, address))
    return BridgedNetwork(
        namespace=namespaces.DIRECTORY / label.namespace(SWITCH),
        bridge=bridge_name(wanted),
        subnet=ip_interface(f"{address}/{length}").network,
        taken=frozenset(map(ip_address, hosts.values())),
    )


def _prefix_length(space: Path, address: str) -> int:
    with rtnetlink() as route:
        for each in route.get_addr():
            if each.get("address") == address:
                return int(each["prefixlen"])
    raise LocalError(f"{space}: no interface has the address {address}")
