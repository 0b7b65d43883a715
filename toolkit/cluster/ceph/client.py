"""A RADOS client of msgrlab as a node."""

from collections.abc import Callable

from messenger.compat import override
from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.admission import Admission
from toolkit.cluster.nodes import ProgramNode, Take
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.spec import RadosSpec

Route = Callable[[str, str, tuple[str, int]], tuple[str, int]]
"""Takes connector, acceptor, and host and port; returns the host and port to dial."""


class RadosNode(ProgramNode):
    """A client that keeps a session with a monitor, and reads and writes objects on command.

    Args:
        host: host that the client runs on.
        spec: options of the client.
        take: called with its history records and those about its process, from any thread.
        now: returns the seconds since the cluster began.
        ceph: the daemons; the client starts once they serve.
        route: returns the address to dial for an address of another node.
    """

    kind = "client"
    app = RadosApp

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
        """The daemons of its cluster."""

    @property
    @override
    def address(self) -> str:
        """Empty, because a client does not listen."""
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
