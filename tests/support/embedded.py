"""Embedded clusters that stand in for real ones."""

from pathlib import Path
from types import SimpleNamespace

from messenger.denc.address import AddrVec
from messenger.link import Protocol
from toolkit.cluster import Cluster
from toolkit.cluster.daemons import run_tool
from toolkit.embedded.osd.store import Store
from toolkit.embedded.usage import Usage


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


def held(store: Store) -> dict[int, tuple[int, int, int]]:
    """Return the number of objects with clones, their size in bytes, and the number of clones, by pool id."""
    sums: dict[int, Usage] = {}
    for pgid, state in store.states().items():
        sums[pgid.pool] = sums.get(pgid.pool, Usage()) + state.use
    return {pool: (use.objects, use.size_bytes, use.clones) for pool, use in sums.items()}
