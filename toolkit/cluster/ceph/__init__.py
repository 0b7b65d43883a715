"""Real daemons of Ceph as nodes of a cluster, and clients of ours beside them."""

from typing import TYPE_CHECKING

from toolkit.cluster.ceph.client import RadosNode
from toolkit.cluster.ceph.nodes import CephNodes
from toolkit.cluster.nodes import RunningNode

if TYPE_CHECKING:
    from toolkit.cluster.running import Cluster

__all__ = ["CephNodes", "RadosNode", "make_nodes"]


def make_nodes(cluster: "Cluster") -> dict[str, RunningNode]:
    """The daemons of a cluster and our clients of them, to be started all at once.

    Raises:
        LocalError: programs are not installed.
        Unsupported: an image takes root.
    """
    ceph = CephNodes(cluster.spec, cluster.backend.hosts, cluster.backend.say)
    clients = {
        name: RadosNode(cluster.backend.hosts[name], spec, cluster.take, cluster.now, ceph, cluster.route)
        for name, spec in ceph.client_specs(cluster.began_s).items()
    }
    return {**ceph.nodes, **clients}
