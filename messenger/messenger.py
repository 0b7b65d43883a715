"""The asyncio face of the messenger: an Endpoint with a clock, sockets and a dispatcher."""

import asyncio
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Self

from messenger.cephx.exchange import AuthClient, AuthServer
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.driver import Driver
from messenger.endpoint import Endpoint
from messenger.errors import Fault, FaultError, FaultReason, LocalError
from messenger.interception import Interceptor
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.outputs import TraceRecord
from messenger.randomness import RandomSource
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import Session, SessionState
from messenger.transport.tcp import Listener, TcpLink, dial, listening_socket, socket_addr

Route = Callable[[EntityAddr], tuple[str, int]]


class Connection(CoreConnection):
    """A connection that coroutines can wait for."""

    def __init__(self, driver: Driver, session: Session) -> None:
        super().__init__(driver, session)
        self._waiters: list[asyncio.Future[None]] = []

    async def ready(self, timeout_s: float | None = None) -> Self:
        """Wait until the session is open.

        Raises:
            FaultError: the peer refused it or it ended; ``fault`` says why.
            TimeoutError: neither happened in time.
        """
        if self.state is SessionState.CLOSED:
            raise FaultError(self.last_fault or Fault(FaultReason.SHUTDOWN))
        if self.state is not SessionState.READY:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            async with asyncio.timeout(timeout_s):
                await waiter
        return self

    def settled(self, fault: Fault | None) -> None:
        """Wake whoever waits in :meth:`ready`."""
        super().settled(fault)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if fault is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(FaultError(fault))


class Messenger(Driver):
    """Sends and receives messages over TCP; lives on the event loop that runs where it is made.

    Args:
        name: who this is; a client without a number unless said otherwise.
        auth_client: credentials to connect with.
        auth_server: how peers are authenticated; needed by :meth:`bind`.
        dispatcher: whom to give messages and events to.
        policies: what a fault means, per type of peer.
        config: options under Ceph's names.
        rng: randomness; the system's unless a test wants to repeat itself.
        nonce: tells two messengers of one host apart; random unless given. Monitors use 0.
        route: where to dial for an address, when that is not the address itself (a proxy in between).
        trace: receives the history, line by line.
        interceptor: asked at every point a conversation passes.
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
    ) -> None:
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
        )
        super().__init__(endpoint, Dispatcher() if dispatcher is None else dispatcher)
        self._loop = asyncio.get_running_loop()
        self._route = route
        self._trace = trace
        self._listeners: list[Listener] = []
        self._links: dict[int, TcpLink] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._abandoned_dials: set[asyncio.Task[None]] = set()
        self._can_accept = auth_server is not None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s: float | None = None
        self._pump_scheduled = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.shutdown()

    def connect(
        self, addrs: AddrVec | EntityAddr | str, peer_type: EntityType, policy: Policy | None = None
    ) -> Connection:
        """See :meth:`Driver.connect`."""
        connection = super().connect(addrs, peer_type, policy)
        assert isinstance(connection, Connection)
        return connection

    async def bind(self, host: str = "127.0.0.1", port: int = 0, protocol: Protocol = Protocol.V2) -> EntityAddr:
        """Listen for peers; returns the address they are to dial. Port 0 takes a free one.

        May be called again, for more addresses or the other protocol.

        Raises:
            LocalError: the address cannot be bound, or there is no way to authenticate peers.
        """
        if not self._can_accept:
            raise LocalError("this messenger cannot listen: it has no authentication server")
        try:
            sock = listening_socket(host, port)
        except OSError as error:
            raise LocalError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        listener = Listener(self._loop, sock, partial(self._accepted, protocol=protocol))
        self._listeners.append(listener)
        type_ = AddressType.LEGACY if protocol is Protocol.V1 else AddressType.MSGR2
        addr = listener.addr.with_nonce(self._nonce).with_type(type_)
        bound = tuple(addr for addr in self.endpoint.addrs if addr.port)
        self.endpoint.addrs = AddrVec((*bound, addr))
        return addr

    async def shutdown(self) -> None:
        """End every connection, stop listening and leave nothing behind."""
        self.endpoint.shutdown(self.now())
        self.pump()
        for connection in list(self.connections.values()):
            self._forget(connection, Fault(FaultReason.SHUTDOWN))
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.set_timer(None)
        await asyncio.gather(*self._abandoned_dials, return_exceptions=True)

    # ---- the Driver's transport

    def now(self) -> float:
        """Monotonic seconds, the clock of event loops."""
        return time.monotonic()

    def soon(self) -> None:
        """Pump at the end of this turn of the loop, so that what is sent together leaves together."""
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._scheduled_pump)

    def _scheduled_pump(self) -> None:
        self._pump_scheduled = False
        self.pump()

    def set_timer(self, deadline_s: float | None) -> None:
        """See :meth:`Driver.set_timer`."""
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

    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        """See :meth:`Driver.open_link`."""
        self._dials[link_id] = self._loop.create_task(self._dial(link_id, addr))

    async def _dial(self, link_id: int, addr: EntityAddr) -> None:
        host, port = self._route(addr) if self._route else (addr.host, addr.port)
        try:
            sock = await dial(self._loop, host, port)
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            detail = f"{host}:{port}" if refused else f"{host}:{port}: {error.strerror or error}"
            reason = FaultReason.REFUSED if refused else FaultReason.SOCKET
            self.endpoint.link_failed(link_id, reason, detail, self.now())
            self.pump()
            return
        finally:
            self._dials.pop(link_id, None)
        self.endpoint.link_opened(link_id, socket_addr(sock.getsockname()), self.now())
        self._start_link(link_id, sock)

    def _accepted(self, sock: socket.socket, remote: EntityAddr, protocol: Protocol) -> None:
        self._start_link(self.endpoint.link_accepted(remote, self.now(), protocol), sock)

    def _start_link(self, link_id: int, sock: socket.socket) -> None:
        link = self._links[link_id] = TcpLink(self._loop, self.endpoint, link_id, sock, self.pump)
        link.start()
        self.pump()

    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        """See :meth:`Driver.write_link`."""
        if (link := self._links.get(link_id)) is not None:
            link.write(buffers)

    def pause_link(self, link_id: int, *, paused: bool) -> None:
        """See :meth:`Driver.pause_link`."""
        if (link := self._links.get(link_id)) is not None:
            link.pause(paused=paused)

    def shut_link(self, link_id: int) -> None:
        """See :meth:`Driver.shut_link`."""
        if (link := self._links.get(link_id)) is not None:
            link.shut()

    def close_link(self, link_id: int) -> None:
        """See :meth:`Driver.close_link`."""
        if (link := self._links.pop(link_id, None)) is not None:
            link.close()
        elif (task := self._dials.pop(link_id, None)) is not None:
            self._abandoned_dials.add(task)
            task.add_done_callback(self._abandoned_dials.discard)
            task.cancel()

    def record(self, record: TraceRecord) -> None:
        """See :meth:`Driver.record`."""
        if self._trace is not None:
            self._trace(record)

    def failed(self, error: Exception) -> None:
        """Report a dispatcher's exception the way asyncio reports those of callbacks."""
        message = "exception in a messenger dispatcher"
        self._loop.call_exception_handler({"message": message, "exception": error})


class Inbox(Dispatcher):
    """A dispatcher for coroutines: messages wait in a queue until somebody asks.

    What waits is held against the dispatch throttle, so a slow reader stops the sender, not the memory.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[CoreConnection, Message]] = deque()
        self._readers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> bool:
        """Queue the message and wake one reader."""
        self._waiting.append((connection, message))
        self._wake()
        return True

    def _wake(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                break

    async def get(self, timeout_s: float | None = None) -> tuple[CoreConnection, Message]:
        """The next message and the connection it came on.

        Raises:
            TimeoutError: none came in time.
        """
        async with asyncio.timeout(timeout_s):
            while not self._waiting:
                await self._something()
        connection, message = self._waiting.popleft()
        connection.release(message)
        return connection, message

    async def _something(self) -> None:
        reader = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        try:
            await reader
        except asyncio.CancelledError:
            if reader in self._readers:
                self._readers.remove(reader)
            elif not reader.cancelled():
                self._wake()  # what this reader was woken for is for another one now
            raise
