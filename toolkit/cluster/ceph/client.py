"""One of our clients of a real cluster as a node."""

from collections.abc import Callable

from messenger.compat import override
from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.admission import Admission
from toolkit.cluster.nodes import ProgramNode, Take
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.spec import RadosSpec

Route = Callable[[str, str, tuple[str, int]], tuple[str, int]]
"""Takes the connector's name, the acceptor's name, and host and port; returns host and port to dial instead."""


class RadosNode(ProgramNode):
    """A client that keeps a session with a monitor, and reads and writes objects on command.

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
        ceph: Admission,
        route: Route = lambda _dialler, _dialled, address: address,
    ) -> None:
        super().__init__(host, spec, take, now)
        self.spec = spec
        self._route = route
        self.ceph = ceph
        """The daemons it is a client of."""

    @property
    @override
    def address(self) -> str:
        """None: a client does not listen."""
        return ""

    @override
    def start(self) -> None:
        """Start the client; the first start waits until the cluster is healthy."""
        if self.state == "new":
            self.ceph.admit(self.name)
            self.ceph.settle()
        for node, addresses in self.ceph.listeners().items():
            for address in addresses:
                host, port = self._route(self.name, node, address)
                if (host, port) != address:
                    self.spec.routes[f"{address[0]}:{address[1]}"] = f"{host}:{port}"
        super().start()
