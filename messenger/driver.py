"""Carries out what the core asks for, whatever the transport: the part that all drivers share.

A driver owns an Endpoint, a clock and byte streams. Subclasses say how to open, write, pause and close links;
the asyncio one is messenger.py, the simulator has another.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import cast

from messenger.calls import ToShard
from messenger.connection import Connection
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher, Dispatchers
from messenger.dispatch_queue import DispatchQueue, Handler
from messenger.endpoint import Endpoint
from messenger.errors import DieError, Fault, FaultReason, LocalError, check_kind, describe
from messenger.keylog import LinkSecrets
from messenger.messages.message import Message
from messenger.outputs import (
    CallShard,
    CloseLink,
    Deliver,
    Escaped,
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
from messenger.session.session import Session
from messenger.session.states import SessionState

__all__ = ["Connection", "Driver"]

_FATAL = (DieError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that are meant to end the messenger or the program, not only the callback that raised them."""


class Driver(ABC):
    """An endpoint being driven."""

    connection_class: type[Connection] = Connection

    def __init__(self, endpoint: Endpoint, dispatcher: Dispatcher) -> None:
        self.endpoint = endpoint
        self.dispatchers = Dispatchers(dispatcher, self._escaped)
        self._queue = DispatchQueue(endpoint.config, self.dispatchers, self._dispatch)
        self._in_order = not endpoint.config.dispatch_by_priority
        self._by_batch = self._in_order and not self.dispatchers.has_fast
        self.connections: dict[int, Connection] = {}
        """Open connections by session id."""
        self._shutting: dict[int, Connection] = {}
        # When the present pump began, None between pumps. Whatever happens within one has one time.
        self._turn_s: float | None = None
        self._left: list[Output] = []
        """Outputs that an exception kept from being carried out, for the next pump."""
        self._recording = True
        """The last line of the history was taken."""

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
        """Own addresses, as announced to peers."""
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

    def failed(self, error: BaseException) -> None:
        """A dispatcher callback, or other code of the application, raised; the messenger itself goes on."""
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

        The messenger's own address gives :attr:`loopback`. An ``anonymous`` connection is always a new one, and is
        never found by the peer's address.

        Raises:
            LocalError: the address is not usable; see Endpoint.connect.
        """
        if isinstance(addrs, str):
            addrs = AddrVec.parse(addrs)
        elif isinstance(addrs, EntityAddr):
            addrs = AddrVec((addrs,))
        check_kind("addrs", addrs, AddrVec, "text such as 'v2:HOST:PORT', an EntityAddr or an AddrVec")
        session = self.endpoint.connect(addrs, peer_type, self._input(), policy, anonymous=anonymous)
        return self._connection(session)

    def configure(self, **options: object) -> None:
        """Change options while the messenger runs; see :meth:`messenger.endpoint.Endpoint.configure`."""
        self._input()
        self.endpoint.configure(**options)

    def send(self, connection: Connection, message: Message) -> bool:
        """Queue a message, or a payload to be wrapped in one; False if the connection has ended."""
        now = self._turn_s
        return self.endpoint.send(connection.session, message, self._input() if now is None else now)

    def wake(self, connection: Connection) -> None:
        """Dial if the session is in STANDBY, unless only the peer may."""
        self.endpoint.wake_session(connection.session, self._input())

    def keepalive(self, connection: Connection) -> None:
        """Send a keepalive; ``session.keepalive_acked_s`` shows the answer."""
        self.endpoint.send_keepalive(connection.session, self._input())

    def keep_alive(self, connection: Connection, interval_s: float | None, timeout_s: float | None) -> None:
        """Send keepalives at regular intervals until the session ends."""
        config = self.endpoint.config
        interval_s = config.mon_client_ping_interval if interval_s is None else interval_s
        timeout_s = config.mon_client_ping_timeout if timeout_s is None else timeout_s
        self.endpoint.keep_alive(connection.session, interval_s, timeout_s, self._input())

    def release(self, connection: Connection, message: Message) -> None:
        """Release a message that ``ms_dispatch`` kept by returning True."""
        size_bytes = message.held_bytes
        if size_bytes is None:
            raise LocalError(f"{message!r} holds nothing of the throttles: was it released before?")
        message.held_bytes = None
        self.endpoint.release(size_bytes, self._input(), connection.session)

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
        """Close the session at once: it delivers nothing more and raises no event.

        Without effect on the connection to oneself.
        """
        if connection.is_loopback:
            return
        connection.marked_down = True
        if connection.state is not SessionState.CLOSED:
            self.endpoint.mark_down(connection.session, self._input())
        if connection.session.id in self.connections:  # otherwise it has ended before, for its own reason
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
        """Refuse further messages, and close the session without an event once its queue is sent."""
        self._shutting[connection.session.id] = connection
        self.endpoint.close_gracefully(connection.session, self._input())

    # ---- carrying out

    def pump(self) -> None:
        """Carry out everything the core asks for.

        What raises here stops it (``ms_die_on_*``, an interrupt): the rest is carried out by the next pump.
        """
        if self._turn_s is not None:
            return
        now = self._turn_s = self.now()
        outputs, self._left = self._left or self.endpoint.drain(now), []
        rest = iter(outputs)
        try:
            while outputs or (not self._in_order and len(self._queue)):
                for output in rest:
                    if output.__class__ is WriteLink:
                        self.write_link(output.link_id, output.buffers)
                    elif output.__class__ is Deliver:
                        self._deliver(output)
                    else:
                        self._carry_out(output)
                if not self._in_order:
                    self._queue.run()
                outputs = self.endpoint.drain(now)
                rest = iter(outputs)
        except BaseException:
            self._left += rest
            self.soon()
            raise
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

    def _carry_out(self, output: Output) -> None:
        if isinstance(output, Deliver):
            self._deliver(output)
        elif isinstance(output, WriteLink):
            self.write_link(output.link_id, output.buffers)
        elif isinstance(output, TraceRecord):
            if not self._in_order and output.kind == "event":
                # The history records events in the order in which the application got them.
                self._queue.run_session(cast(int, output.fields["session"]))
            self._record(output)
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
        elif isinstance(output, Escaped):
            self.failed(output.error)

    def _record(self, record: TraceRecord) -> None:
        """Write a line of the history; a recorder that fails is reported once, until it works again."""
        try:
            self.record(record)
        except Exception as error:  # noqa: BLE001 - the application's; the conversation goes on without a record
            was_recording, self._recording = self._recording, False
            if was_recording:
                self.failed(error)
        else:
            self._recording = True

    def _deliver(self, output: Deliver) -> None:
        connection = self._connection(output.session)
        messages = iter(output.messages)
        try:
            if self._by_batch:
                self._dispatch(connection, messages, self.dispatchers.dispatch)
            else:
                self._queue.arrive(connection, messages)
        except BaseException:
            rest = list(messages)
            self._left.append(Deliver(output.session, rest, sum(message.held_bytes or 0 for message in rest)))
            raise

    def _dispatch(self, connection: Connection, messages: Iterator[Message], handler: Handler) -> None:
        """Dispatch messages in order; those that the application does not keep are released together."""
        done = done_bytes = 0
        try:
            for message in messages:
                taken: bool | None = None
                try:
                    if not connection.marked_down:
                        taken = handler(connection, message)
                except BaseException as error:  # noqa: BLE001 - the application's; its message counts as done
                    self._escaped(error, connection)
                finally:
                    if not taken and (size_bytes := message.held_bytes) is not None:
                        message.held_bytes = None
                        done += 1
                        done_bytes += size_bytes
                if taken is False:
                    self._unhandled(connection, message)
        finally:
            if done:
                now = self._turn_s
                self.endpoint.release(done_bytes, self._input() if now is None else now, connection.session, done)

    def _escaped(self, error: BaseException, connection: Connection) -> None:
        """A dispatcher raised: record and report it.

        Raises:
            BaseException: the same one, if it is to end the program or the messenger.
        """
        if isinstance(error, _FATAL):
            raise error
        if self.endpoint.tracing:
            session = connection.session.id
            fields: dict[str, object] = {"where": "a dispatcher", "error": describe(error), "session": session}
            self._record(TraceRecord(self.moment_s, "exception", fields))
        self.failed(error)

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
        if not connection.marked_down:
            self._tell(connection, output.kind, output.fault)

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
