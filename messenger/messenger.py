"""The asyncio messenger: an Endpoint with a clock, a transport and a dispatcher."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Self

from messenger.addressing import in_order
from messenger.arguments import check_arguments, check_place, check_protocol
from messenger.calls import ToShard
from messenger.cephx.exchange import AuthClient, AuthServer
from messenger.compat import override
from messenger.config import Config
from messenger.connection import Connection as CoreConnection
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Driver, addrs_of
from messenger.endpoint import Endpoint
from messenger.errors import Fault, FaultError, FaultReason, LocalError, check_seconds, describe
from messenger.interception import Interceptor
from messenger.keylog import LinkSecrets
from messenger.outputs import CallHome, TraceRecord
from messenger.owner import Owner
from messenger.protocols import Protocol
from messenger.randomness import RandomSource
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import Session
from messenger.session.states import SessionState
from messenger.transport.base import Listener, Stream, Transport
from messenger.transport.binding import listen, transport_of, wanted_addrs
from messenger.transport.key_log import key_log_writer
from messenger.transport.stream_link import StreamLink
from messenger.transport.worker import MovedStream, ToHomeLoop, Worker

_CLOCK_LOOK_S = 1.0
"""Seconds between two comparisons of the wall clock with the monotonic clock."""

Route = Callable[[EntityAddr], tuple[str, int]]


class Connection(CoreConnection):
    """A connection whose state coroutines can wait for."""

    def __init__(self, driver: Driver, session: Session) -> None:
        super().__init__(driver, session)
        self._waiters: list[asyncio.Future[None]] = []

    async def ready(self, timeout_s: float | None = None) -> Self:
        """Wait until the session is READY. A session in STANDBY dials, unless its policy makes it a server.

        While a caller waits, a dial that fails is repeated, also if nothing is queued.

        Args:
            timeout_s: seconds to wait; None waits without limit.

        Raises:
            FaultError: the peer refused the session, or the session ended; ``fault`` says why.
            TimeoutError: neither happened within ``timeout_s``; the text has the fault of the last dial, if any.
            LocalError: ``timeout_s`` is no number.
        """
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        if self.state is SessionState.CLOSED:
            raise FaultError(self.last_fault or Fault(FaultReason.SHUTDOWN))
        if self.state is not SessionState.READY:
            self.wake()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self.session.awaited += 1
            try:
                async with asyncio.timeout(timeout_s):
                    await waiter
            except TimeoutError:
                why = f": {self.last_fault}" if self.last_fault is not None else ""
                raise TimeoutError(f"{self!r} is not READY after {timeout_s} s{why}") from None
            finally:
                self.session.awaited -= 1
                if waiter in self._waiters:  # the wait timed out or was cancelled
                    self._waiters.remove(waiter)
        return self

    async def shutdown(self) -> None:
        """Send what is queued, then close the session; see :meth:`begin_shutdown`."""
        if self.is_loopback:
            return
        self.begin_shutdown()
        while self.state is not SessionState.CLOSED:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            with contextlib.suppress(FaultError):  # the session was refused or has ended
                await waiter

    def settled(self, fault: Fault | None) -> None:
        """Wake the tasks that wait in :meth:`ready`."""
        super().settled(fault)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if fault is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(FaultError(fault))


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise LocalError("a messenger lives on an event loop: make it in a coroutine") from None


def _checked(transport: Transport, workers: int) -> Transport:
    if workers and not transport.crosses_threads:
        raise LocalError(f"workers={workers}: streams of {transport!r} stay on one thread; give 0")
    return transport


class Messenger(Driver):
    """Sends and receives messages. Belongs to the event loop that is running when it is created.

    Args:
        name: this messenger's entity name; by default a client without a number.
        auth_client: credentials with which it authenticates to peers that it dials.
        auth_server: authenticates peers that dial it; required by :meth:`bind`.
        dispatcher: receives messages and session events.
        policies: what a session does after a fault (replay, reconnect, wait or end), by the peer's entity type.
        config: options under Ceph's names.
        rng: source of random numbers; a seeded one makes a test repeatable. Default: the system's.
        nonce: distinguishes messengers with the same IP address and port; random unless given. Monitors use 0.
        route: maps the address of a peer to the host and port to dial instead, such as those of a proxy.
        trace: called with each record of the history.
        interceptor: called at every breakpoint of a link or session.
        workers: number of threads, each with its own event loop, that run the data phase of open links: framing,
            crcs, encryption and sockets. Dispatchers still run on the loop on which the messenger was created.
        key_log: file to which the keys of every link are appended, for decoding a capture (docs/keylog.md), or a
            function that takes its lines. Anyone who has the log can decrypt secure links.
        transport: carries the byte streams; by default TCP or RDMA, as the option ``ms_type`` says.

    Raises:
        LocalError: no event loop is running, an argument has the wrong type, the key log cannot be written, this
            machine lacks the transport, or ``workers`` is above 0 and the transport's streams cannot move to other
            threads.
    """

    connection_class = Connection

    def __init__(
        self,
        name: EntityName | None = None,
        *,
        auth_client: AuthClient | None = None,
        auth_server: AuthServer | None = None,
        dispatcher: Dispatcher | None = None,
        policies: PolicySet | None = None,
        config: Config | None = None,
        rng: RandomSource | None = None,
        nonce: int | None = None,
        route: Route | None = None,
        trace: Callable[[TraceRecord], None] | None = None,
        interceptor: Interceptor | None = None,
        workers: int = 0,
        key_log: Path | str | Callable[[str], None] | None = None,
        transport: Transport | None = None,
    ) -> None:
        check_arguments(
            name=name,
            auth_client=auth_client,
            auth_server=auth_server,
            policies=policies,
            config=config,
            rng=rng,
            nonce=nonce,
            route=route,
            trace=trace,
            interceptor=interceptor,
            workers=workers,
            key_log=key_log,
            transport=transport,
        )
        self._loop = _running_loop()
        self._owner = Owner(self._loop)
        self._transport = _checked(transport or transport_of(config or Config()), workers)
        self._key_log = key_log_writer(key_log) if isinstance(key_log, Path | str) else key_log
        rng = rng or random.SystemRandom()
        self._nonce = rng.getrandbits(32) if nonce is None else nonce
        endpoint = Endpoint(
            name or EntityName(EntityType.CLIENT),
            AddrVec((EntityAddr.blank(AddressType.ANY, self._nonce),)),
            rng=rng,
            auth_client=auth_client,
            auth_server=auth_server,
            policies=policies,
            config=config,
            wall_offset_s=time.time() - time.monotonic(),
            tracing=trace is not None,
            interceptor=interceptor,
            shards=workers,
            key_log=key_log is not None,
        )
        super().__init__(endpoint, Dispatcher() if dispatcher is None else dispatcher)
        self._route = route
        self._trace = trace
        self._listeners: list[Listener] = []
        self._links: dict[int, StreamLink] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._abandoned_dials: set[asyncio.Task[None]] = set()
        self._can_accept = auth_server is not None
        self._has_policies = policies is not None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s: float | None = None
        self._pump_scheduled = False
        self._clock_due_s = 0.0
        self._for_workers: dict[int, tuple[list[MovedStream], list[ToShard]]] = {}
        """By shard: links and calls to hand to its worker at the end of this turn of the loop."""
        self._workers: list[Worker] = []
        self._start_workers(workers)

    def _start_workers(self, count: int) -> None:
        try:
            for index in range(1, count + 1):
                shard = self.endpoint.shards.new_shard(index)
                self._workers.append(Worker(shard, self._loop, self._from_worker))
        except (OSError, RuntimeError) as error:  # out of descriptors or threads
            for worker in self._workers:
                worker.stop()
            raise LocalError(f"workers={count}: only {len(self._workers)} could be started: {error}") from None

    async def __aenter__(self) -> Self:
        if self.endpoint.is_shut:
            raise LocalError("this messenger has been shut down")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.shutdown()

    @override
    def connect(
        self,
        addrs: AddrVec | EntityAddr | str,
        peer_type: EntityType,
        policy: Policy | None = None,
        *,
        anonymous: bool = False,
    ) -> Connection:
        connection = super().connect(addrs, peer_type, policy, anonymous=anonymous)
        assert isinstance(connection, Connection)
        return connection

    async def bind(self, host: str = "127.0.0.1", port: int = 0, protocol: Protocol = Protocol.V2) -> EntityAddr:
        """Listen for peers. Returns the address that they dial.

        May be called again, to listen on more addresses or with the other protocol.

        Args:
            host: numeric IP address.
            port: TCP port; 0 takes a free one.
            protocol: protocol that this address accepts.

        Raises:
            LocalError: the address cannot be bound, the messenger has no authentication server, no policies were
                given for its peers, or it has been shut down.
        """
        self._check_can_listen()
        check_place("listen on", host, port)
        check_protocol(protocol)
        try:
            listener = self._transport.listen(host, port, self.endpoint.config)
        except OSError as error:
            raise LocalError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        return self._listen(listener, protocol)

    async def bind_all(self, addrs: AddrVec | EntityAddr | str | None = None) -> AddrVec:
        """Listen on several addresses, all of them or none. Returns this messenger's addresses, v2 before v1.

        Args:
            addrs: the type of each address gives its protocol; one without a port gets the first free port from
                ``ms_bind_port_min`` to ``ms_bind_port_max``. Default: the protocols and address families that the
                options ``ms_bind_*`` enable.

        Raises:
            LocalError: an address cannot be bound after ``ms_bind_retry_count`` attempts, or as :meth:`bind`.
        """
        self._check_can_listen()
        if addrs is None:
            addrs = wanted_addrs(self.endpoint.config, self.endpoint.protocols)
        with ExitStack() as on_failure:
            found = []
            for addr in addrs_of(addrs):
                if not addr.ip:
                    raise LocalError(f"{addr} has no IP address to listen on; 0.0.0.0 and [::] are all of them")
                listener = await listen(self._transport, addr.host, addr.port, self.endpoint.config)
                on_failure.callback(listener.close)
                found.append((listener, Protocol.of(addr)))
            self._check_can_listen()  # the messenger may have been shut down during a pause
            on_failure.pop_all()
        for listener, protocol in found:
            self._listen(listener, protocol)
        return self.addrs

    def _check_can_listen(self) -> None:
        self._owner.check_coroutine()
        if self.endpoint.is_shut:
            raise LocalError("this messenger has been shut down")
        if not self._can_accept:
            raise LocalError("this messenger cannot listen: it has no authentication server")
        if not self._has_policies:
            # The default policy reconnects to its peers, which is wrong for a messenger that listens.
            hint = "policies=PolicySet(STATELESS_SERVER) or PolicySet.for_messenger('osd public'), for example"
            raise LocalError(f"this messenger cannot listen: it has no policies for its peers; give {hint}")

    def _listen(self, listener: Listener, protocol: Protocol) -> EntityAddr:
        listener.start(partial(self._accepted, protocol=protocol), self._accept_failed)
        self._listeners.append(listener)
        addr = listener.addr.with_nonce(self._nonce).with_type(protocol.addr_type)
        bound = tuple(addr for addr in self.endpoint.addrs if addr.port)
        self.endpoint.addrs = in_order((*bound, addr))
        return addr

    async def shutdown(self, *, graceful: bool = False) -> None:
        """Close every connection and listener, and stop the workers.

        Args:
            graceful: first send what is queued on every connection, for up to ``ms_shutdown_timeout``; no new
                connection is accepted meanwhile. If this wait is cancelled, everything is closed at once.

        Raises:
            LocalError: called on another event loop than the messenger's.
        """
        self._owner.check_coroutine()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        try:
            if graceful:
                await asyncio.gather(*(self._shut(connection) for connection in list(self.connections.values())))
        finally:
            await self._end()

    async def _end(self) -> None:
        """Close every connection, and stop the workers."""
        self.endpoint.shutdown(self.now())
        self.pump()
        for connection in list(self.connections.values()):
            self._forget(connection, Fault(FaultReason.SHUTDOWN))
        self.set_timer(None)
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        if workers:
            await asyncio.sleep(0)  # lets the workers' last calls reach this loop
        await asyncio.gather(*self._abandoned_dials, return_exceptions=True)

    @staticmethod
    async def _shut(connection: CoreConnection) -> None:
        assert isinstance(connection, Connection)
        await connection.shutdown()

    # ---- workers

    @override
    def pump(self) -> None:
        """Carry out the endpoint's outputs, then hand the workers their links and calls."""
        self.check_caller()
        super().pump()
        if time.monotonic() >= self._clock_due_s:
            self._read_wall_clock()
        if self._for_workers and self._turn_s is None:
            for_workers, self._for_workers = self._for_workers, {}
            for shard, (streams, calls) in for_workers.items():
                if self._workers:  # a release after the shutdown has no effect
                    self._workers[shard - 1].call(streams, calls)

    def _read_wall_clock(self) -> None:
        """Update the endpoint's wall clock, which may have been set or have run on while the machine slept."""
        now = time.monotonic()
        self._clock_due_s = now + _CLOCK_LOOK_S
        self.endpoint.set_wall_clock(time.time() - now)

    @override
    def move_link(self, link_id: int, shard: int) -> None:
        self._for_worker(shard)[0].append((link_id, *self._links.pop(link_id).hand_over()))

    @override
    def call_shard(self, shard: int, call: ToShard) -> None:
        self._for_worker(shard)[1].append(call)

    def _for_worker(self, shard: int) -> tuple[list[MovedStream], list[ToShard]]:
        return self._for_workers.setdefault(shard, ([], []))

    def _from_worker(self, outputs: ToHomeLoop) -> None:
        for output in outputs:
            if isinstance(output, CallHome):
                self.endpoint.shard_call(output.call, self.now())
            else:
                self._carry_out(output)
        self.pump()

    # ---- the Driver's transport

    def now(self) -> float:
        """Monotonic time in seconds, on the clock of the event loop."""
        return time.monotonic()

    def soon(self) -> None:
        """Pump at the end of this turn of the loop, so that messages sent in one turn leave in one write."""
        if not self._pump_scheduled:
            self._owner.check_loop()
            self._loop.call_soon(self._scheduled_pump)
            self._pump_scheduled = True

    @override
    def check_caller(self) -> None:
        if get_ident() != self._owner.thread_id:
            self._owner.refuse_thread()

    def _scheduled_pump(self) -> None:
        self._pump_scheduled = False
        self.pump()

    @override
    def set_timer(self, deadline_s: float | None) -> None:
        if deadline_s == self._deadline_s:
            return
        self._deadline_s = deadline_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if deadline_s is None else self._loop.call_at(deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        assert self._deadline_s is not None
        due_s = self._deadline_s
        self._timer = self._deadline_s = None
        # The loop runs a timer up to its clock's resolution early.
        self.endpoint.timer(max(self.now(), due_s))
        self.pump()

    @override
    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        self._dials[link_id] = self._loop.create_task(self._dial(link_id, addr))

    async def _dial(self, link_id: int, addr: EntityAddr) -> None:
        where = str(addr)
        try:
            host, port = self._route(addr) if self._route else (addr.host, addr.port)
            check_place("dial", host, port)
            where = f"{host}:{port}"
            stream = await self._transport.dial(host, port, self.endpoint.config, source=self._source(host))
        except ConnectionRefusedError:
            self._dial_failed(link_id, FaultReason.REFUSED, where)
        except OSError as error:
            self._dial_failed(link_id, FaultReason.SOCKET, f"{where}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - of the application's route or transport; the dial fails
            self.failed(error)
            self._dial_failed(link_id, FaultReason.LOCAL, describe(error))
        else:
            self._dials.pop(link_id, None)
            self.endpoint.link_opened(link_id, stream.local_addr, self.now())
            self._start_link(link_id, stream)

    def _dial_failed(self, link_id: int, reason: FaultReason, detail: str) -> None:
        self._dials.pop(link_id, None)
        self.endpoint.link_failed(link_id, reason, detail, self.now())
        self.pump()

    def _source(self, host: str) -> str:
        """The local IP address to dial from; empty if the kernel chooses it."""
        if not self.endpoint.config.ms_bind_before_connect:
            return ""
        mine = (addr for addr in self.addrs if addr.port and not addr.is_blank_ip)
        return next((addr.host for addr in mine if (":" in addr.host) == (":" in host)), "")

    def _accepted(self, stream: Stream, protocol: Protocol) -> None:
        link_id = self.endpoint.link_accepted(stream.peer_addr, self.now(), protocol, stream.local_addr)
        self._start_link(link_id, stream)

    def _accept_failed(self, detail: str) -> bool:
        made_room = self.endpoint.accept_failed(detail, self.now())
        self.pump()
        return made_room

    def _start_link(self, link_id: int, stream: Stream) -> None:
        link = self._links[link_id] = StreamLink(stream, self.endpoint, link_id, self.pump)
        link.start()
        self.pump()

    def stream(self, link_id: int) -> Stream | None:
        """The byte stream of an open link, for tests and fault injection; None if a worker runs the link."""
        link = self._links.get(link_id)
        return link.stream if link is not None else None

    @override
    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        if (link := self._links.get(link_id)) is not None:
            link.write(buffers)

    @override
    def pause_link(self, link_id: int, *, paused: bool) -> None:
        if (link := self._links.get(link_id)) is not None:
            link.pause(paused=paused)

    @override
    def shut_link(self, link_id: int) -> None:
        if (link := self._links.get(link_id)) is not None:
            link.shut()

    @override
    def close_link(self, link_id: int) -> None:
        if (link := self._links.pop(link_id, None)) is not None:
            link.close()
        elif (task := self._dials.pop(link_id, None)) is not None:
            self._abandoned_dials.add(task)
            task.add_done_callback(self._abandoned_dials.discard)
            task.cancel()

    @override
    def record(self, record: TraceRecord) -> None:
        if self._trace is not None:
            self._trace(record)

    @override
    def log_keys(self, secrets: LinkSecrets) -> None:
        """Append the keys of a link to the key log. A full disk does not stop the messenger."""
        assert self._key_log is not None
        try:
            self._key_log(secrets.line())
        except OSError as error:
            self._loop.call_exception_handler({"message": "the key log cannot be written", "exception": error})

    def failed(self, error: BaseException) -> None:
        """Report an exception of the application as asyncio reports those of its callbacks."""
        message = "exception in the application of a messenger"
        self._loop.call_exception_handler({"message": message, "exception": error})
