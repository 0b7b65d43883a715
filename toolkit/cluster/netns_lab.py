"""The ``netns`` backend of scenarios: every node in a network namespace of its own."""

import uuid
from contextlib import ExitStack

from toolkit.cluster.backends.base import HostWish
from toolkit.cluster.backends.netns import NetnsBackend
from toolkit.cluster.hosts_lab import NETWORKS, HostsLab
from toolkit.machine.leases import Lease
from toolkit.network.faults import NetworkFaults


class NetnsLab(HostsLab):
    """Nodes in network namespaces.

    See :class:`HostsLab` for its arguments.

    Raises:
        Unsupported: namespaces cannot be had here.
    """

    backend = "netns"

    def _open(self, undo: ExitStack) -> NetworkFaults:
        NetnsBackend.check(NETWORKS, ())
        lease = Lease.take(f"lab-{uuid.uuid4().hex[:12]}")
        undo.callback(lease.journal.undo)
        undo.enter_context(lease.held())
        self._backend = NetnsBackend(lease, lambda _doing: None)
        undo.callback(self._backend.close)
        self._backend.open(NETWORKS, ())
        self._hosts = self._backend.hosts
        return self._backend.network

    def _add_host(self, name: str) -> None:
        self._backend.add(HostWish(name, tuple(network.name for network in NETWORKS)))
