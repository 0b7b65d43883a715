"""A bridge of this machine with a soft-RoCE device for each host of a cluster.

Packets go from one device to another by the link-local addresses of the interfaces. These need neither routes nor
rules, collide with no other network, and pass the bridge although all devices are in one network namespace.
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
"""Of a device's link-local address in its table of addresses."""
_NETWORK = "rdma"
_MTU = 4200
"""In bytes: room for RDMA packets with 4096 bytes of data."""
_HERE = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class _Port:
    cable: Cable
    changes: tuple[Change, ...]
    """In the order in which they were made."""


class Fabric:
    """The devices of a cluster's hosts.

    Args:
        lease: of the cluster; its journal has each interface and each device before it is made.
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
        """Make a device for a host, on an interface of its own; returns the name of both.

        Raises:
            LocalError: it did not work.
            Unsupported: the kernel has no soft-RoCE, or delivers no packets of it in this network namespace.
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
                "transport rdma: this kernel delivers packets of soft-RoCE in the first network namespace alone:"
                " run it there, or msgrlab vm run -- CMD"
            )
        return name

    def unplug(self, host: str) -> None:
        """Remove a host's device and its interface; waits until no process has the device open."""
        for change in reversed(self._ports.pop(host).changes):
            change.undo()
            if change in self._lease.journal.changes():
                self._lease.journal.take_back(change)

    def cables(self) -> list[Cable]:
        """What connects the devices with the bridge, in the order of the hosts."""
        return [port.cable for port in self._ports.values()]

    def set_port(self, host: str, *, is_up: bool) -> None:
        """Take the interface of a host's device up or down, and the port of the device with it.

        Raises:
            LocalError: there is no such host.
        """
        if host not in self._ports:
            raise LocalError(f"no node {host!r}; there are {', '.join(self._ports)}")
        with _route() as route:
            (index,) = route.link_lookup(ifname=self._ports[host].cable.interface)
            route.link("set", index=index, state="up" if is_up else "down")

    def close(self) -> None:
        """Remove all of it; the programs that had devices open have ended."""
        for host in list(self._ports):
            self.unplug(host)
        if self._opened is not None:
            self._opened.undo()
            self._opened = None


def _mac(cluster: int, number: int) -> str:
    """A local Ethernet address, from which the link-local address follows."""
    return bytes((2, 0x52, cluster >> 8, cluster & 0xFF, number >> 8, number & 0xFF)).hex(":")


def _make_interface(bridge: str, name: str, far_end: str, mac: str) -> None:
    with _route() as route:
        (index,) = route.link_lookup(ifname=bridge)
        near = {"ifname": name, "address": mac, "mtu": _MTU}
        route.link("add", ifname=far_end, kind="veth", peer=near, mtu=_MTU, master=index, state="up")
        set_sysctl(f"ipv6/conf/{name}/disable_ipv6", "0")
        set_sysctl(f"ipv6/conf/{name}/accept_dad", "0")  # the address is there at once, also after a time down
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
