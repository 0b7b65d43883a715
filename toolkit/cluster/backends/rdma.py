"""The ``process`` backend with ``transport: rdma``: a soft-RoCE device for each node, on a bridge of this machine.

Nodes exchange the addresses of their queue pairs over TCP on loopback, through proxies as with any process
backend. Messages then go from device to device, where the kernel's netem impairs them.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from messenger.compat import override
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.process import ProcessBackend
from toolkit.cluster.backends.rdma_network import RdmaNetwork
from toolkit.cluster.chroot import check_drivers
from toolkit.machine.changes import Processes
from toolkit.machine.leases import Lease
from toolkit.network.rdma.fabric import GID_INDEX, Fabric


class RdmaBackend(ProcessBackend):
    """Processes of this machine that communicate by RDMA."""

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        super().__init__(lease, report)
        self._fabric = Fabric(lease)
        self._network = self._rdma_network = RdmaNetwork(self.proxies, self._fabric)

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        check_drivers(hosts)
        super().check(networks, hosts)
        Fabric.check("transport rdma", "--backend vm")

    @override
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        self._fabric.open()
        super().open(networks, hosts)

    @override
    def add(self, *wishes: HostWish) -> None:
        names = {wish.name: self._fabric.plug(wish.name) for wish in wishes}
        # Entries are undone in reverse: processes before devices, which the kernel keeps while they are open.
        self.lease.journal.note(Processes(str(self.lease.label)))
        super().add(*wishes)
        for host, device in names.items():
            self.hosts[host].interface = device  # its own one has the same name
            self.hosts[host].options.update(
                ms_type="async+rdma", ms_async_rdma_device_name=device, ms_async_rdma_gid_idx=GID_INDEX
            )
        self._rdma_network.renew()

    @override
    def remove(self, name: str) -> None:
        super().remove(name)
        self._fabric.unplug(name)
        self._rdma_network.renew()

    @override
    def close(self) -> None:
        with ExitStack() as undo:
            undo.callback(self._fabric.close)
            undo.callback(self._rdma_network.close)
            undo.callback(super().close)
