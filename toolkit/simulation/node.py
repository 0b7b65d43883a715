"""A messenger on the simulated network, with other shards if it is to have any."""

from collections.abc import Callable
from functools import partial
from random import Random

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.driver import Driver
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason
from messenger.host import LinkHost
from messenger.link import Protocol
from messenger.outputs import CallHome, Output, TraceRecord
from messenger.shards.calls import ToHome, ToShard
from toolkit.scenarios.nodes import NodeApp, NodeSpec, Writer
from toolkit.simulation.clock import Clock
from toolkit.simulation.network import Network, Wire

_LONGEST_HOP_S = 0.01
WALL_OFFSET_S = 1_700_000_000.0
"""Unix time at the beginning of virtual time."""


class SimShard:
    """One more shard of a node."""

    def __init__(self, node: "SimNode", index: int) -> None:
        self._node = node
        self._host = node.endpoint.shards.new_shard(index)
        self._expected: dict[int, list[Callable[[LinkHost], None]]] = {}
        """What happened on links that are on their way here."""
        self._deadline_s: float | None = None

    def expect(self, link_id: int) -> None:
        """A link comes."""
        self._expected[link_id] = []

    def tell(self, link_id: int, what: Callable[[LinkHost], None]) -> None:
        """Something happened on a link of this shard."""
        if link_id in self._expected:
            self._expected[link_id].append(what)
        elif self._node.alive:
            what(self._host)
            self.pump()

    def called(self, call: ToShard) -> None:
        """A call from the home shard arrived."""
        if not self._node.alive:
            return
        self._host.call(call, self._node.now())
        for link_id in [link_id for link_id in self._expected if link_id in self._host.link_ids]:
            for what in self._expected.pop(link_id):
                what(self._host)
        self.pump()

    def pump(self) -> None:
        """Carry out everything the shard asks for."""
        while outputs := self._host.drain(self._node.now()):
            for output in outputs:
                self._node.from_shard(output)
        deadline_s = self._host.next_deadline()
        if deadline_s is not None and deadline_s != self._deadline_s:
            self._node.clock.at(deadline_s, partial(self._on_timer, deadline_s))
        self._deadline_s = deadline_s

    def _on_timer(self, deadline_s: float) -> None:
        if self._node.alive and self._deadline_s == deadline_s:
            self._deadline_s = None
            self._host.timer(self._node.now())
            self.pump()


class SimNode(Driver):
    """One host with one messenger and the scenario application on it."""

    def __init__(self, spec: NodeSpec, clock: Clock, network: Network, write: Writer) -> None:
        self.name = spec.name
        self.alive = True
        self.app = NodeApp(spec, write)
        endpoint = Endpoint(
            spec.entity_name,
            spec.addrs,
            rng=Random(f"{spec.seed} {spec.name} {spec.incarnation}"),
            auth_client=spec.auth_client(),
            auth_server=spec.auth_server(),
            policies=spec.policies(),
            config=spec.config(),
            wall_offset_s=WALL_OFFSET_S,
            tracing=True,
            shards=spec.workers,
        )
        super().__init__(endpoint, self.app)
        self.app.attach(self)
        self.clock = clock
        self._network = network
        self._wires: dict[int, Wire] = {}
        self._paused: dict[int, list[bytes]] = {}
        self._hosts: dict[int, SimShard] = {}
        """Links that are on other shards, or on their way there."""
        self._deadline_s: float | None = None
        self._pump_due = False
        self._shards = [SimShard(self, index + 1) for index in range(spec.workers)]
        self._rng = Random(f"{spec.seed} {spec.name} {spec.incarnation} shards")
        if spec.listens:
            network.listen(self, spec.addrs.front)

    def crash(self) -> None:
        """Stop existing."""
        self.alive = False
        self._network.crashed(self)

    # ---- other shards

    def hop_s(self) -> float:
        """How long the next call between shards takes; calls overtake each other."""
        return self._rng.uniform(0.0, _LONGEST_HOP_S)

    def call_shard(self, shard: int, call: ToShard) -> None:
        """See :meth:`Driver.call_shard`."""
        self.clock.after(self.hop_s(), partial(self._shards[shard - 1].called, call))

    def called_home(self, call: ToHome) -> None:
        """A call of a shard arrived."""
        if self.alive:
            self.endpoint.shard_call(call, self.now())
            self.pump()

    def move_link(self, link_id: int, shard: int) -> None:
        """See :meth:`Driver.move_link`."""
        self._shards[shard - 1].expect(link_id)
        self._hosts[link_id] = self._shards[shard - 1]

    def from_shard(self, output: Output) -> None:
        """Carry out what a shard asks for."""
        if isinstance(output, CallHome):
            self.clock.after(self.hop_s(), partial(self.called_home, output.call))
        else:
            self._carry_out(output, self.now())

    # ---- the Driver's transport

    def now(self) -> float:
        """Virtual seconds."""
        return self.clock.now_s

    def soon(self) -> None:
        """See :meth:`Driver.soon`."""
        if not self._pump_due:
            self._pump_due = True
            self.clock.after(0.0, self._pump_soon)

    def _pump_soon(self) -> None:
        self._pump_due = False
        if self.alive:
            self.pump()

    def set_timer(self, deadline_s: float | None) -> None:
        """See :meth:`Driver.set_timer`."""
        if deadline_s is not None and deadline_s != self._deadline_s:
            self.clock.at(deadline_s, partial(self._on_timer, deadline_s))
        self._deadline_s = deadline_s

    def _on_timer(self, deadline_s: float) -> None:
        if self.alive and self._deadline_s == deadline_s:
            self._deadline_s = None
            self.endpoint.timer(self.now())
            self.pump()

    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        """See :meth:`Driver.open_link`."""
        wire = self._network.dial(self, link_id, addr)
        if wire is None:
            self.clock.after(self._network.latency(), partial(self._refused, link_id, addr))
        else:
            self._wires[link_id] = wire

    def _refused(self, link_id: int, addr: EntityAddr) -> None:
        if self.alive:
            self.endpoint.link_failed(link_id, FaultReason.REFUSED, f"{addr.host}:{addr.port}", self.now())
            self.pump()

    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        """See :meth:`Driver.write_link`."""
        if (wire := self._wires.get(link_id)) is not None:
            wire.write(self, b"".join(buffers))

    def pause_link(self, link_id: int, *, paused: bool) -> None:
        """See :meth:`Driver.pause_link`."""
        if paused:
            self._paused[link_id] = []
            return
        for chunk in self._paused.pop(link_id, []):
            self._on_link(link_id, lambda host, chunk=chunk: host.link_data(link_id, chunk, self.now()))  # type: ignore[misc]

    def shut_link(self, link_id: int) -> None:
        """See :meth:`Driver.shut_link`."""
        if (wire := self._wires.get(link_id)) is not None:
            wire.shut(self)

    def close_link(self, link_id: int) -> None:
        """See :meth:`Driver.close_link`."""
        if (wire := self._wires.pop(link_id, None)) is not None:
            wire.close(self)
        self._paused.pop(link_id, None)
        self._hosts.pop(link_id, None)

    def record(self, record: TraceRecord) -> None:
        """See :meth:`Driver.record`."""
        self.app.trace(record)

    # ---- the network's Host

    def accepted(self, wire: Wire, remote: EntityAddr) -> None:
        """See :meth:`Host.accepted`."""
        link_id = self.endpoint.link_accepted(remote, self.now(), Protocol.of(self.addrs.front))
        wire.link_ids[wire.direction_from(self)] = link_id
        self._wires[link_id] = wire
        self.pump()

    def opened(self, wire: Wire, local: EntityAddr) -> None:
        """See :meth:`Host.opened`."""
        self.endpoint.link_opened(wire.link_id(self), local, self.now())
        self.pump()

    def broken(self, wire: Wire, reason: FaultReason, detail: str) -> None:
        """See :meth:`Host.broken`."""
        if (link_id := self._link_id(wire)) is not None:
            self._on_link(link_id, lambda host: host.link_failed(link_id, reason, detail, self.now()))

    def received(self, wire: Wire, chunk: bytes) -> None:
        """See :meth:`Host.received`."""
        if (link_id := self._link_id(wire)) is None:
            return
        if link_id in self._paused:
            self._paused[link_id].append(chunk)
            return
        self._on_link(link_id, lambda host: host.link_data(link_id, chunk, self.now()))

    def written(self, wire: Wire, count: int) -> None:
        """See :meth:`Host.written`."""
        if (link_id := self._link_id(wire)) is not None:
            self._on_link(link_id, lambda host: host.link_written(link_id, count, self.now()))

    def _on_link(self, link_id: int, what: Callable[[LinkHost], None]) -> None:
        """Tell the host of a link what happened on it."""
        shard = self._hosts.get(link_id)
        if shard is not None:
            shard.tell(link_id, what)
        else:
            what(self.endpoint)
            self.pump()

    def _link_id(self, wire: Wire) -> int | None:
        """The wire's link here, unless this side has closed it already."""
        link_id = wire.link_ids.get(wire.direction_from(self))
        return link_id if link_id is not None and self._wires.get(link_id) is wire else None
