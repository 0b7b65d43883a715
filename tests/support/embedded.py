"""Embedded clusters that stand in for real ones."""

from pathlib import Path
from types import SimpleNamespace

from messenger.denc.address import AddrVec
from messenger.link import Protocol
from toolkit.cluster import Cluster
from toolkit.cluster.daemons import run_tool


class StandIn:
    """An embedded cluster with the attributes of :class:`toolkit.cluster.real.RealCluster` that clients need."""

    def __init__(self, cluster: Cluster) -> None:
        conf = cluster.ceph_conf
        assert conf is not None
        self.cluster = cluster
        self.conf = conf
        self.keyring = conf.parent / "keyring"
        addrs = AddrVec.parse(cluster.nodes["mon"].address)
        by_protocol = {Protocol.of(addr): str(addr) for addr in addrs}
        self.monitor = SimpleNamespace(
            addr_v1=by_protocol.get(Protocol.V1, ""),
            addr_v2=by_protocol.get(Protocol.V2, ""),
            auth=cluster.spec.speaks.auth,
            mode=cluster.spec.speaks.mode,
            fsid=next(line.split(" = ")[1] for line in conf.read_text().splitlines() if line.startswith("fsid")),
            directory=Path(conf.parent),
        )

    def ceph(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's own ``ceph`` and return its output; raises LocalError if it fails."""
        return run_tool("ceph", "-c", str(self.conf), *arguments, stdin=stdin)

    def rados(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's own ``rados`` and return its output; raises LocalError if it fails."""
        return run_tool("rados", "-c", str(self.conf), *arguments, stdin=stdin)
