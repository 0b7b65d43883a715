"""The ``sim`` backend: scenarios on virtual time, without sockets. A seed decides everything random."""

from collections.abc import Callable
from random import Random
from typing import Any

from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.link import Protocol
from toolkit.faults.strike import Strike
from toolkit.lab.core import Running
from toolkit.lab.lab import Lab, NotIntercepted
from toolkit.lab.sim.clock import Clock
from toolkit.lab.sim.network import Network, Wire
from toolkit.lab.sim.sim_node import WALL_OFFSET_S, SimNode
from toolkit.lab.sim.sim_raw import SimRawHost
from toolkit.lab.ways import Way
from toolkit.node import NodeApp, NodeSpec
from toolkit.node.arguments import check_arguments
from toolkit.node.raw.peer import RawHost

_FIRST_PORT = 6800


class SimLab(Lab):
    """Nodes in this process, on a virtual network.

    Args:
        way: protocol, mode, cipher and shards of the nodes, or the way's name.
        seed: decides everything random.
        intercepted: True if nodes have an interceptor. Without one messengers run the same code as in production,
            and a run takes a fifth less time; :meth:`arm` raises NotIntercepted.
    """

    backend = "sim"

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1, *, intercepted: bool = True) -> None:
        super().__init__(way, seed)
        self.intercepted = intercepted
        self.clock = Clock()
        self._last_port = _FIRST_PORT - 1
        rng = Random(f"network {seed}")
        self._network = Network(self.clock, rng, self.breakpoints_between, lambda: self.keys, self._on_struck)
        self._nodes = Running[SimNode]()

    @property
    @override
    def network(self) -> Network:
        """The virtual network; it has hooks for observers of its traffic."""
        return self._network

    @property
    @override
    def streams(self) -> Network:
        return self._network

    def app(self, name: str) -> NodeApp:
        """The application on a node."""
        return self._nodes[name].app

    def _on_struck(self, wire: Wire, strike: Strike) -> None:
        self._has_struck(wire.connector.name, wire.acceptor.name, strike)

    def _start_s(self) -> float:
        return 0.0

    def _now(self) -> float:
        return self.clock.now_s

    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        self._last_port += 1
        return EntityAddr.from_host(host, self._last_port, protocol.addr_type)

    def _spawn(self, spec: NodeSpec) -> None:
        def write(time_s: float, kind: str, fields: dict[str, Any]) -> None:
            self._take(time_s, spec.name, kind, fields)

        self._about_process(spec.name, "start", addrs=spec.addr, options=spec.options)
        self._nodes[spec.name] = SimNode(spec, self.clock, self._network, write, intercepted=self.intercepted)

    def _raw_host(self, spec: NodeSpec) -> RawHost:
        return SimRawHost(spec, self._network, self._wait_until)

    def _wall_s(self) -> float:
        return WALL_OFFSET_S + self.clock.now_s

    def _kill(self, name: str) -> None:
        self._nodes[name].crash()
        del self._nodes[name]
        self._about_process(name, "kill")

    def _running(self, name: str) -> bool:
        return name in self._nodes

    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        if verb == "arm" and not self.intercepted:
            raise NotIntercepted
        if verb == "jump_clock":
            self._write(name, "clock", step_s=args["seconds"])
        app = self._nodes[name].app
        try:
            answer = getattr(app, verb)(**args)
        except TypeError:
            check_arguments(NodeApp, verb, args)
            raise
        return answer if isinstance(answer, dict) else {}

    def _freeze(self, name: str, *, frozen: bool) -> None:
        node = self._nodes[name]
        if frozen:
            node.pause()
            self._about_process(name, "freeze")
        else:
            self._about_process(name, "thaw")
            node.resume()

    def _about_process(self, name: str, action: str, **more: Any) -> None:  # noqa: ANN401 - as JSON
        self._write(name, "process", action=action, incarnation=self._specs[name].incarnation, **more)

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return self.clock.run_until(condition, self.clock.now_s + timeout_s)

    def _advance(self, seconds: float) -> None:
        self.clock.run_until(lambda: False, self.clock.now_s + seconds)

    def close(self) -> None:
        """Do nothing: the nodes have no resources outside this object."""
