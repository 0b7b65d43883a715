"""The ``process`` backend: programs on this machine's loopback, each with its own directory and ports."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from messenger.compat import override
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.backends.local_host import LocalHost
from toolkit.cluster.backends.process_network import ProxiedNetwork
from toolkit.cluster.chroot import check_images
from toolkit.errors import Unsupported
from toolkit.machine.descriptors import check_room
from toolkit.machine.leases import Lease
from toolkit.machine.ports import Ports

if TYPE_CHECKING:
    from toolkit.cluster.forks import Forks

_WITHOUT_PROXIES = "--backend netns"
_IPV4, _IPV6 = "127.0.0.1", "::1"
LOOPBACK = "lo"
"""Interface of the packets of all nodes."""


class ProcessHost(LocalHost):
    """This machine's loopback, with ports for one node.

    Args:
        wish: requirements for the host.
        lease: lease of the cluster.
        addresses: addresses by network.
        ports: ports of all hosts.
        zygote: process that forks messengers quickly, if there is one.
    """

    interface = LOOPBACK

    def __init__(
        self, wish: HostWish, lease: Lease, addresses: Mapping[str, str], ports: Ports, zygote: "Forks | None"
    ) -> None:
        super().__init__(wish.name, lease, addresses, zygote=zygote)
        self._ports = ports
        self._own_ports: list[int] = []

    @override
    def port(self, wanted: int, address: str = "") -> int:
        """Reserve a free port; a program can still bind it with SO_REUSEADDR."""
        self._own_ports.append(self._ports.reserve(address or _IPV4))
        return self._own_ports[-1]

    @override
    def close(self) -> None:
        super().close()
        for port in self._own_ports:
            self._ports.release(port)
        self._own_ports.clear()


def _files_of(nodes: int) -> int:
    """Return the open files of a full mesh: two streams per pair, and pipes and ports of nodes."""
    return nodes * (nodes - 1) + 10 * nodes + 100


class ProcessBackend(Backend):
    """Processes of this machine on loopback; proxies between all pairs of nodes act as the network."""

    name = "process"
    always_proxied = True
    removes_hosts = True
    ipv6_subnet = "::1/128"

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        super().__init__(lease, report)
        self.proxies.shares_ports = True
        self._network = ProxiedNetwork(self.proxies)
        self._addresses: dict[str, str] = {}
        """Loopback address by network."""
        self._ports = Ports()

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        for network in networks:
            if network.subnet not in {"", cls.ipv6_subnet}:
                raise Unsupported(
                    f"network {network.name}: no subnet {network.subnet} on loopback: give --backend netns"
                )
        check_room(_files_of(len(hosts)), f"a cluster of {len(hosts)} nodes on process", _WITHOUT_PROXIES)
        check_images(hosts)
        if not sys.platform.startswith("linux"):
            raise Unsupported("clusters need Linux")

    @override
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        self._addresses = {each.name: _IPV6 if each.subnet else _IPV4 for each in networks}
        self.add(*hosts)

    @override
    def add(self, *wishes: HostWish) -> None:
        """Make more hosts. Their directories and processes are journalled with the cluster."""
        files = _files_of(len(self.hosts) + len(wishes))
        check_room(files, "a cluster of so many nodes on process", _WITHOUT_PROXIES)
        for wish in wishes:
            addresses = {name: self._addresses[name] for name in wish.networks}
            self.hosts[wish.name] = ProcessHost(wish, self.lease, addresses, self._ports, self.zygote)
        self._network.hosts = tuple(self.hosts)

    @override
    def remove(self, name: str) -> None:
        self.proxies.drop(name)
        host = self.hosts.pop(name)
        assert isinstance(host, ProcessHost)
        host.close()
        self._network.hosts = tuple(self.hosts)

    @property
    @override
    def network(self) -> ProxiedNetwork:
        return self._network

    @override
    def close(self) -> None:
        super().close()
        for host in self.hosts.values():
            assert isinstance(host, ProcessHost)
            host.close()
        self._ports.close()
