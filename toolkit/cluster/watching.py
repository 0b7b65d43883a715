"""Who watches the nodes of a cluster: captures of their packets, and proxies between them."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from messenger.denc.address import AddrVec
from toolkit.cluster.keeping import KEY_LOG
from toolkit.cluster.spec.model import Capture, Proxy
from toolkit.errors import Unsupported
from toolkit.faults.proxy import FaultProxy
from toolkit.network.redirect import redirect, way_in

if TYPE_CHECKING:
    from toolkit.capture.recording import Taken
    from toolkit.cluster.running import Cluster


class Captures:
    """The captures of a cluster; their files lie in its directory."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._open = ExitStack()
        self.taken: dict[str, Taken] = {}
        """What they have so far, by node."""

    def start(self, captures: Sequence[Capture]) -> None:
        """Begin with the spec's.

        Raises:
            Unsupported: we may not capture here.
            LocalError: a file cannot be written.
        """
        for capture in captures:
            self._start(capture)

    def _start(self, capture: Capture) -> None:
        from toolkit.capture.recording import capturing  # noqa: PLC0415 - only for those who capture
        from toolkit.capture.target import ANY, Target  # noqa: PLC0415

        cluster, node = self._cluster, self._cluster.nodes[capture.node]
        path = cluster.directory / (capture.file or f"{capture.node}.pcapng")
        namespace = node.host.namespace
        if namespace is None and cluster.backend.name != "process":
            raise Unsupported(f"capture {capture.node}: its packets are not on this machine, or not for us to see")
        target = Target(f"node {capture.node}", ANY if namespace else "lo", namespace)
        ports = "all" if namespace else ",".join(self._ports(capture.node)) or "all"
        log = None
        for messenger in cluster.messengers():
            if messenger.name == capture.node and messenger.host.directory.is_dir():
                log = messenger.host.directory / KEY_LOG
                log.touch(mode=0o600)
                messenger.spec.key_log = str(log)
        notes = [f"cluster {cluster.name}, node {capture.node}"]
        self.taken[capture.node] = self._open.enter_context(
            capturing(target, path, ports=ports, key_log=log, notes=notes)
        )

    def _ports(self, name: str) -> list[str]:
        """Of a node on this machine's loopback: where it listens, and where it dials others."""
        found: list[str] = []
        for messenger in self._cluster.messengers():
            if messenger.name == name:
                found += [str(addr.port) for addr in messenger.spec.addrs if addr.port]
                found += [route.rpartition(":")[2] for route in messenger.spec.routes.values()]
        return found

    def close(self) -> None:
        """End them; the files are whole."""
        self._open.close()


class Middlemen:
    """The proxies of a cluster: those of its spec, and how they fit in with those of its backend.

    Messengers of ours dial wherever they are told to. Whoever else dials, or is dialled at addresses that nobody
    knows beforehand, has its dials redirected by the kernel of its host.
    """

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._wanted: set[tuple[str, str]] = set()
        self.proxies: dict[tuple[str, str], FaultProxy] = {}

    def open(self, proxies: Sequence[Proxy]) -> None:
        """Open those of the spec; one that a messenger of ours is to dial is opened when its way is known.

        Raises:
            LocalError: it did not work.
            Unsupported: this backend has no hosts whose dials can be redirected.
        """
        ours = {node.name for node in self._cluster.messengers()}
        for proxy in proxies:
            pair = proxy.sender, proxy.receiver
            if proxy.sender in ours and self._is_known(proxy.receiver):
                self._wanted.add(pair)
            else:
                self.proxies[pair] = self._redirected(*pair)

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Where a node dials an address of another."""
        backend = self._cluster.backend
        if (dialler, dialled) not in self._wanted:
            return backend.route(dialler, dialled, address)
        proxy = backend.proxy(dialler, dialled, address) or self._own(dialler, dialled, address)
        self.proxies.setdefault((dialler, dialled), proxy)
        return proxy.host, proxy.port

    def _is_known(self, dialled: str) -> bool:
        """Whether a node's ports are certain before it runs."""
        return any(addr.port for addr in AddrVec.parse(self._cluster.nodes[dialled].address))

    def _own(
        self, dialler: str, dialled: str, address: tuple[str, int] | None, host: str = "127.0.0.1"
    ) -> FaultProxy:
        """One on the host of who dials."""
        place = self._cluster.backend.hosts[dialler]
        if place.namespace is None:
            raise Unsupported(f"proxy from {dialler}: no way into its host from here: --backend netns")
        keys = self._cluster.backend.keys
        return FaultProxy(dialler, dialled, address, keys=keys, host=host, inside=place.inside)

    def _redirected(self, dialler: str, dialled: str) -> FaultProxy:
        """One that all dials of a node to another get to, whatever the port."""
        hosts = self._cluster.backend.hosts
        addresses = tuple(hosts[dialled].addresses.values())
        proxy = self._own(dialler, dialled, None, way_in(addresses))
        try:
            namespace = hosts[dialler].namespace
            assert namespace is not None  # or _own() would have refused
            redirect(namespace, addresses, proxy.port)
        except BaseException:
            proxy.close()
            raise
        return proxy

    def close(self) -> None:
        """End those that are our own."""
        for proxy in self.proxies.values():
            proxy.close()
