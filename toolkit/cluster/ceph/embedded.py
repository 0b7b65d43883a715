"""Embedded daemons as nodes of a cluster: msgrlab's own monitor and OSDs, which real clients can use."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from messenger.compat import override
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.admission import Admission
from toolkit.cluster.ceph.layout import ADMIN, Member
from toolkit.cluster.ceph.programs import furnish
from toolkit.cluster.nodes import START_TIMEOUT_S, ProgramNode, Take
from toolkit.embedded.lifetimes import LIFETIMES
from toolkit.embedded.node.app import EmbeddedApp
from toolkit.embedded.node.spec import EmbeddedSpec

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster

_POLL_S = 0.005
_OSD_PORTS = {Protocol.V2: 6800, Protocol.V1: 6801}
_FIRST_NONCE = 1001
_LIFE = 1000
"""The nonce of an OSD grows by this much with each restart."""


class EmbeddedNode(ProgramNode):
    """An embedded monitor or OSD. All its state is in memory.

    Args:
        host: host that the daemon runs on.
        spec: options of the daemon.
        take: called with its history records and those about its process, from any thread.
        now: returns the seconds since the cluster began.
        prepare: called before the first start.
    """

    app = EmbeddedApp

    def __init__(
        self,
        host: Host,
        spec: EmbeddedSpec,
        take: Take,
        now: Callable[[], float],
        prepare: Callable[[], None],
    ) -> None:
        super().__init__(host, spec, take, now)
        self.spec = spec
        self.kind = spec.embedded
        self._prepare = prepare

    @property
    @override
    def address(self) -> str:
        return self.spec.addr

    @override
    def start(self) -> None:
        """Start the daemon.

        Raises:
            LocalError: it cannot be started, or is a monitor that has ended: without its maps and keys it would
                belong to another cluster.
        """
        if self.state == "new":
            self._prepare()
        elif self.kind == "mon":
            raise LocalError(
                f"{self.name}: an embedded monitor keeps its maps in memory; bring the cluster up again"
            )
        else:
            addrs = (addr.with_nonce(addr.nonce + _LIFE) for addr in self.spec.addrs)
            self.spec.addr = str(AddrVec(tuple(addrs)))
        super().start()

    @override
    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart an OSD, which loses its objects; raises LocalError for a monitor."""
        if self.kind == "mon":
            raise LocalError(f"{self.name}: an embedded monitor keeps its maps in memory; it cannot be restarted")
        super().restart(new_nonce=new_nonce, wiped=wiped)


class EmbeddedNodes(Admission):
    """The embedded daemons of a cluster, on hosts of any backend.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: "Cluster") -> None:
        backend = cluster.backend
        super().__init__(cluster.spec, backend.hosts, backend.announce)
        addrs = {member.node: self._addrs(member) for member in self.layout.members.values()}
        names = {addr: node for node, addr in addrs.items()}
        self.nodes = {
            node: EmbeddedNode(
                member.host,
                self._daemon_spec(member, addrs[node], names, cluster.began_s),
                cluster.take,
                cluster.now,
                lambda member=member: self._furnish(member),  # type: ignore[misc]
            )
            for node, member in self.layout.members.items()
        }
        """Nodes by name, in the spec's order; start all of them at once, each in its own thread."""

    @override
    def settle(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        for node in self.nodes.values():
            while not node.ready():
                if node.state in {"dead", "down"} or time.monotonic() > deadline_s:
                    raise LocalError(f"node {node.name} did not come up: {node.last_words() or 'no output'}")
                time.sleep(_POLL_S)

    @override
    def listeners(self) -> dict[str, list[tuple[str, int]]]:
        return {
            name: [(addr.host, addr.port) for addr in AddrVec.parse(node.address)]
            for name, node in self.nodes.items()
        }

    # ---- inside

    def _addrs(self, member: Member) -> str:
        if member.kind == "mon":
            return self.layout.mon_addrs[member.id]
        nonce = _FIRST_NONCE + int(member.id)
        protocols = [each for each in _OSD_PORTS if each.value in self.layout.spec.speaks.protocols]
        addrs = (
            EntityAddr.from_host(member.addresses[0], member.host.port(_OSD_PORTS[each]), each.addr_type)
            for each in protocols
        )
        return str(AddrVec(tuple(addr.with_nonce(nonce) for addr in addrs)))

    def _daemon_spec(self, member: Member, addr: str, names: dict[str, str], start_s: float) -> EmbeddedSpec:
        layout, spec = self.layout, self.layout.spec
        is_mon = member.kind == "mon"
        keyring = layout.keyring if is_mon else layout.keys_of(AuthName.parse(member.name))
        daemon = EmbeddedSpec(
            name=member.node,
            embedded=member.kind,
            id=member.id,
            addr=addr,
            fsid=layout.fsid,
            monitors=dict(layout.mon_addrs),
            keyring=keyring.format(),
            auth=spec.speaks.auth,
            cipher=spec.speaks.cipher,
            mode=spec.speaks.mode,
            osds={osd.id: osd.node for osd in layout.of("osd")} if is_mon else {},
            pools=layout.pools if is_mon else {},
            names=names,
            options={**member.host.options, **spec.daemons()[member.node].options},
            seed=spec.seed,
            start_s=start_s,
        )
        for option in LIFETIMES.keys() & spec.ceph.options:  # from where real daemons would read them
            setattr(daemon, LIFETIMES[option], float(spec.ceph.options[option]))
        return daemon

    def _furnish(self, member: Member) -> None:
        """Write configuration and keyring for Ceph's own clients to the daemon's host."""
        host = member.host
        furnish(host, self.layout.spec.ceph.release, self.announce)
        host.write("ceph.conf", self.layout.client_conf(host).encode())
        host.write("keyring", self.layout.keys_of(ADMIN).format().encode())
