"""One of our clients of a real cluster as a node."""

from collections.abc import Callable

from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.nodes import CephNodes
from toolkit.cluster.nodes import ProgramNode, Take
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.spec import RadosSpec

Route = Callable[[str, str, tuple[str, int]], tuple[str, int]]
"""Takes who dials, who is dialled, and host and port; gives host and port to dial instead."""


class RadosNode(ProgramNode):
    """A client that keeps a session with a monitor, and reads and writes objects as it is told.

    Args:
        host: where it runs.
        spec: what it is to be.
        take: takes its records, and those about it, in any thread.
        now: seconds since the cluster began.
        ceph: the daemons; it starts when they serve.
        route: where a node dials to reach an address of another.
    """

    kind = "client"
    verbs = RadosApp.VERBS

    def __init__(
        self,
        host: Host,
        spec: RadosSpec,
        take: Take,
        now: Callable[[], float],
        ceph: CephNodes,
        route: Route = lambda _dialler, _dialled, address: address,
    ) -> None:
        super().__init__(host, spec, take, now)
        self.spec = spec
        self._route = route
        self.ceph = ceph
        """The daemons it is a client of."""

    @property
    def address(self) -> str:
        """See :class:`RunningNode`; a client has none."""
        return ""

    def start(self) -> None:
        """See :class:`RunningNode`; for the first time when the cluster is healthy."""
        if self.state == "new":
            self.ceph.admit(self.name)
            self.ceph.settle()
        for node, addresses in self.ceph.listeners().items():
            for address in addresses:
                host, port = self._route(self.name, node, address)
                if (host, port) != address:
                    self.spec.routes[f"{address[0]}:{address[1]}"] = f"{host}:{port}"
        super().start()
