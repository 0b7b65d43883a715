"""Daemons of Ceph, real or embedded, as nodes of a cluster, and clients of ours beside them."""

from typing import TYPE_CHECKING

from toolkit.cluster.ceph.client import RadosNode
from toolkit.cluster.ceph.embedded import EmbeddedNodes
from toolkit.cluster.ceph.nodes import CephNodes
from toolkit.cluster.keeping import CEPH_KEYRING
from toolkit.cluster.nodes import RunningNode
from toolkit.machine.private import write_private

if TYPE_CHECKING:
    from toolkit.cluster.running import Cluster
    from toolkit.dissect.keys import KeyBook

__all__ = ["CephNodes", "EmbeddedNodes", "RadosNode", "make_nodes"]


def make_nodes(cluster: "Cluster", keys: "KeyBook") -> dict[str, RunningNode]:
    """The daemons of a cluster and our clients of them, to be started all at once.

    Args:
        cluster: that has hosts for them.
        keys: learns the keys of all of them, which are written to the file ``ceph.keyring`` as well.

    Raises:
        LocalError: programs are not installed.
        Unsupported: an image takes root.
    """
    backend = cluster.backend
    ceph: CephNodes | EmbeddedNodes
    if cluster.spec.ceph.release == "embedded":
        ceph = EmbeddedNodes(cluster)
    else:
        ceph = CephNodes(cluster.spec, backend.hosts, backend.say, backend.announce)
    keys.add_keyring(ceph.layout.keyring)
    write_private(cluster.directory / CEPH_KEYRING, ceph.layout.keyring.format().encode())
    clients = {
        name: RadosNode(backend.hosts[name], spec, cluster.take, cluster.now, ceph, cluster.route)
        for name, spec in ceph.client_specs(cluster.began_s).items()
    }
    return {**ceph.nodes, **clients}
