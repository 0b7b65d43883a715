"""Hosts in a micro-VM: for faults that need another kernel, such as those of netem and of RDMA devices."""

import pickle
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import count
from typing import Any, ClassVar

from messenger.compat import override
from messenger.transport.rdma.verbs import pyverbs
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.backends.vm.guest import Guest
from toolkit.cluster.backends.vm.host import GuestHost
from toolkit.cluster.backends.vm.network import GuestNetwork
from toolkit.cluster.backends.vm.proxies import GuestProxy
from toolkit.cluster.chroot import check_drivers, check_names, images_root, releases
from toolkit.cluster.images import find_or_build
from toolkit.machine import vm
from toolkit.machine.leases import Lease

_GUEST = "the virtual machine"


class VmBackend(Backend):
    """Programs in network namespaces of a micro-VM, where the kernel's netem impairs links."""

    name: ClassVar[str] = "vm"
    removes_hosts: ClassVar[bool] = True
    transport: ClassVar[str] = "tcp"

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        super().__init__(lease, report)
        self.hosts: dict[str, GuestHost] = {}  # type: ignore[assignment]
        self._guest: Guest | None = None
        self._network: GuestNetwork | None = None
        self._proxies: dict[tuple[str, str], dict[int, GuestProxy]] = {}
        """Proxies by connector and acceptor, then by the dialled port; 0 for all ports."""
        self._numbers = count()
        self._sent_keys = ""

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        check_names(hosts)
        cls._kernel()

    @classmethod
    def _kernel(cls) -> vm.Kernel:
        return vm.complete(needs_rdma=cls.transport == "rdma")

    @override
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        self._find_images(hosts)
        self._guest = Guest(self.lease, self.transport, _memory_mib(hosts), self._kernel())
        self.report("a virtual machine boots; without KVM its nodes run after half a minute")
        self._guest.boot()
        about = self._guest.call(
            "open", networks=[asdict(each) for each in networks], hosts=[asdict(each) for each in hosts]
        )
        self._network = GuestNetwork(self._guest, about)
        self._know(about["hosts"])

    def _find_images(self, hosts: Sequence[HostWish]) -> None:
        """Build missing images before the boot: the guest sees this machine's files as they are then."""
        for release in releases(hosts):
            find_or_build(release, images_root(), self.announce)

    @override
    def add(self, *wishes: HostWish) -> None:
        assert self._guest is not None, "open() comes first"
        self._know(self._guest.call("add", hosts=[asdict(each) for each in wishes]))

    def _know(self, hosts: dict[str, Any]) -> None:
        assert self._guest is not None
        for name, about in hosts.items():
            self.hosts[name] = GuestHost(name, self._guest, about, self.lease)

    @override
    def remove(self, name: str) -> None:
        assert self._guest is not None
        self._guest.call("remove", name=name)
        del self.hosts[name]
        self._proxies = {way: proxies for way, proxies in self._proxies.items() if name not in way}

    @property
    @override
    def network(self) -> GuestNetwork:
        assert self._network is not None, "open() comes first"
        return self._network

    @override
    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        if not self.always_proxied:
            return address
        assert self._guest is not None
        host, port = self._guest.call("route", dialler=dialler, dialled=dialled, address=address)
        return host, port

    @override
    def proxy(self, dialler: str, dialled: str, address: tuple[str, int]) -> GuestProxy:
        known = self._proxies.get((dialler, dialled), {}).get(address[1])
        return known or self._open(dialler, dialled, address)

    @override
    def redirected(self, dialler: str, dialled: str) -> GuestProxy:
        return self._open(dialler, dialled, None)

    def _open(self, dialler: str, dialled: str, address: tuple[str, int] | None) -> GuestProxy:
        """Open a proxy to an address, or to all ports of a host."""
        assert self._guest is not None
        keys = b64encode(pickle.dumps(self.keys)).decode()
        if keys != self._sent_keys:
            self._guest.call("proxies.keys", book=keys)
            self._sent_keys = keys
        number = next(self._numbers)
        opened = self._guest.call("proxies.open", number=number, dialler=dialler, dialled=dialled, address=address)
        proxy = GuestProxy(self._guest, number, *opened)
        self._proxies.setdefault((dialler, dialled), {})[address[1] if address else 0] = proxy
        return proxy

    @override
    def end_proxy(self, dialler: str, dialled: str) -> None:
        assert self._guest is not None
        if self._proxies.pop((dialler, dialled), None):
            self._guest.call("proxies.end", dialler=dialler, dialled=dialled)

    @override
    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> list[GuestProxy]:
        proxies = self._proxies.get((dialler, dialled), {})
        return [proxy for dialled_port, proxy in proxies.items() if port in {0, dialled_port}]

    @override
    def lost(self) -> dict[str, list[str]]:
        return {} if self._guest is None or self._guest.is_running else {_GUEST: [*self.hosts]}

    @override
    def close(self) -> None:
        with ExitStack() as undo:
            undo.callback(super().close)
            if self._guest is not None:
                undo.callback(self._guest.close)


def _memory_mib(hosts: Sequence[HostWish]) -> int:
    """Return the memory of the guest, in MiB."""
    return max(vm.MEMORY_MIB, vm.MEMORY_MIB // 2 + sum(host.memory_mib for host in hosts))


class RdmaVmBackend(VmBackend):
    """Programs in a micro-VM that communicate by RDMA, over soft-RoCE devices of its kernel."""

    always_proxied: ClassVar[bool] = True
    transport: ClassVar[str] = "rdma"

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        check_drivers(hosts)
        super().check(networks, hosts)
        pyverbs()
