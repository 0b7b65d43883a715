"""What labs have in common whose nodes are on hosts of their own, with a network between them to break.

What happens to packets (partition, delay, loss, slowness, refusal) happens to packets; what happens to frames is
done by a proxy on the dialler's own host, as on loopback.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from messenger.denc.address import EntityAddr
from messenger.link import Protocol
from toolkit.cluster.backends.base import Host, NetworkWish
from toolkit.cluster.local import LocalLab
from toolkit.cluster.loop import LoopNode
from toolkit.cluster.process import NodeProcess
from toolkit.cluster.raw import LocalRawHost
from toolkit.faults.sockets import Inside
from toolkit.loops import LoopThread
from toolkit.network.faults import NetworkFaults
from toolkit.network.namespaces import enter
from toolkit.network.state import LinkState, RandomLoss
from toolkit.scenarios.nodes import NodeSpec, Writer
from toolkit.scenarios.raw.peer import RawHost
from toolkit.scenarios.ways import Way

NETWORKS = (NetworkWish("public"), NetworkWish("six", subnet="fd77::/64"))
"""Of IPv4, which is where nodes are unless a scenario says otherwise, and of IPv6."""
_MS_PER_S = 1000.0
_BITS = 8


class HostsLab(LocalLab):
    """Nodes on hosts of their own.

    Args:
        way: what the nodes speak, or its name.
        seed: decides everything random that is ours, but for keys.
        processes: whether each node is a process of its own, or runs in a thread of this one: in its host's
            network are both.

    Raises:
        Unsupported: such hosts cannot be had here.
    """

    _first_port = 6800

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1, *, processes: bool = True) -> None:
        self._hosts: Mapping[str, Host] = {}
        with ExitStack() as undo:
            self._network = self._open(undo)
            super().__init__(way, seed, processes=processes)
            undo.callback(super().close)
            self._undo = undo.pop_all()
        self._described = ""
        self._next_ports: dict[str, int] = {}

    @abstractmethod
    def _open(self, undo: ExitStack) -> NetworkFaults:
        """Make the networks that hosts are to be on; the stack takes what undoes it."""

    @abstractmethod
    def _add_host(self, name: str) -> None:
        """Make another one."""

    # ---- who is where

    def _describe(self, name: str, *args: Any, **options: Any) -> NodeSpec:  # noqa: ANN401 - of any node
        if name not in self._hosts:
            self._add_host(name)
        self._described = name
        return super()._describe(name, *args, **options)

    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        """Addresses go up in the order of description, as everywhere: they decide who wins a race."""
        network = NETWORKS[":" in host].name
        port = self._next_ports.get(self._described, self._first_port)
        self._next_ports[self._described] = port + 1
        address = self._hosts[self._described].addresses[network]
        return EntityAddr.from_host(address, port, protocol.addr_type)

    def _host(self, spec: NodeSpec) -> Host:
        """Where a node is: where its address is, if it has one."""
        for host in self._hosts.values():
            if spec.listens and spec.addrs.front.host in host.addresses.values():
                return host
        return self._hosts[spec.name]

    def hosts(self, name: str) -> list[str]:
        """See :meth:`Lab.hosts`; what it dials is a proxy on its own loopback, and leaves from its address."""
        return [*super().hosts(name), *self._host(self._specs[name]).addresses.values()]

    def _inside(self, name: str) -> Inside:
        return self._host(self._specs[name]).inside

    def _raw_host(self, spec: NodeSpec) -> RawHost:
        return LocalRawHost(spec, self._host(spec).inside)

    def _new_node(self, spec: NodeSpec, record: Writer) -> NodeProcess | LoopNode:
        if not self._processes:
            return LoopNode(self._node_loop(spec), spec, record)
        host = self._host(spec)
        return NodeProcess(spec, record, host.start(host.messenger, piped=True))

    def _node_loop(self, spec: NodeSpec) -> LoopThread:
        host = self._host(spec)
        if host.name not in self._node_loops:
            namespace = host.namespace
            assert namespace is not None
            self._node_loops[host.name] = LoopThread(f"node {host.name}", lambda: enter(namespace))
        return self._node_loops[host.name]

    # ---- what happens to packets

    def _network_fault(self, fault: str, *nodes: str, **args: Any) -> None:  # noqa: ANN401 - by fault
        network = self._network
        if fault == "heal":
            network.heal()
            super()._network_fault(fault, *nodes, **args)
        elif fault == "refuse":
            network.refuse(*nodes, **args)
            # The node dials a proxy on its own host, which has to refuse it too.
            super()._network_fault(fault, *nodes, **args)
        elif fault == "partition":
            a, b = nodes
            for way in ((a, b),) if args["one_way"] else ((a, b), (b, a)):
                network.block(*way)
        elif fault == "black_hole":
            sender, receiver = nodes
            network.black_hole(sender, receiver, **args)
        elif fault == "forge_reset":
            network.reset(*nodes)
        elif fault == "nat":
            network.nat(*nodes)
        elif fault == "nat_flush":
            network.nat_flush(*nodes, **args)
        elif fault in _IMPAIRMENTS:
            sender, receiver = nodes
            changes = _IMPAIRMENTS[fault](**args)
            network.set_link(
                sender, receiver, LinkState(**(network.link(sender, receiver).model_dump() | changes))
            )
        else:
            super()._network_fault(fault, *nodes, **args)

    def close(self) -> None:
        """See :meth:`LocalLab.close`; nothing is left in the machine."""
        self._undo.close()


def _delay(seconds: float, jitter_s: float) -> dict[str, object]:
    """Between ``seconds`` and ``jitter_s`` more: jitter goes both ways here."""
    return {"delay_ms": (seconds + jitter_s / 2) * _MS_PER_S, "jitter_ms": jitter_s / 2 * _MS_PER_S}


def _slow(bytes_per_s: float) -> dict[str, object]:
    return {"rate_bits_per_s": round(bytes_per_s * _BITS)}


def _lose(fraction: float) -> dict[str, object]:
    return {"loss": RandomLoss(percent=fraction * 100)}


def _impair(**state: object) -> dict[str, object]:
    return state


_IMPAIRMENTS: dict[str, Callable[..., dict[str, object]]] = {
    "delay": _delay,
    "slow": _slow,
    "lose": _lose,
    "impair": _impair,
}
