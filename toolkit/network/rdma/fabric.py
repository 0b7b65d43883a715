"""A bridge of this machine with a soft-RoCE device for each host of a cluster.

Devices send packets to the link-local addresses of each other's interfaces. These need no routes or rules, do not
collide with other networks, and cross the bridge although all devices are in one network namespace.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from messenger.transport.rdma.verbs import pyverbs
from toolkit.errors import Unsupported
from toolkit.extras import require
from toolkit.machine import rdma
from toolkit.machine.changes import Change, Interface, RdmaLink
from toolkit.machine.leases import Lease
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable
from toolkit.network.namespaces import set_sysctl
from toolkit.network.rdma.paths import NarrowPaths, Way
from toolkit.network.rdma.rxe import Removal, create, gid, is_receiving

if TYPE_CHECKING:
    from pyroute2 import IPRoute

GID_INDEX = 0
"""Index of a device's link-local address in its GID table."""
_NETWORK = "rdma"
_MTU = 4200
"""MTU in bytes, which fits RDMA packets with 4096 bytes of data."""
_HERE = Path("/proc/self/ns/net")
_CLOSING_S = 20.0
"""Seconds in which programs close a device whose port is down, or whose address has changed."""
_POLL_S = 0.05


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
        self._numbers = count(1)
        """Numbers of Ethernet addresses; none is used again."""
        self._removals: dict[str, Removal] = {}
        """Removals of devices by host, until the devices are created again."""
        self._paths = NarrowPaths(lease.label.table("rdma"), lease.journal)
        self._mtus: dict[Way, int] = {}

    @staticmethod
    def check(what: str, elsewhere: str) -> None:
        """Check that this machine can have one, and messengers on it.

        Args:
            what: what needs it; begins the text of the error.
            elsewhere: option or command that runs it on another kernel.

        Raises:
            Unsupported: the kernel has no RDMA, pyverbs is missing, or this user may not make devices.
        """
        require("pyroute2")
        try:
            rdma.devices()
        except LocalError as error:
            reason = str(error).partition(": ")[0]
            raise Unsupported(f"{what}: {reason}: {elsewhere} has a kernel with it") from None
        try:
            pyverbs()
        except LocalError as error:
            raise Unsupported(f"{what}: {error}") from None
        if os.geteuid() != 0:
            raise Unsupported(f"{what}: devices need root: sudo msgrlab ..., or {elsewhere}")

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
        mac = _mac(label.number, next(self._numbers))
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
        self._removals.pop(host, None)
        self._mtus = {way: mtu_bytes for way, mtu_bytes in self._mtus.items() if host not in way}
        for change in reversed(self._ports.pop(host).changes):
            change.undo()
            if change in self._lease.journal.changes():
                self._lease.journal.take_back(change)
        self._narrow()

    def cables(self) -> list[Cable]:
        """Return the cables between devices and bridge, in the order of the hosts."""
        return [port.cable for port in self._ports.values()]

    def set_port(self, host: str, *, is_up: bool) -> None:
        """Take the interface of a host's device up or down, and with it the device's port.

        Raises:
            LocalError: there is no such host.
        """
        with _route() as route:
            (index,) = route.link_lookup(ifname=self._port(host).cable.interface)
            route.link("set", index=index, state="up" if is_up else "down")

    def remove_device(self, host: str) -> bool:
        """Take the port of a host's device down, which breaks its links, and remove the device.

        Its entry in the journal stays, so that the device may come back at any time.

        Returns:
            True if it is gone. False if a program does not close it: the kernel removes it then; until that,
            programs cannot open it.

        Raises:
            LocalError: there is no such host.
        """
        if host not in self._removals:
            self.set_port(host, is_up=False)
            self._removals[host] = Removal(self._port(host).cable.interface)
        return self._removals[host].wait(_CLOSING_S)

    def restore_device(self, host: str) -> None:
        """Create the removed device of a host again, and take its port up; does nothing if it is there.

        Raises:
            LocalError: there is no such host, or a program still has the former device open.
        """
        name = self._port(host).cable.interface
        if host in self._removals:
            if not self._removals[host].wait(_CLOSING_S):
                raise LocalError(f"RDMA device {name}: a process still has the removed device open")
            rdma.add_rxe(name, name)
            del self._removals[host]
            self.set_port(host, is_up=True)

    def change_address(self, host: str) -> None:
        """Give the interface of a host another Ethernet and link-local address, and its device the new GID.

        The kernel empties the entry of the GID at once, and fills it again when no queue pair uses the former one.

        Raises:
            LocalError: there is no such host, its device is removed, or a program keeps its queue pairs.
        """
        port = self._port(host)
        name, mac = port.cable.interface, _mac(self._lease.label.number, next(self._numbers))
        gid(name, GID_INDEX)
        with _route() as route:
            (index,) = route.link_lookup(ifname=name)
            route.link("set", index=index, address=mac)
            self._ports[host] = replace(port, cable=replace(port.cable, mac=mac))
            self._narrow()
            route.flush_addr(index=index, family=socket.AF_INET6)
            route.addr("add", index=index, address=str(_link_local(mac)), prefixlen=64)
            deadline_s = time.monotonic() + _CLOSING_S
            while gid(name, GID_INDEX) != _link_local(mac).packed:
                if time.monotonic() > deadline_s:
                    raise LocalError(f"RDMA device {name}: a process keeps queue pairs with its former address")
                time.sleep(_POLL_S)
                route.link("set", index=index, address=mac)  # the kernel tries to fill the entry again

    def set_path_mtu(self, way: Way, mtu_bytes: int) -> None:
        """Drop packets from one host to another that are longer than ``mtu_bytes``; 0 ends it.

        Raises:
            LocalError: there is no such host, or the kernel rejects it.
            Unsupported: nft is not installed.
        """
        for host in way:
            self._port(host)
        self._mtus = {each: mtu for each, mtu in self._mtus.items() if each != way}
        if mtu_bytes:
            self._mtus[way] = mtu_bytes
        self._narrow()

    def _narrow(self) -> None:
        macs = {host: port.cable.mac for host, port in self._ports.items()}
        self._paths.set({(macs[one], macs[other]): mtu for (one, other), mtu in self._mtus.items()})

    def _port(self, host: str) -> _Port:
        if host not in self._ports:
            raise LocalError(f"no node {host!r}; there are {', '.join(self._ports)}")
        return self._ports[host]

    def close(self) -> None:
        """Remove all devices and the bridge; the programs that used the devices have ended."""
        self._paths.close()
        self._mtus.clear()
        for host in list(self._ports):
            self.unplug(host)
        if self._opened is not None:
            self._opened.undo()
            self._opened = None


def _mac(cluster: int, number: int) -> str:
    """Return a locally administered Ethernet address, which determines the link-local address."""
    return bytes((2, 0x52, cluster >> 8, cluster & 0xFF, number >> 8, number & 0xFF)).hex(":")


def _link_local(mac: str) -> IPv6Address:
    """Return the link-local address that belongs to an Ethernet address (EUI-64)."""
    parts = bytes.fromhex(mac.replace(":", ""))
    return IPv6Address(b"\xfe\x80" + bytes(6) + bytes((parts[0] ^ 2, *parts[1:3], 0xFF, 0xFE, *parts[3:])))


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
