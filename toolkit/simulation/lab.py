"""The ``sim`` backend: scenarios on virtual time, without sockets. A seed decides everything."""

from collections.abc import Callable
from random import Random
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.denc.address import EntityAddr
from messenger.link import Protocol
from toolkit.faults.tap import Breakpoint
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.nodes import NodeApp, NodeSpec
from toolkit.simulation.clock import Clock
from toolkit.simulation.network import Network, Wire
from toolkit.simulation.node import SimNode

_FIRST_PORT = 6800


class SimLab(Lab):
    """Nodes in this process on a virtual network."""

    backend = "sim"

    def __init__(
        self,
        mode: str,
        seed: int,
        workers: int = 0,
        protocol: Protocol = Protocol.V2,
        key_type: KeyType = KeyType.AES,
    ) -> None:
        super().__init__(mode, seed, workers, protocol, key_type)
        self.clock = Clock()
        rng = Random(f"network {seed}")
        self._network = Network(self.clock, rng, self.breakpoints_between, lambda: self.keys, self._on_struck)
        self._nodes: dict[str, SimNode] = {}

    @property
    def network(self) -> Network:
        """The virtual network, for those who want to listen in."""
        return self._network

    def app(self, name: str) -> NodeApp:
        """The application on a node."""
        return self._nodes[name].app

    def _on_struck(self, wire: Wire, breakpoint_: Breakpoint) -> None:
        self._was_cut(wire.connector.name, wire.acceptor.name, breakpoint_)

    def _start_s(self) -> float:
        return 0.0

    def _now(self) -> float:
        return self.clock.now_s

    def _address(self, name: str, nonce: int, *, listens: bool) -> str:  # noqa: ARG002 - ports go by order
        if not listens:
            return f"any:0.0.0.0:0/{nonce}"
        port = _FIRST_PORT + len(self._specs)
        return str(EntityAddr.from_host("127.0.0.1", port, self.protocol.addr_type).with_nonce(nonce))

    def _spawn(self, spec: NodeSpec) -> None:
        def write(time_s: float, kind: str, fields: dict[str, Any]) -> None:
            self._take(time_s, spec.name, kind, fields)

        self._nodes[spec.name] = SimNode(spec, self.clock, self._network, write)

    def _kill(self, name: str) -> None:
        self._nodes.pop(name).crash()

    def _running(self, name: str) -> bool:
        return name in self._nodes

    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        app = self._nodes[name].app
        answer = getattr(app, verb)(**args)
        return answer if isinstance(answer, dict) else {}

    def _cut(self, a: str, b: str) -> None:
        self._network.cut(a, b)

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return self.clock.run_until(condition, self.clock.now_s + timeout_s)

    def _pass(self, seconds: float) -> None:
        self.clock.run_until(lambda: False, self.clock.now_s + seconds)

    def close(self) -> None:
        """Nothing outlives the object."""
