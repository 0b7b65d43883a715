"""The ``local`` backend: nodes on loopback, with a fault proxy on every way between two of them.

Nodes are processes of their own, or run in a thread of this one: the same messengers on the same sockets, ready at
once instead of in a second.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import SystemRandom
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import EntityAddr
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.cluster.loop import LoopNode
from toolkit.cluster.process import NodeProcess
from toolkit.cluster.raw import LocalRawHost
from toolkit.dissect.direction import Direction
from toolkit.errors import Unsupported
from toolkit.faults.proxy import FaultProxy
from toolkit.faults.sockets import Inside, here
from toolkit.loops import LoopThread
from toolkit.ports import reserved_socket
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.nodes import NodeSpec, Writer
from toolkit.scenarios.raw.peer import RawHost
from toolkit.scenarios.ways import Way

_HOST = "127.0.0.1"
_NEARBY = 500
"""So many ports above the last one are looked at for one that is free."""


class LocalLab(Lab):
    """Real sockets on loopback, links through proxies.

    Args:
        way: what the nodes speak, or its name.
        seed: decides everything random that is ours, but for keys: others can reach these sockets.
        processes: whether each node is a process of its own; only those can be frozen, or really killed.
    """

    backend = "local"

    real_time = True

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1, *, processes: bool = True) -> None:
        super().__init__(way, seed)
        self._key = CryptoKey.generate(SystemRandom(), 0.0, self.way.key_type)
        self._processes = processes
        self._node_loops: dict[str, LoopThread] = {}
        """For nodes that are no processes, by where they are."""
        self._proxy_loop = LoopThread("proxies")
        self._began_s = time.monotonic()
        self._changed = threading.Condition()
        self._is_waiting = False
        """For a condition, which is looked at again and again."""
        self._frozen: set[str] = set()
        self._acquainted: dict[str, set[str]] = {}
        """Which peers a node knows of."""
        self._nodes: dict[str, NodeProcess | LoopNode] = {}
        self._proxies: dict[tuple[str, str], dict[int, FaultProxy]] = {}
        """On the way from one node to another, by the port that is dialled."""
        self._reserved: list[socket.socket] = []
        self._ports: list[int] = []
        """Of those, in order."""

    def new_key(self, cipher: KeyType | None = None) -> str:
        """See :meth:`Lab.new_key`; no seed has it."""
        return CryptoKey.generate(SystemRandom(), 0.0, cipher or self.way.key_type).to_base64()

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        with self._changed:
            super()._take(time_s, node, kind, fields)
            self._changed.notify_all()

    def _catch_up(self, node: str = "") -> None:
        """Answers of a process come behind its records."""
        if self._is_waiting:
            return
        for name in (node,) if node else tuple(self._nodes):
            process = self._nodes.get(name)
            if isinstance(process, NodeProcess) and name not in self._frozen:
                with suppress(LocalError):  # it has ended by itself
                    process.command("snapshot")

    def _start_s(self) -> float:
        return self._began_s

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        # Ports go up in the order of description, as in simulation: addresses decide who wins a race.
        last = self._ports[-1] if self._ports else 0
        for port in (*range(last + 1, last + _NEARBY), 0) if last else (0,):
            try:
                reserved = reserved_socket(host, port)
            except (OSError, OverflowError):
                continue
            self._reserved.append(reserved)
            self._ports.append(reserved.getsockname()[1])
            return EntityAddr.from_host(host, self._ports[-1], protocol.addr_type)
        raise LocalError(f"no port to be had on {host}")

    def start(self, *names: str) -> None:
        """Start nodes, all at once."""
        super().start(*names)
        for name in names or self._specs:
            self._nodes[name].wait_ready()
        if self._processes:  # others read the very spec that is kept here
            self._introduce()

    def _introduce(self) -> None:
        """Tell nodes of the peers that have come since they started."""
        for name in self._nodes.keys() - self._frozen:
            spec, known = self._specs[name], self._acquainted[name]
            for peer in spec.peers.keys() - known:
                self._command(name, "learn", peer=peer, addr=spec.peers[peer], entity=spec.peer_entities[peer])
            known.update(spec.peers)

    def revive(self, name: str, *, new_nonce: bool = False, **options: Any) -> None:  # noqa: ANN401 - as JSON
        """See :meth:`Lab.revive`."""
        super().revive(name, new_nonce=new_nonce, **options)
        self._nodes[name].wait_ready()

    def _spawn(self, spec: NodeSpec) -> None:
        for peer in self._specs.values():  # raw peers are dialled directly: a proxy holds back what is no frame
            if peer.name != spec.name and peer.listens:
                for addr in peer.addrs:
                    proxy = self._proxy(spec.name, peer.name, addr)
                    spec.routes[f"{addr.host}:{addr.port}"] = f"{_HOST}:{proxy.port}"

        def record(time_s: float, kind: str, fields: dict[str, Any]) -> None:
            self._take(time_s, spec.name, kind, fields)

        self._nodes[spec.name] = self._new_node(spec, record)
        self._acquainted[spec.name] = set(spec.peers)

    def _new_node(self, spec: NodeSpec, record: Writer) -> NodeProcess | LoopNode:
        return NodeProcess(spec, record) if self._processes else LoopNode(self._node_loop(spec), spec, record)

    def _node_loop(self, spec: NodeSpec) -> LoopThread:  # noqa: ARG002 - all nodes are in one place
        """Runs a node."""
        if not self._node_loops:
            self._node_loops[""] = LoopThread("nodes")
        return self._node_loops[""]

    def _proxy(self, connector: str, acceptor: str, addr: EntityAddr) -> FaultProxy:
        """The proxy on the way from one node to an address of another."""
        proxies = self._proxies.setdefault((connector, acceptor), {})
        if addr.port not in proxies:
            proxies[addr.port] = FaultProxy(
                connector,
                acceptor,
                (addr.host, addr.port),
                self.breakpoints_between(connector, acceptor),
                self.keys,
                lambda strike: self._has_struck(connector, acceptor, strike),
                self._proxy_loop,
                inside=self._inside(connector),
            )
        return proxies[addr.port]

    def _between(self, connector: str, acceptor: str) -> Iterable[FaultProxy]:
        return self._proxies.get((connector, acceptor), {}).values()

    def _inside(self, name: str) -> Inside:  # noqa: ARG002 - there is but one network here
        """Opens sockets where a party is."""
        return here

    def _raw_host(self, spec: NodeSpec) -> RawHost:
        return LocalRawHost(spec)

    def _wall_s(self) -> float:
        return time.time()

    def _kill(self, name: str) -> None:
        self._nodes.pop(name).kill()
        self._frozen.discard(name)

    def _running(self, name: str) -> bool:
        return name in self._nodes

    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        return self._nodes[name].command(verb, **args)

    def _cut(self, a: str, b: str) -> None:
        for proxy in (*self._between(a, b), *self._between(b, a)):
            proxy.cut()

    def _network_fault(self, fault: str, *nodes: str, **args: Any) -> None:  # noqa: ANN401 - by fault
        if fault == "heal":
            for proxies in self._proxies.values():
                for proxy in proxies.values():
                    proxy.heal()
        elif fault == "refuse":
            for proxy in self._between(*nodes):
                proxy.refuse(**args)
        else:
            self._path_fault(fault, *nodes, **args)

    def _path_fault(self, fault: str, a: str, b: str, **args: Any) -> None:  # noqa: ANN401 - by fault
        """A fault of the direction from a to b, whoever dialled."""
        both = fault == "partition" and not args.pop("one_way")
        action = "hold" if fault == "partition" else fault
        if not hasattr(FaultProxy, action):
            raise Unsupported(f"{fault} {a} {b}: not on {self.backend}")
        for sender, receiver in ((a, b), (b, a)) if both else ((a, b),):
            for proxy in self._between(sender, receiver):
                getattr(proxy, action)(Direction.TO_SERVER, **args)
            for proxy in self._between(receiver, sender):
                getattr(proxy, action)(Direction.TO_CLIENT, **args)

    def _freeze(self, name: str, *, frozen: bool) -> None:
        self._nodes[name].freeze(frozen=frozen)
        (self._frozen.add if frozen else self._frozen.discard)(name)

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not self._holds(condition):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            with self._changed:
                # Something else than a record may make the condition true, a node's counters for one.
                self._changed.wait(min(left_s, 0.02))
        return True

    def _holds(self, condition: Callable[[], bool]) -> bool:
        self._is_waiting, before = True, self._is_waiting
        try:
            return condition()
        finally:
            self._is_waiting = before

    def _pass(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Stop every node, raw peer and proxy."""
        for raw in self._raws.values():
            raw.close()
        for node in self._nodes.values():
            node.stop()
        self._nodes.clear()
        for proxies in self._proxies.values():
            for proxy in proxies.values():
                proxy.close()
        self._proxies.clear()
        self._proxy_loop.close()
        for reserved in self._reserved:
            reserved.close()
        for loop in self._node_loops.values():
            loop.close()
        self._node_loops.clear()
