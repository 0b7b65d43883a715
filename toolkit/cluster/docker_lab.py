"""The ``docker`` backend of scenarios: every node a program in a container of its own.

Faults of the network are done by this machine in the containers' namespaces, and so are the sockets of proxies and
of raw peers opened there: that takes an engine of this machine, and root. Containers start slowly, so many runs
share them (:func:`toolkit.cluster.containers.kept`); nothing of a lab is left in them but closed connections.
"""

from contextlib import ExitStack

from toolkit.cluster.backends.docker.host import ContainerHost
from toolkit.cluster.containers import borrowed
from toolkit.cluster.hosts_lab import NETWORKS, HostsLab
from toolkit.network.faults import NetworkFaults
from toolkit.network.namespace_faults import NamespaceNetwork
from toolkit.scenarios.ways import Way


class DockerLab(HostsLab):
    """Nodes in containers.

    Args:
        way: what the nodes speak, or its name.
        seed: decides everything random that is ours, but for keys.

    Raises:
        Unsupported: containers cannot be had here.
    """

    backend = "docker"

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1) -> None:
        super().__init__(way, seed)

    def _open(self, undo: ExitStack) -> NetworkFaults:
        self._containers, self._first_port = undo.enter_context(borrowed(NETWORKS))
        hosts: dict[str, ContainerHost] = {}
        network = NamespaceNetwork(self._containers.backend.lease, hosts)
        undo.callback(network.close)
        undo.callback(network.heal)
        self._hosts = self._by_node = hosts
        return network

    def _add_host(self, name: str) -> None:
        self._by_node[name] = self._containers.host(len(self._by_node), name)
