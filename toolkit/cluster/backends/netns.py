"""The ``netns`` backend: every host is a network namespace of this machine, on a switch in another one."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.backends.local_host import LocalHost
from toolkit.cluster.backends.subnets import assign
from toolkit.cluster.chroot import check_images
from toolkit.machine.changes import Namespace
from toolkit.machine.leases import Lease
from toolkit.network import namespaces
from toolkit.network.links import Cable
from toolkit.network.namespace_faults import NamespaceNetwork
from toolkit.network.namespaces import inside
from toolkit.network.places import Guest
from toolkit.network.switch import Plug, add_neighbours, mac_of, unwire, wire

SWITCH = "net-switch"
"""Name of the switch's namespace, which no node can have."""


class NetnsBackend(Backend):
    """Programs of this machine, each in the namespace of its host.

    The machine's own interfaces, routes and addresses are not touched, and subnets may be the same as in other
    clusters.
    """

    name: ClassVar[str] = "netns"
    removes_hosts: ClassVar[bool] = True

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        super().__init__(lease, report)
        self.hosts: dict[str, LocalHost] = {}  # type: ignore[assignment]
        self._networks: Sequence[NetworkWish] = ()
        self._wishes: list[HostWish] = []
        self._plugs: list[Plug] = []
        self._namespaces: list[Namespace] = []
        self._network: NamespaceNetwork | None = None

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        check_images(hosts)
        assign(networks, hosts)
        namespaces.check()

    @override
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        self._networks = networks
        switch = self._new_namespace(SWITCH)
        self._network = NamespaceNetwork(self.lease, self.hosts, switch)
        self.report(f"namespaces for {', '.join(wish.name for wish in hosts)}")
        self.add(*hosts)

    @override
    def add(self, *wishes: HostWish) -> None:
        self._wishes += wishes
        addressing = assign(self._networks, [*self._wishes, *self._guests()])
        # Fix the addresses: hosts that are added later must not change them.
        self._wishes = [replace(wish, addresses=addressing.of(wish.name)) for wish in self._wishes]
        mtus = {network.name: network.mtu for network in self._networks}
        plugs = []
        for wish in wishes:
            namespace = self._new_namespace(wish.name)
            self.hosts[wish.name] = LocalHost(
                wish.name, self.lease, addressing.of(wish.name), namespace, self.zygote
            )
            for number, (network, address) in enumerate(addressing.addresses[wish.name].items()):
                own = ip_interface(f"{address}/{addressing.subnets[network].prefixlen}")
                plugs.append(Plug(wish.name, namespace, network, f"eth{number}", own, mtus[network]))
        switch = namespaces.DIRECTORY / self.lease.label.namespace(SWITCH)
        wire(switch, plugs, self._plugs)
        for guest in self.network.guests.values():
            self._introduce(guest, plugs)
        self._plugs += plugs
        self.network.plug([plug.cable(switch) for plug in plugs])

    @override
    def remove(self, name: str) -> None:
        self.proxies.drop(name)
        self.network.unplug(name)
        own = [plug for plug in self._plugs if plug.host == name]
        self._plugs = [plug for plug in self._plugs if plug.host != name]
        self._wishes = [wish for wish in self._wishes if wish.name != name]
        host = self.hosts.pop(name, None)
        if host is None:
            return  # there was no room for it
        host.close()
        # Remove the interfaces now: the kernel destroys the namespace later, but their names must be free.
        unwire(namespaces.DIRECTORY / self.lease.label.namespace(SWITCH), own)
        change = Namespace(self.lease.label.namespace(name))
        change.undo()
        self._namespaces.remove(change)
        self.lease.journal.take_back(change)

    def _guests(self) -> list[HostWish]:
        """Return the addresses of guests as wishes, so that no host gets one of them."""
        return [
            HostWish(guest.name, (guest.network,), addresses=guest.addresses)
            for guest in self.network.guests.values()
        ]

    @override
    def plug_guest(self, guest: Guest) -> None:
        mtu = next((network.mtu for network in self._networks if network.name == guest.network), None)
        if mtu is None:
            raise LocalError(f"{guest.name}: no network {guest.network!r}")
        switch = namespaces.DIRECTORY / self.lease.label.namespace(SWITCH)
        mac = mac_of(ip_address(guest.address))
        self._introduce(guest, self._plugs)
        self.network.plug_guest(guest, Cable(guest.name, guest.network, None, "", mac, mtu, guest.name, switch))

    @override
    def unplug_guest(self, name: str) -> None:
        self.network.unplug(name)

    @staticmethod
    def _introduce(guest: Guest, plugs: Sequence[Plug]) -> None:
        """Add the guest's Ethernet address to the neighbours of hosts, as those of other hosts.

        The entries stay when the guest leaves: the next owner of its IP address has the same Ethernet address.
        """
        address = ip_address(guest.address)
        for plug in plugs:
            if plug.network == guest.network:
                inside(plug.namespace, lambda plug=plug: add_neighbours([(plug.interface, address)]))  # type: ignore[misc]

    def _new_namespace(self, name: str) -> Path:
        change = Namespace(self.lease.label.namespace(name))
        self.lease.journal.note(change)
        try:
            path = namespaces.create(change.name)
        except namespaces.AlreadyThereError:
            self.lease.journal.take_back(change)
            raise
        self._namespaces.append(change)
        return path

    @property
    @override
    def network(self) -> NamespaceNetwork:
        assert self._network is not None, "open() comes first"
        return self._network

    @override
    def close(self) -> None:
        with ExitStack() as undo:
            for change in self._namespaces:
                undo.callback(change.undo)
            if self._network is not None:
                undo.callback(self._network.close)
            for host in self.hosts.values():
                undo.callback(host.close)
            undo.callback(super().close)
        self._namespaces.clear()
        self.hosts.clear()
