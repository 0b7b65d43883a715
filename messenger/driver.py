"""Carries out what the core asks for, whatever the transport: the part that all drivers share.

A driver owns an Endpoint, a clock and byte streams. Subclasses say how to open, write, pause and close links;
the asyncio one is messenger.py, the simulator has another.
"""

from abc import ABC, abstractmethod
from typing import cast

from messenger.connection import Connection
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher, Dispatchers
from messenger.dispatch_queue import DispatchQueue, Handler
from messenger.endpoint import Endpoint
from messenger.errors import DieError, Fault, FaultReason, LocalError
from messenger.keylog import LinkSecrets
from messenger.messages.message import Message
from messenger.outputs import (
    CallShard,
    CloseLink,
    Deliver,
    EventKind,
    LogKeys,
    MoveLink,
    OpenLink,
    Output,
    PauseLink,
    SessionEvent,
    ShutLink,
    TraceRecord,
    WriteLink,
)
from messenger.perf import PerfDump, prometheus
from messenger.session.policy import Policy
from messenger.session.session import Session, SessionState
from messenger.shards.calls import ToShard

__all__ = ["Connection", "Driver"]


class Driver(ABC):
    """An endpoint being driven."""

    connection_class: type[Connection] = Connection

    def __init__(self, endpoint: Endpoint, dispatcher: Dispatcher) -> None:
        self.endpoint = endpoint
        self.dispatchers = Dispatchers(dispatcher)
        self._queue = DispatchQueue(endpoint.config, self.dispatchers, self._dispatch)
        self._in_order = not endpoint.config.dispatch_by_priority
        self._by_batch = self._in_order and not self.dispatchers.has_fast
        self.connections: dict[int, Connection] = {}
        """Open connections by session id."""
        self._shutting: dict[int, Connection] = {}
        # When the present pump began, None between pumps. Whatever happens within one has one time.
        self._turn_s: float | None = None

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher that is asked first; to set it is to have no other."""
        return next(iter(self.dispatchers))

    @dispatcher.setter
    def dispatcher(self, dispatcher: Dispatcher) -> None:
        self.dispatchers.replace(dispatcher)
        self._by_batch = self._in_order and not self.dispatchers.has_fast

    @property
    def addrs(self) -> AddrVec:
        """Own addresses, as peers are told."""
        return self.endpoint.addrs

    # ---- what a transport provides

    @abstractmethod
    def now(self) -> float:
        """Monotonic seconds."""

    @abstractmethod
    def soon(self) -> None:
        """Arrange for :meth:`pump` to run when the present caller, which is not a pump, is done."""

    @abstractmethod
    def set_timer(self, deadline_s: float | None) -> None:
        """Arrange for the endpoint's timer to be called at ``deadline_s``; None cancels."""

    @abstractmethod
    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        """Dial."""

    @abstractmethod
    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        """Write behind what is pending."""

    @abstractmethod
    def pause_link(self, link_id: int, *, paused: bool) -> None:
        """Stop or go on reading."""

    @abstractmethod
    def shut_link(self, link_id: int) -> None:
        """Shut the stream down both ways, behind what was written; the link stays until it is closed."""

    @abstractmethod
    def close_link(self, link_id: int) -> None:
        """Close at once."""

    @abstractmethod
    def record(self, record: TraceRecord) -> None:
        """A line of the history; called only if the endpoint traces."""

    def move_link(self, link_id: int, shard: int) -> None:
        """Hand a byte stream to another shard; only for drivers that have any."""
        raise LocalError(f"link {link_id} cannot move: there is no shard {shard}")

    def call_shard(self, shard: int, call: ToShard) -> None:
        """Let another shard have a call; only for drivers that have any."""
        raise LocalError(f"{call!r}: there is no shard {shard}")

    def log_keys(self, secrets: LinkSecrets) -> None:
        """Write a line of the key log; only for drivers whose endpoint keeps one."""
        raise LocalError(f"no key log for {secrets.protocol} link {secrets.link}")

    def failed(self, error: Exception) -> None:
        """A dispatcher callback raised; the messenger itself goes on."""
        raise error

    # ---- for applications

    def add_dispatcher_head(self, dispatcher: Dispatcher) -> None:
        """Ask this dispatcher before all others, from the next message on."""
        self._add_dispatcher(dispatcher, head=True)

    def add_dispatcher_tail(self, dispatcher: Dispatcher) -> None:
        """Ask this dispatcher after all others."""
        self._add_dispatcher(dispatcher, head=False)

    def _add_dispatcher(self, dispatcher: Dispatcher, *, head: bool) -> None:
        self.dispatchers.add(dispatcher, head=head)
        self._by_batch = self._in_order and not self.dispatchers.has_fast

    @property
    def loopback(self) -> Connection:
        """The connection to oneself: what is sent on it is dispatched here, in order."""
        return self._connection(self.endpoint.loopback)

    def connect(
        self,
        addrs: AddrVec | EntityAddr | str,
        peer_type: EntityType,
        policy: Policy | None = None,
        *,
        anonymous: bool = False,
    ) -> Connection:
        """The connection to the peer at ``addrs``: the existing one, or a new one that starts to dial.

        One's own address gives :attr:`loopback`. An ``anonymous`` connection is always a new one, and nobody
        finds it by the peer's address.

        Raises:
            LocalError: the address is not usable; see Endpoint.connect.
        """
        if isinstance(addrs, str):
            addrs = AddrVec.parse(addrs)
        elif isinstance(addrs, EntityAddr):
            addrs = AddrVec((addrs,))
        session = self.endpoint.connect(addrs, peer_type, self._input(), policy, anonymous=anonymous)
        return self._connection(session)

    def send(self, connection: Connection, message: Message) -> bool:
        """See :meth:`Connection.send`."""
        return self.endpoint.send(connection.session, message, self._input())

    def keepalive(self, connection: Connection) -> None:
        """See :meth:`Connection.keepalive`."""
        self.endpoint.send_keepalive(connection.session, self._input())

    def keep_alive(self, connection: Connection, interval_s: float | None, timeout_s: float | None) -> None:
        """See :meth:`Connection.keep_alive`."""
        config = self.endpoint.config
        interval_s = config.mon_client_ping_interval if interval_s is None else interval_s
        timeout_s = config.mon_client_ping_timeout if timeout_s is None else timeout_s
        self.endpoint.keep_alive(connection.session, interval_s, timeout_s, self._input())

    def release(self, connection: Connection, message: Message) -> None:
        """See :meth:`Connection.release`."""
        self.endpoint.release(message.size_bytes, self._input(), connection.session)

    def perf_dump(self) -> PerfDump:
        """What was counted so far, shaped like ``ceph daemon NAME perf dump``."""
        return self.endpoint.perf_dump()

    def prometheus(self) -> str:
        """The same as Prometheus text, named as Ceph's exporter names it."""
        return prometheus(self.perf_dump(), str(self.endpoint.name))

    def unblock(self, link_id: int) -> None:
        """Let a link go on that the interceptor blocked or stalled."""
        self.endpoint.unblock(link_id, self._input())

    def mark_down(self, connection: Connection) -> None:
        """See :meth:`Connection.mark_down`; without effect on the connection to oneself."""
        if connection.is_loopback:
            return
        connection.marked_down = True
        self.endpoint.mark_down(connection.session, self._input())
        self._forget(connection, Fault(FaultReason.MARKED_DOWN))

    @property
    def moment_s(self) -> float:
        """The time of what happens now: within one pump everything has one time."""
        return self.now() if self._turn_s is None else self._turn_s

    def _input(self) -> float:
        """The time of an input from the application; what comes of it is carried out in this turn, or soon."""
        if self._turn_s is not None:
            return self._turn_s
        self.soon()
        return self.now()

    def mark_down_all(self) -> None:
        """End every session with a reset event, and every incoming link that has no session yet."""
        self.endpoint.mark_down_all(self._input())

    def begin_shutdown(self, connection: Connection) -> None:
        """See :meth:`Connection.begin_shutdown`."""
        self._shutting[connection.session.id] = connection
        self.endpoint.close_gracefully(connection.session, self._input())

    # ---- carrying out

    def pump(self) -> None:
        """Carry out everything the core asks for."""
        if self._turn_s is not None:
            return
        now = self._turn_s = self.now()
        try:
            while outputs := self.endpoint.drain(now):
                for output in outputs:
                    self._carry_out(output, now)
                if not self._in_order:
                    self._queue.run()
        finally:
            self._turn_s = None
        if self._shutting:
            self._forget_shut()
        self.set_timer(self.endpoint.timers.next_deadline())

    def _forget_shut(self) -> None:
        """Graceful ends make no event: see which have come."""
        for connection in list(self._shutting.values()):
            if connection.state is SessionState.CLOSED or connection.is_loopback:
                del self._shutting[connection.session.id]
                self._forget(connection, Fault(FaultReason.SHUTDOWN))

    def _carry_out(self, output: Output, now: float) -> None:
        if isinstance(output, Deliver):
            self._deliver(output, now)
        elif isinstance(output, WriteLink):
            self.write_link(output.link_id, output.buffers)
        elif isinstance(output, TraceRecord):
            if not self._in_order and output.kind == "event":
                # The history tells what the application was told, in that order.
                self._queue.run_session(cast(int, output.fields["session"]))
            self.record(output)
        elif isinstance(output, SessionEvent):
            self._event(output)
        elif isinstance(output, OpenLink):
            self.open_link(output.link_id, output.addr)
        elif isinstance(output, CloseLink):
            self.close_link(output.link_id)
        elif isinstance(output, PauseLink):
            self.pause_link(output.link_id, paused=output.paused)
        elif isinstance(output, CallShard):
            self.call_shard(output.shard, output.call)
        elif isinstance(output, MoveLink):
            self.move_link(output.link_id, output.shard)
        elif isinstance(output, ShutLink):
            self.shut_link(output.link_id)
        elif isinstance(output, LogKeys):
            self.log_keys(output.secrets)

    def _deliver(self, output: Deliver, now: float) -> None:
        connection = self._connection(output.session)
        if not self._by_batch:
            self._queue.arrive(connection, output.messages)
            return
        dispatch = self.dispatchers.dispatch
        kept_messages = kept_bytes = 0
        for message in output.messages:
            try:
                taken = None if connection.marked_down else dispatch(connection, message)
            except Exception as error:  # noqa: BLE001 - the application's; its message counts as done
                self._escaped(error, connection, now)
                continue
            if taken:
                kept_messages += 1
                kept_bytes += message.size_bytes
            elif taken is False:
                self._unhandled(connection, message)
        done = len(output.messages) - kept_messages
        self.endpoint.release(output.size_bytes - kept_bytes, now, output.session, done)

    def _escaped(self, error: Exception, connection: Connection, now: float) -> None:
        """A dispatcher raised; the record is written at once, for the driver may not go on."""
        if self.endpoint.tracing:
            told = f"{type(error).__name__}: {error}"
            fields: dict[str, object] = {"where": "a dispatcher", "error": told, "session": connection.session.id}
            self.record(TraceRecord(now, "exception", fields))
        self.failed(error)

    def _dispatch(self, connection: Connection, message: Message, handler: Handler) -> None:
        """One message by itself; the usual way is by the batch."""
        taken: bool | None = None
        try:
            if not connection.marked_down:
                taken = handler(connection, message)
        except Exception as error:  # noqa: BLE001 - the application's; its message counts as done
            self._escaped(error, connection, self._input())
        if not taken:
            self.endpoint.release(message.size_bytes, self._input(), connection.session)
        if taken is False:
            self._unhandled(connection, message)

    def _unhandled(self, connection: Connection, message: Message) -> None:
        """No dispatcher wants a message."""
        endpoint = self.endpoint
        endpoint.counters.unhandled_messages += 1
        session = connection.session
        if endpoint.tracing:
            peer = str(session.peer_addrs)
            endpoint.trace(
                "unhandled", self._input(), session=session.id, peer=peer, seq=message.seq, type=message.type
            )
        if endpoint.config.ms_die_on_unhandled_msg:
            raise DieError("ms_die_on_unhandled_msg", f"{message!r} of {connection!r}")

    def _event(self, output: SessionEvent) -> None:
        connection = self._connection(output.session)
        if not self._in_order:
            self._queue.run_session(output.session.id)  # nothing overtakes what came before the event
        if connection.marked_down:
            return
        try:
            self._tell(connection, output.kind, output.fault)
        except Exception as error:  # noqa: BLE001 - the application's
            self._escaped(error, connection, self._input())

    def _tell(self, connection: Connection, kind: EventKind, fault: Fault | None) -> None:
        if kind is EventKind.RESET:
            assert fault is not None
            self._forget(connection, fault)
        elif kind is not EventKind.REMOTE_RESET:
            connection.settled(fault)
        self.dispatchers.tell(connection, kind, fault)

    def _connection(self, session: Session) -> Connection:
        connection = session.user
        if connection is None:
            connection = session.user = self.connection_class(self, session)
            self.connections[session.id] = connection
            if session.local:
                self.dispatchers.tell_loopback(connection)
        assert isinstance(connection, Connection)
        return connection

    def _forget(self, connection: Connection, fault: Fault) -> None:
        self.connections.pop(connection.session.id, None)
        connection.settled(fault)
