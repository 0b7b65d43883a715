"""Scenarios on the hosts of a cluster's backend, with a fault proxy between every two nodes.

The backend's network carries out faults of packets (partition, delay, loss, rate limits, refusal); proxies on the
diallers' hosts carry out faults of frames and streams.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from random import SystemRandom
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.cluster import warm_zygote
from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Host, HostWish, NetworkWish
from toolkit.cluster.nodes import MessengerNode
from toolkit.cluster.threads import NodeThreads, ThreadNode
from toolkit.errors import Unsupported
from toolkit.faults.proxies import Proxies
from toolkit.faults.proxy import FaultProxy
from toolkit.lab.core import Running
from toolkit.lab.lab import Lab
from toolkit.lab.real.raw_host import SocketRawHost
from toolkit.lab.ways import Way
from toolkit.network.faults import NetworkFaults
from toolkit.node import NodeSpec
from toolkit.node.raw.peer import RawHost

KINDS = {
    "local": ("process", "tcp"),
    "netns": ("netns", "tcp"),
    "docker": ("docker", "tcp"),
    "rdma": ("process", "rdma"),
}
"""The backend of clusters and the transport for each backend of scenarios."""
_IPV4, _IPV6 = "public", "six"
"""Names of the networks; nodes are on the first unless a scenario asks for IPv6."""


class RealLab(Lab):
    """Nodes on real sockets.

    Args:
        backend: one of ``KINDS``.
        way: protocol, mode, cipher and shards of the nodes, or the way's name.
        seed: decides everything random but the keys, because others can reach these sockets.
        processes: True if each node is a separate process; only those can be frozen, or killed with SIGKILL.
            Nodes in containers and over RDMA always are processes.

    Raises:
        Unsupported: this machine cannot have such hosts.
    """

    real_time = True

    def __init__(
        self, backend: str = "local", way: Way | str = "v2-crc", seed: int = 1, *, processes: bool = True
    ) -> None:
        super().__init__(way, seed)
        self.backend = backend
        self._key = CryptoKey.generate(SystemRandom(), 0.0, self.way.key_type)
        self._began_s = time.monotonic()
        self._changed = threading.Condition()
        self._is_waiting = False
        """True while a condition is checked, which happens again and again."""
        self._acquainted: dict[str, set[str]] = {}
        """The peers whose addresses each node has."""
        self._nodes = Running[MessengerNode]()
        self._next_ports: dict[str, int] = {}
        """The next free port of each host."""
        self._described = ""
        self.is_rdma = KINDS[backend][1] == "rdma"
        # A kernel removes no device that a process has open, so the nodes end before their devices.
        self._processes = processes or self.is_rdma
        kind = backend_named(*KINDS[backend])
        with ExitStack() as undo:
            networks = [NetworkWish(_IPV4), NetworkWish(_IPV6, kind.ipv6_subnet)]
            self._place = undo.enter_context(kind.lent(networks))
            self._place.zygote = self._place.zygote or warm_zygote.shared
            self._threads = undo.enter_context(closing(NodeThreads()))
            undo.callback(self._end_nodes)
            self._undo = undo.pop_all()
        proxies = self._place.proxies
        proxies.keys = lambda: self.keys
        proxies.strikes, proxies.struck = self.breakpoints_between, self._has_struck

    @override
    def new_key(self, cipher: KeyType | None = None) -> str:
        """Generate a key from the machine's random source, not from the seed."""
        return CryptoKey.generate(SystemRandom(), 0.0, cipher or self.way.key_type).to_base64()

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        with self._changed:
            super()._take(time_s, node, kind, fields)
            self._changed.notify_all()

    def _catch_up(self, node: str = "") -> None:
        """Wait for the records of processes: a process answers a command after it has sent its records."""
        if self._is_waiting:
            return
        for running in [self._nodes[node]] if node in self._nodes else list(self._nodes.values()):
            if running.pid and running.state == "up":
                with suppress(LocalError):  # it has ended by itself
                    running.command("snapshot")

    def _start_s(self) -> float:
        return self._began_s

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _wall_s(self) -> float:
        return time.time()

    # ---- nodes and their hosts

    def _describe(self, name: str, *args: Any, **options: Any) -> NodeSpec:  # noqa: ANN401 - of any node
        if name not in self._place.hosts:
            self._place.add(HostWish(name, (_IPV4, _IPV6)))
        self._described = name
        spec = super()._describe(name, *args, **options)
        spec.options = {**self._place.hosts[name].options, **spec.options}
        return spec

    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        """An address on the node's host; ports go up in the order of description, and decide connection races."""
        place = self._place.hosts[self._described]
        wanted = self._next_ports.get(place.name, self._place.first_port)
        self._next_ports[place.name] = wanted + 1
        address = place.addresses[_IPV6 if ":" in host else _IPV4]
        return EntityAddr.from_host(address, place.port(wanted, address), protocol.addr_type)

    def _host(self, spec: NodeSpec) -> Host:
        """The host that has the node's address, or else the node's own."""
        own = self._place.hosts[spec.name]
        address = spec.addrs.front.host
        return next(
            (host for host in (own, *self._place.hosts.values()) if address in host.addresses.values()), own
        )

    @override
    def hosts(self, name: str) -> list[str]:
        """The IP addresses of the node's host.

        The node dials a proxy on loopback, which connects from the host's address.
        """
        return list(dict.fromkeys([*super().hosts(name), *self._host(self._specs[name]).addresses.values()]))

    def _raw_host(self, spec: NodeSpec) -> RawHost:
        if self.is_rdma:
            raise Unsupported(f"raw peer {spec.name}: raw peers have no queue pairs")
        return SocketRawHost(spec, self._host(spec).inside)

    def _spawn(self, spec: NodeSpec) -> None:
        host = self._host(spec)
        for peer in self._specs.values():  # not raw peers: a proxy holds back bytes that are no frame
            if peer.name != spec.name and peer.listens:
                for addr in peer.addrs:
                    proxy = self._place.proxies.open(spec.name, peer.name, (addr.host, addr.port), host.inside)
                    spec.routes[f"{addr.host}:{addr.port}"] = f"{proxy.host}:{proxy.port}"
        about = host, spec, self._take, self._now, tuple
        own_process = self._processes or host.is_container
        node = MessengerNode(*about) if own_process else ThreadNode(*about, threads=self._threads)
        self._nodes[spec.name] = node
        node.start()
        self._acquainted[spec.name] = set(spec.peers)

    def _started(self, *names: str) -> None:
        for name in names:
            self._nodes[name].wait_ready()
        for name, node in self._nodes.items():
            spec, known = self._specs[name], self._acquainted[name]
            if node.pid and node.state == "up":  # a node in a thread shares this spec
                for peer in spec.peers.keys() - known:
                    node.command("learn", peer=peer, addr=spec.peers[peer], entity=spec.peer_entities[peer])
                known.update(spec.peers)

    def _kill(self, name: str) -> None:
        self._nodes[name].kill()
        del self._nodes[name]

    def _running(self, name: str) -> bool:
        return name in self._nodes

    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        return self._nodes[name].command(verb, **args)

    def _freeze(self, name: str, *, frozen: bool) -> None:
        self._nodes[name].freeze(frozen)

    # ---- the network

    @property
    @override
    def network(self) -> NetworkFaults:
        return self._place.network

    @property
    @override
    def streams(self) -> Proxies:
        return self._place.proxies

    @override
    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> list[FaultProxy]:
        return self._place.proxies.on(dialler, dialled, port)

    def _pid(self, name: str) -> int:
        return self._nodes[name].pid

    # ---- waiting

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not self._holds(condition):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            with self._changed:
                # The condition may depend on more than records, for example on a node's counters.
                self._changed.wait(min(left_s, 0.02))
        return True

    def _holds(self, condition: Callable[[], bool]) -> bool:
        self._is_waiting, before = True, self._is_waiting
        try:
            return condition()
        finally:
            self._is_waiting = before

    def _advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """End every node, raw peer and proxy, and undo every change of the machine."""
        self._undo.close()

    def _end_nodes(self) -> None:
        self.scene.close()
        for raw in self._raws.values():
            raw.close()
        for node in self._nodes.values():
            node.stop()
        self._nodes.clear()
        self._place.proxies.close()
