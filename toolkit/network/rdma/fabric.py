"""A bridge of this machine with a soft-RoCE device for each host of a cluster.

Devices send packets to the link-local addresses of each other's interfaces. These need no routes or rules, do not
collide with other networks, and cross the bridge although all devices are in one network namespace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.changes import Change, Interface, RdmaLink
from toolkit.machine.leases import Lease
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable
from toolkit.network.namespaces import set_sysctl
from toolkit.network.rdma.rxe import create, is_receiving

if TYPE_CHECKING:
    from pyroute2 import IPRoute

GID_INDEX = 0
"""Index of a device's link-local address in its GID table."""
_NETWORK = "rdma"
_MTU = 4200
"""MTU in bytes, which fits RDMA packets with 4096 bytes of data."""
_HERE = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class _Port:
    cable: Cable
    changes: tuple[Change, ...]
    """Changes of the machine, in the order in which they were made."""


class Fabric:
    """The RDMA devices of a cluster's hosts.

    Args:
        lease: lease of the cluster; its journal gets each interface and device before it is made.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._bridge = lease.label.interface("r")
        self._opened: Interface | None = None
        self._ports: dict[str, _Port] = {}

    def open(self) -> None:
        """Make the bridge; raises LocalError."""
        self._opened = Interface(self._bridge)
        self._lease.journal.note(self._opened)
        with _route() as route:
            route.link("add", ifname=self._bridge, kind="bridge", mtu=_MTU, state="up")

    def plug(self, host: str) -> str:
        """Make a device for a host, on its own interface; returns the name of both.

        Raises:
            LocalError: the kernel rejects it.
            Unsupported: the kernel has no soft-RoCE, or does not deliver its packets in this network namespace.
        """
        label, journal = self._lease.label, self._lease.journal
        name, far_end = label.interface("r-", host), label.interface("p-", host)
        number = len(self._ports) + 1
        while (mac := _mac(label.number, number)) in {port.cable.mac for port in self._ports.values()}:
            number += 1
        interface, device = Interface(name), RdmaLink(name)
        journal.note(interface)
        _make_interface(self._bridge, name, far_end, mac)
        self._ports[host] = _Port(
            Cable(host, _NETWORK, _HERE, name, mac, _MTU, far_end, None), (interface, device)
        )
        create(name, name, journal)
        if not is_receiving():
            raise Unsupported(
                "transport rdma: this kernel delivers packets of soft-RoCE only in the first network namespace:"
                " run it there, or msgrlab vm run -- CMD"
            )
        return name

    def unplug(self, host: str) -> None:
        """Remove a host's device and its interface, once no process has the device open."""
        for change in reversed(self._ports.pop(host).changes):
            change.undo()
            if change in self._lease.journal.changes():
                self._lease.journal.take_back(change)

    def cables(self) -> list[Cable]:
        """Return the cables between devices and bridge, in the order of the hosts."""
        return [port.cable for port in self._ports.values()]

    def set_port(self, host: str, *, is_up: bool) -> None:
        """Take the interface of a host's device up or down, and with it the device's port.

        Raises:
            LocalError: there is no such host.
        """
        if host not in self._ports:
            raise LocalError(f"no node {host!r}; there are {', '.join(self._ports)}")
        with _route() as route:
            (index,) = route.link_lookup(ifname=self._ports[host].cable.interface)
            route.link("set", index=index, state="up" if is_up else "down")

    def close(self) -> None:
        """Remove all devices and the bridge; the programs that used the devices have ended."""
        for host in list(self._ports):
            self.unplug(host)
        if self._opened is not None:
            self._opened.undo()
            self._opened = None


def _mac(cluster: int, number: int) -> str:
    """Return a locally administered Ethernet address, which determines the link-local address."""
    return bytes((2, 0x52, cluster >> 8, cluster & 0xFF, number >> 8, number & 0xFF)).hex(":")


def _make_interface(bridge: str, name: str, far_end: str, mac: str) -> None:
    with _route() as route:
        (index,) = route.link_lookup(ifname=bridge)
        near = {"ifname": name, "address": mac, "mtu": _MTU}
        route.link("add", ifname=far_end, kind="veth", peer=near, mtu=_MTU, master=index, state="up")
        set_sysctl(f"ipv6/conf/{name}/disable_ipv6", "0")
        # no duplicate detection: the address can be used at once, also after the interface was down
        set_sysctl(f"ipv6/conf/{name}/accept_dad", "0")
        (index,) = route.link_lookup(ifname=name)
        route.link("set", index=index, state="up")


@contextmanager
def _route() -> Iterator["IPRoute"]:
    from pyroute2 import NetlinkError

    with rtnetlink() as route:
        try:
            yield route
        except NetlinkError as error:
            raise LocalError(f"RDMA network: {error.args[-1]}") from None
