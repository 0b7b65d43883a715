"""Hosts that are this machine: programs on loopback, each with a directory and ports of its own."""

import socket
import sys
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.backends.local_host import LocalHost
from toolkit.cluster.backends.process_network import ProxiedNetwork
from toolkit.cluster.chroot import check_images
from toolkit.errors import Unsupported
from toolkit.faults.proxy import FaultProxy
from toolkit.machine.leases import Lease
from toolkit.ports import reserved_socket

if TYPE_CHECKING:
    from toolkit.cluster.zygote import Zygote

_HOST = "127.0.0.1"


class ProcessHost(LocalHost):
    """This machine's loopback, with ports for one node.

    Args:
        wish: what it is to be.
        lease: of the cluster.
        zygote: starts messengers of ours quickly, if there is one.
    """

    def __init__(self, wish: HostWish, lease: Lease, zygote: "Zygote | None") -> None:
        super().__init__(wish.name, lease, MappingProxyType(dict.fromkeys(wish.networks, _HOST)), zygote=zygote)
        self._reserved: list[socket.socket] = []

    def port(self, wanted: int) -> int:  # noqa: ARG002 - all hosts share one address
        """See :class:`Host`; any free one, kept for whoever binds it with SO_REUSEADDR."""
        self._reserved.append(reserved_socket(_HOST))
        found: int = self._reserved[-1].getsockname()[1]
        return found

    def close(self) -> None:
        """End what was started here and still runs, and give back its ports."""
        super().close()
        for reserved in self._reserved:
            reserved.close()


class ProcessBackend(Backend):
    """Processes of this machine on loopback; their network is a proxy on each way between two nodes."""

    name = "process"

    def __init__(self, lease: Lease, say: Callable[[str], None]) -> None:
        super().__init__(lease, say)
        self._network = ProxiedNetwork()

    @classmethod
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """See :class:`Backend`."""
        for network in networks:
            if network.subnet:
                raise Unsupported(
                    f"network {network.name}: no subnet {network.subnet} on loopback: give --backend netns"
                )
        check_images(hosts)
        if not sys.platform.startswith("linux"):
            raise Unsupported("clusters take Linux")

    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:  # noqa: ARG002 - one is all
        """See :class:`Backend`; directories and processes are in the journal from its beginning."""
        for wish in hosts:
            self.hosts[wish.name] = ProcessHost(wish, self.lease, self.zygote)
        self._network.hosts = tuple(self.hosts)

    @property
    def network(self) -> ProxiedNetwork:
        """See :class:`Backend`."""
        return self._network

    def proxy(self, dialler: str, dialled: str, address: tuple[str, int]) -> FaultProxy:
        """See :class:`Backend`: its network consists of them."""
        return self._network.proxy(dialler, dialled, address, self.keys)

    def close(self) -> None:
        """See :class:`Backend`."""
        self._network.close()
        for host in self.hosts.values():
            assert isinstance(host, ProcessHost)
            host.close()
