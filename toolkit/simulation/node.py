"""A messenger on the simulated network."""

from functools import partial
from random import Random

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.driver import Driver
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason
from messenger.outputs import TraceRecord
from toolkit.scenarios.nodes import NodeApp, NodeSpec, Writer
from toolkit.simulation.clock import Clock
from toolkit.simulation.network import Network, Wire

WALL_OFFSET_S = 1_700_000_000.0
"""Unix time at the beginning of virtual time."""


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
        )
        super().__init__(endpoint, self.app)
        self.app.attach(self)
        self._clock = clock
        self._network = network
        self._wires: dict[int, Wire] = {}
        self._paused: dict[int, list[bytes]] = {}
        self._deadline_s: float | None = None
        self._pump_due = False
        if spec.listens:
            network.listen(self, spec.addrs.front)

    def crash(self) -> None:
        """Stop existing."""
        self.alive = False
        self._network.crashed(self)

    # ---- the Driver's transport

    def now(self) -> float:
        """Virtual seconds."""
        return self._clock.now_s

    def soon(self) -> None:
        """See :meth:`Driver.soon`."""
        if not self._pump_due:
            self._pump_due = True
            self._clock.after(0.0, self._pump_soon)

    def _pump_soon(self) -> None:
        self._pump_due = False
        if self.alive:
            self.pump()

    def set_timer(self, deadline_s: float | None) -> None:
        """See :meth:`Driver.set_timer`."""
        if deadline_s is not None and deadline_s != self._deadline_s:
            self._clock.at(deadline_s, partial(self._on_timer, deadline_s))
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
            self._clock.after(self._network.latency(), partial(self._refused, link_id, addr))
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
            self.endpoint.link_data(link_id, chunk, self.now())

    def shut_link(self, link_id: int) -> None:
        """See :meth:`Driver.shut_link`."""
        if (wire := self._wires.get(link_id)) is not None:
            wire.shut(self)

    def close_link(self, link_id: int) -> None:
        """See :meth:`Driver.close_link`."""
        if (wire := self._wires.pop(link_id, None)) is not None:
            wire.close(self)
        self._paused.pop(link_id, None)

    def record(self, record: TraceRecord) -> None:
        """See :meth:`Driver.record`."""
        self.app.trace(record)

    # ---- the network's Host

    def accepted(self, wire: Wire, remote: EntityAddr) -> None:
        """See :meth:`Host.accepted`."""
        link_id = self.endpoint.link_accepted(remote, self.now())
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
            self.endpoint.link_failed(link_id, reason, detail, self.now())
            self.pump()

    def received(self, wire: Wire, chunk: bytes) -> None:
        """See :meth:`Host.received`."""
        if (link_id := self._link_id(wire)) is None:
            return
        if link_id in self._paused:
            self._paused[link_id].append(chunk)
            return
        self.endpoint.link_data(link_id, chunk, self.now())
        self.pump()

    def written(self, wire: Wire, count: int) -> None:
        """See :meth:`Host.written`."""
        if (link_id := self._link_id(wire)) is not None:
            self.endpoint.link_written(link_id, count, self.now())
            self.pump()

    def _link_id(self, wire: Wire) -> int | None:
        """The wire's link here, unless this side has closed it already."""
        link_id = wire.link_ids.get(wire.direction_from(self))
        return link_id if link_id is not None and self._wires.get(link_id) is wire else None
