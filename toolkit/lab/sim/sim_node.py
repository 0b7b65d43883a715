"""A messenger on the simulated network, with further shards if its spec has workers."""

from collections.abc import Callable
from functools import partial
from random import Random

from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.driver import Connection, Driver
from messenger.endpoint import Endpoint
from messenger.errors import Fault, FaultReason
from messenger.host import LinkHost
from messenger.link import Protocol
from messenger.outputs import CallHome, Output, TraceRecord
from messenger.receive import SCRATCH_BYTES
from messenger.session.session import SessionState
from messenger.shards.calls import ToHome, ToShard
from toolkit.lab.sim.clock import Clock
from toolkit.lab.sim.network import Network, Wire
from toolkit.node import NodeApp, NodeSpec, Writer

_LONGEST_HOP_S = 0.01
_SCRATCH = memoryview(bytearray(SCRATCH_BYTES))
"""The read buffer of every link of every simulated node: its contents are not used after a read."""
WALL_OFFSET_S = 1_700_000_000.0
"""Unix time at the start of virtual time."""


class SimShard:
    """A further shard of a node."""

    def __init__(self, node: "SimNode", index: int) -> None:
        self._node = node
        self._host = node.endpoint.shards.new_shard(index)
        self._host.scratch = _SCRATCH
        self._expected: dict[int, list[Callable[[LinkHost], None]]] = {}
        """By link, what happened on links that are being moved here and have not arrived."""
        self._pumping = False
        self._deadline_s: float | None = None

    def expect(self, link_id: int) -> None:
        """Note that a link is being moved here."""
        self._expected[link_id] = []

    def notify(self, link_id: int, what: Callable[[LinkHost], None]) -> None:
        """Handle an event of a link of this shard, or keep it until the link has arrived."""
        if link_id in self._expected:
            self._expected[link_id].append(what)
        elif self._node.alive:
            what(self._host)
            self.pump()

    def called(self, call: ToShard) -> None:
        """Handle a call from the home shard."""
        if not self._node.alive or self._node.put_off(partial(self.called, call)):
            return
        self._host.call(call, self._node.now())
        for link_id in [link_id for link_id in self._expected if link_id in self._host.link_ids]:
            for what in self._expected.pop(link_id):
                what(self._host)
        self.pump()

    def pump(self) -> None:
        """Carry out the shard's outputs in order; outputs that they cause come after all others."""
        if self._pumping:
            return
        self._pumping = True
        while outputs := self._host.drain(self._node.now()):
            for output in outputs:
                self._node.from_shard(output)
        self._pumping = False
        deadline_s = self._host.next_deadline()
        if deadline_s is not None and deadline_s != self._deadline_s:
            self._node.clock.at(deadline_s, partial(self._on_timer, deadline_s))
        self._deadline_s = deadline_s

    def _on_timer(self, deadline_s: float) -> None:
        if self._node.put_off(partial(self._on_timer, deadline_s)):
            return
        if self._node.alive and self._deadline_s == deadline_s:
            self._deadline_s = None
            self._host.timer(self._node.now())
            self.pump()


class SimNode(Driver):
    """A host with one messenger and the scenarios' application on it."""

    def __init__(
        self, spec: NodeSpec, clock: Clock, network: Network, write: Writer, *, intercepted: bool = True
    ) -> None:
        self.name = spec.name
        self.alive = True
        self.app = NodeApp(spec, write)
        endpoint = Endpoint(
            spec.entity_name,
            spec.addrs,
            rng=Random(f"{spec.seed} {spec.name} {spec.incarnation}"),
            auth_client=self.app.logins.credentials.client,
            auth_server=self.app.logins.credentials.server,
            policies=spec.policies(),
            config=spec.config(),
            wall_offset_s=WALL_OFFSET_S,
            tracing=True,
            interceptor=self.app.points if intercepted else None,
            shards=spec.workers,
        )
        endpoint.scratch = _SCRATCH
        super().__init__(endpoint, self.app)
        self.app.attach(self, self.stop)
        self.clock = clock
        self._network = network
        self._wires: dict[int, Wire] = {}
        self._paused: dict[int, list[bytes]] = {}
        self._moving: dict[int, list[bytes]] = {}
        """By link, bytes to read again on links that the home shard has given away and that are not moved yet."""
        self._hosts: dict[int, SimShard] = {}
        """The further shards that have links, or to which links are being moved, by link."""
        self._deadline_s: float | None = None
        self._pump_due = False
        self._on_stopped: Callable[[], None] | None = None
        self._listens = spec.listens
        self._ending: list[Connection] = []
        """Connections that a graceful shutdown waits for."""
        self._stopped: list[Callable[[], None]] | None = None
        """What has happened since the process was stopped, in order; None while it runs."""
        self.takes_error: Callable[[BaseException], bool] = lambda _error: False
        """Returns True if the lab caused the application to raise the error."""
        self._shards = [SimShard(self, index + 1) for index in range(spec.workers)]
        self._rng = Random(f"{spec.seed} {spec.name} {spec.incarnation} shards")
        if spec.listens:
            for addr in spec.addrs:
                network.listen(self, addr)

    def failed(self, error: BaseException) -> None:
        """Report an error of the application to the lab; if the lab does not take it, it ends the run."""
        if not self.takes_error(error):
            super().failed(error)

    def crash(self) -> None:
        """End the node without warning, as SIGKILL does."""
        self.alive = False
        self._stopped = None
        self._network.crashed(self)

    def stop(self, graceful: bool, stopped: Callable[[], None]) -> None:  # noqa: FBT001 - as a live node's
        """Shut down as a live messenger does; ``stopped`` is called when that is complete."""
        self._network.unlisten(self)
        self._on_stopped = stopped
        self._listens = False
        if graceful:
            self._ending = [connection for connection in self.connections.values() if not connection.is_loopback]
            for connection in self._ending:
                connection.begin_shutdown()
        else:
            self.endpoint.shutdown(self.now())
        self.soon()

    @override
    def pump(self) -> None:
        """Carry out the outputs; a shutdown is complete once every session is closed."""
        super().pump()
        if self._on_stopped is None or self._turn_s is not None:
            return
        if any(connection.state is not SessionState.CLOSED for connection in self._ending):
            return
        self.endpoint.shutdown(self.now())
        super().pump()
        if not self.endpoint.link_count:
            stopped, self._on_stopped = self._on_stopped, None
            for connection in list(self.connections.values()):
                self._forget(connection, Fault(FaultReason.SHUTDOWN))
            stopped()

    def pause(self) -> None:
        """Stop the process as SIGSTOP does: bytes, dials and timers wait until :meth:`resume`."""
        if self._stopped is None:
            self._stopped = []

    def resume(self) -> None:
        """Continue the process as SIGCONT does: everything that has waited happens, in order."""
        piled_up, self._stopped = self._stopped, None
        for happen in piled_up or ():
            happen()

    @property
    def paused(self) -> bool:
        """True if the process is stopped."""
        return self._stopped is not None

    def put_off(self, happen: Callable[[], None]) -> bool:
        """Return True if the process is stopped, and call ``happen`` when it continues."""
        if self._stopped is None:
            return False
        self._stopped.append(happen)
        return True

    # ---- other shards

    def hop_s(self) -> float:
        """Draw the time in seconds that the next call between shards takes; calls may overtake each other."""
        return self._rng.uniform(0.0, _LONGEST_HOP_S)

    @override
    def call_shard(self, shard: int, call: ToShard) -> None:
        self.clock.after(self.hop_s(), partial(self._shards[shard - 1].called, call))

    def called_home(self, call: ToHome) -> None:
        """Handle a call of a shard."""
        if self.put_off(partial(self.called_home, call)):
            return
        if self.alive:
            self.endpoint.shard_call(call, self.now())
            self.pump()

    @override
    def move_link(self, link_id: int, shard: int) -> None:
        self._shards[shard - 1].expect(link_id)
        self._hosts[link_id] = self._shards[shard - 1]
        self._read(link_id, self._moving.pop(link_id, []))

    def from_shard(self, output: Output) -> None:
        """Carry out an output of a shard."""
        if isinstance(output, CallHome):
            self.clock.after(self.hop_s(), partial(self.called_home, output.call))
        else:
            self._carry_out(output)

    # ---- the Driver's transport

    def now(self) -> float:
        """Virtual seconds."""
        return self.clock.now_s

    @override
    def soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self.clock.after(0.0, self._pump_soon)

    def _pump_soon(self) -> None:
        if self.put_off(self._pump_soon):
            return
        self._pump_due = False
        if self.alive:
            self.pump()

    @override
    def set_timer(self, deadline_s: float | None) -> None:
        if deadline_s is not None and deadline_s != self._deadline_s:
            self.clock.at(deadline_s, partial(self._on_timer, deadline_s))
        self._deadline_s = deadline_s

    def _on_timer(self, deadline_s: float) -> None:
        if self.put_off(partial(self._on_timer, deadline_s)):
            return
        if self.alive and self._deadline_s == deadline_s:
            self._deadline_s = None
            self.endpoint.timer(self.now())
            self.pump()

    @override
    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        wire = self._network.dial(self, link_id, addr)
        if wire is None:
            self.clock.after(self._network.latency(), partial(self._refused, link_id, addr))
        else:
            self._wires[link_id] = wire

    def _refused(self, link_id: int, addr: EntityAddr) -> None:
        if self.put_off(partial(self._refused, link_id, addr)):
            return
        if self.alive:
            self.endpoint.link_failed(link_id, FaultReason.REFUSED, f"{addr.host}:{addr.port}", self.now())
            self.pump()

    @override
    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        if (wire := self._wires.get(link_id)) is not None:
            wire.write(self, b"".join(buffers))

    @override
    def pause_link(self, link_id: int, *, paused: bool) -> None:
        if paused:
            self._paused[link_id] = []
            return
        chunks = self._paused.pop(link_id, [])
        if link_id in self._hosts or link_id in self.endpoint.link_ids:
            self._read(link_id, chunks)
        else:
            self._moving[link_id] = chunks

    def _read(self, link_id: int, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._on_link(link_id, lambda host, chunk=chunk: host.link_data(link_id, chunk, self.now()))  # type: ignore[misc]

    @override
    def shut_link(self, link_id: int) -> None:
        if (wire := self._wires.get(link_id)) is not None:
            wire.shut(self)

    @override
    def close_link(self, link_id: int) -> None:
        if (wire := self._wires.pop(link_id, None)) is not None:
            wire.close(self)
        self._paused.pop(link_id, None)
        self._moving.pop(link_id, None)
        self._hosts.pop(link_id, None)

    @override
    def record(self, record: TraceRecord) -> None:
        self.app.trace(record)

    # ---- the network's Host

    def accepted(self, wire: Wire, remote: EntityAddr) -> None:
        """Handle a peer's dial of this host."""
        if self._stopped is not None:
            self._stopped.append(partial(self.accepted, wire, remote))
            return
        if not self._listens:
            wire.close(self)
            return
        link_id = self.endpoint.link_accepted(remote, self.now(), Protocol.of(wire.dialled))
        wire.link_ids[wire.direction_from(self)] = link_id
        self._wires[link_id] = wire
        self.pump()

    def opened(self, wire: Wire, local: EntityAddr) -> None:
        """Handle a successful dial of this host."""
        if self._stopped is not None:
            self._stopped.append(partial(self.opened, wire, local))
            return
        self.endpoint.link_opened(wire.link_id(self), local, self.now())
        self.pump()

    def broken(self, wire: Wire, reason: FaultReason, detail: str) -> None:
        """Handle a broken stream or a failed dial."""
        if self._stopped is not None:
            self._stopped.append(partial(self.broken, wire, reason, detail))
            return
        if (link_id := self._link_id(wire)) is not None:
            self._on_link(link_id, lambda host: host.link_failed(link_id, reason, detail, self.now()))

    def received(self, wire: Wire, chunk: bytes) -> None:
        """Handle received bytes."""
        if self._stopped is not None:
            self._stopped.append(partial(self.received, wire, chunk))
            return
        if (link_id := self._link_id(wire)) is None:
            return
        if link_id in self._paused:
            self._paused[link_id].append(chunk)
            return
        if link_id in self._hosts:
            self._on_link(link_id, lambda host: host.link_data(link_id, chunk, self.now()))
        else:
            self.endpoint.link_data(link_id, chunk, self.clock.now_s)
            self.pump()

    def written(self, wire: Wire, count: int) -> None:
        """Handle written bytes."""
        if self._stopped is not None:
            self._stopped.append(partial(self.written, wire, count))
            return
        if (link_id := self._link_id(wire)) is None:
            return
        if link_id in self._hosts:
            self._on_link(link_id, lambda host: host.link_written(link_id, count, self.now()))
        else:
            self.endpoint.link_written(link_id, count, self.clock.now_s)
            if not self.endpoint.idle:
                self.pump()

    def _on_link(self, link_id: int, what: Callable[[LinkHost], None]) -> None:
        """Hand an event of a link to the shard that runs it."""
        shard = self._hosts.get(link_id)
        if shard is not None:
            shard.notify(link_id, what)
        else:
            what(self.endpoint)
            self.pump()

    def _link_id(self, wire: Wire) -> int | None:
        """The wire's link on this node; None if this side has closed it."""
        link_id = wire.link_ids.get(wire.direction_from(self))
        return link_id if link_id is not None and self._wires.get(link_id) is wire else None
