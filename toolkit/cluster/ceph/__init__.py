"""Ceph daemons, real or embedded, and RADOS clients as nodes of a cluster."""

from typing import TYPE_CHECKING

from toolkit.cluster.ceph.client import RadosNode
from toolkit.cluster.ceph.embedded import EmbeddedNodes
from toolkit.cluster.ceph.nodes import CephNodes
from toolkit.cluster.nodes import RunningNode
from toolkit.cluster.retention import CEPH_KEYRING
from toolkit.machine.private import write_private

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster
    from toolkit.dissect.keys import KeyBook

__all__ = ["CephNodes", "EmbeddedNodes", "RadosNode", "make_nodes"]


def make_nodes(cluster: "Cluster", keys: "KeyBook") -> dict[str, RunningNode]:
    """Return the nodes for a cluster's daemons and RADOS clients; start all of them at once.

    Args:
        cluster: cluster whose backend has their hosts.
        keys: key book that learns all their keys, which are also written to the file ``ceph.keyring``.

    Raises:
        LocalError: programs are not installed.
        Unsupported: an image needs root.
    """
    backend = cluster.backend
    ceph: CephNodes | EmbeddedNodes
    if cluster.spec.ceph.release == "embedded":
        ceph = EmbeddedNodes(cluster)
    else:
        ceph = CephNodes(cluster.spec, backend.hosts, backend.report, backend.announce)
    keys.add_keyring(ceph.layout.keyring)
    write_private(cluster.directory / CEPH_KEYRING, ceph.layout.keyring.format().encode())
    clients = {
        name: RadosNode(backend.hosts[name], spec, cluster.take, cluster.now, ceph, cluster.route)
        for name, spec in ceph.client_specs(cluster.began_s).items()
    }
    return {**ceph.nodes, **clients}
