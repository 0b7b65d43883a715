"""Captures of the packets of a cluster's nodes, and proxies between its nodes."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from messenger.denc.address import AddrVec
from toolkit.capture.ports import ALL
from toolkit.cluster.backends.base import CaptureWish
from toolkit.cluster.backends.process import LOOPBACK
from toolkit.cluster.nodes import MessengerNode
from toolkit.cluster.retention import KEY_LOG
from toolkit.cluster.spec.model import Capture, Proxy

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken
    from toolkit.cluster.cluster import Cluster
    from toolkit.faults.language.scene import ProxyHere


class Captures:
    """The captures of a cluster; their files are in its directory."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._open: dict[str, ExitStack] = {}
        """Exit stack of each capture, by node."""
        self.taken: dict[str, Taken] = {}
        """File and counters of each capture, by node."""

    def start(self, captures: Sequence[Capture]) -> None:
        """Start captures; the nodes log the keys of their links from their next start on.

        Raises:
            Unsupported: this process may not capture here.
            LocalError: a file cannot be written.
        """
        for capture in captures:
            self._start(capture)

    def _start(self, capture: Capture) -> None:
        cluster, node = self._cluster, self._cluster.nodes[capture.node]
        path = cluster.directory / (capture.file or f"{capture.node}.pcapng")
        is_shared = node.host.interface == LOOPBACK
        ports = ",".join(dict.fromkeys(self._ports(capture.node))) if is_shared else ""
        key_log = ""
        if isinstance(node, MessengerNode) and not node.host.is_container:
            key_log = KEY_LOG
            if not node.spec.key_log:  # else the node may be writing to it
                node.spec.key_log = str(node.host.write(KEY_LOG, b""))
        notes = [f"cluster {cluster.name}, node {capture.node}"]
        # Other nodes have nothing but redirected connections on loopback.
        loopback = is_shared or isinstance(node, MessengerNode)
        wish = CaptureWish(ports or ALL, key_log, notes, loopback)
        stack = self._open.setdefault(capture.node, ExitStack())
        taken = stack.enter_context(node.host.capturing(path, wish))
        self.taken[capture.node] = taken

    def _ports(self, name: str) -> list[str]:
        """Return the ports of a node on loopback: those it listens on, and those of proxies that it dials."""
        found: list[str] = []
        for messenger in self._cluster.messengers():
            if messenger.name == name:
                found += [str(addr.port) for addr in messenger.spec.addrs if addr.port]
                found += [route.rpartition(":")[2] for route in messenger.spec.routes.values()]
        return found

    def stop(self, node: str) -> "Taken | None":
        """Stop the capture of a node and flush its file; returns its counters, None if there is no capture."""
        if node not in self._open:
            return None
        self._open.pop(node).close()
        return self.taken.pop(node)

    def close(self) -> None:
        """Stop all captures and flush their files."""
        with ExitStack() as ending:
            for each in self._open.values():
                ending.callback(each.close)


class Middlemen:
    """The proxies of a cluster: those of its spec, together with those of its backend.

    Messengers of msgrlab dial the proxy's address (a route). Connections of other programs, and those to addresses
    that are not known in advance, are redirected by the kernel of the connector's host.
    """

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._wanted: set[tuple[str, str]] = set()
        self.proxies: dict[tuple[str, str], ProxyHere] = {}

    def open(self, proxies: Sequence[Proxy]) -> None:
        """Open the proxies of the spec. One that a messenger dials is opened later, by :meth:`route`.

        Raises:
            LocalError: a proxy cannot listen, or the redirection fails.
            Unsupported: this backend has no hosts whose connections can be redirected.
        """
        ours = {node.name for node in self._cluster.messengers()}
        for proxy in proxies:
            pair = proxy.sender, proxy.receiver
            if proxy.sender in ours and self._is_known(proxy.receiver):
                self._wanted.add(pair)
            else:
                self.proxies[pair] = self._cluster.backend.redirected(*pair)

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Return the address that ``dialler`` connects to in order to reach ``address`` of ``dialled``."""
        backend = self._cluster.backend
        if (dialler, dialled) not in self._wanted:
            return backend.route(dialler, dialled, address)
        proxy = backend.proxy(dialler, dialled, address)
        self.proxies.setdefault((dialler, dialled), proxy)
        return proxy.host, proxy.port

    def remove(self, dialler: str, dialled: str) -> None:
        """Remove a proxy and close the connections through it; a backend's permanent proxy stays."""
        pair = dialler, dialled
        self._wanted.discard(pair)
        if self.proxies.pop(pair, None) is not None:
            self._cluster.backend.end_proxy(dialler, dialled)

    def leave(self, name: str) -> None:
        """Remove the proxies from and to a node that leaves the cluster."""
        for pair in {pair for pair in (*self.proxies, *self._wanted) if name in pair}:
            self.remove(*pair)

    def _is_known(self, dialled: str) -> bool:
        """True if the ports of a node are known before it runs."""
        return any(addr.port for addr in AddrVec.parse(self._cluster.nodes[dialled].address))
