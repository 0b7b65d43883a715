"""The part of a driver that does not depend on the transport: it carries out the outputs of the core.

A driver owns an Endpoint, a clock and byte streams. Subclasses open, write, pause and close links; the asyncio one
is messenger.py, the simulator has another.
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
from messenger.errors import DieError, Fault, FaultReason, LocalError, check_kind, check_seconds, describe
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

__all__ = ["Connection", "Driver", "addrs_of"]

_FATAL = (DieError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end the messenger or the program, not only the callback that raised them."""


def addrs_of(addrs: AddrVec | EntityAddr | str) -> AddrVec:
    """The addresses that an application gives in one of three forms.

    Raises:
        LocalError: the text is malformed, or ``addrs`` has another type.
    """
    if isinstance(addrs, str):
        return AddrVec.parse(addrs)
    if isinstance(addrs, EntityAddr):
        return AddrVec((addrs,))
    check_kind("addrs", addrs, AddrVec, "text such as 'v2:HOST:PORT', an EntityAddr or an AddrVec")
    return addrs


class Driver(ABC):
    """Runs one endpoint: carries out its outputs and dispatches its messages and events."""

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
        # Time at which the current pump began; None between pumps. Everything within one pump has the same time.
        self._turn_s: float | None = None
        self._left: list[Output] = []
        """Outputs that an exception in the last pump left undone; the next pump carries them out."""
        self._recording = True
        """True if the last record of the history was accepted."""

    @property
    def dispatcher(self) -> Dispatcher:
        """The first dispatcher; setting it removes all others."""
        return next(iter(self.dispatchers))

    @dispatcher.setter
    def dispatcher(self, dispatcher: Dispatcher) -> None:
        self.check_caller()
        self.dispatchers.replace(dispatcher)
        self._by_batch = self._in_order and not self.dispatchers.has_fast

    @property
    def addrs(self) -> AddrVec:
        """Addresses of this messenger, as announced to peers."""
        return self.endpoint.addrs

    # ---- what a transport provides

    @abstractmethod
    def now(self) -> float:
        """Monotonic time in seconds."""

    @abstractmethod
    def soon(self) -> None:
        """Arrange for :meth:`pump` to run after the current caller returns. Not called within a pump."""

    @abstractmethod
    def set_timer(self, deadline_s: float | None) -> None:
        """Arrange for the endpoint's timer to be called at ``deadline_s``; None cancels that."""

    @abstractmethod
    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        """Dial ``addr`` for a link."""

    @abstractmethod
    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        """Write buffers after those that are pending."""

    @abstractmethod
    def pause_link(self, link_id: int, *, paused: bool) -> None:
        """Stop or resume reading."""

    @abstractmethod
    def shut_link(self, link_id: int) -> None:
        """Shut the stream down in both directions, after what was written; the link stays until it is closed."""

    @abstractmethod
    def close_link(self, link_id: int) -> None:
        """Close the stream at once."""

    @abstractmethod
    def record(self, record: TraceRecord) -> None:
        """Take a record of the history; called only if the endpoint traces."""

    def move_link(self, link_id: int, shard: int) -> None:
        """Hand a byte stream to another shard; only for drivers with shards."""
        raise LocalError(f"link {link_id} cannot move: there is no shard {shard}")

    def call_shard(self, shard: int, call: ToShard) -> None:
        """Pass a call to another shard; only for drivers with shards."""
        raise LocalError(f"{call!r}: there is no shard {shard}")

    def log_keys(self, secrets: LinkSecrets) -> None:
        """Write a line of the key log; only for drivers whose endpoint logs keys."""
        raise LocalError(f"no key log for {secrets.protocol} link {secrets.link}")

    def failed(self, error: BaseException) -> None:
        """Report an exception of the application's code; the messenger itself continues. By default raise it."""
        raise error

    def check_caller(self) -> None:  # noqa: B027 - most drivers run in one thread
        """Refuse a call of the application from a place where the messenger does not live.

        Every call that changes something begins with this check. By default all callers are right.

        Raises:
            LocalError: the caller runs in another thread or process than the messenger.
        """

    # ---- for applications

    def add_dispatcher_head(self, dispatcher: Dispatcher) -> None:
        """Add a dispatcher that gets each message and event before all others."""
        self._add_dispatcher(dispatcher, head=True)

    def add_dispatcher_tail(self, dispatcher: Dispatcher) -> None:
        """Add a dispatcher that gets each message and event after all others."""
        self._add_dispatcher(dispatcher, head=False)

    def _add_dispatcher(self, dispatcher: Dispatcher, *, head: bool) -> None:
        self.check_caller()
        self.dispatchers.add(dispatcher, head=head)
        self._by_batch = self._in_order and not self.dispatchers.has_fast

    @property
    def loopback(self) -> Connection:
        """The messenger's connection to itself: messages sent on it are dispatched here, in order."""
        self.check_caller()
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

        Args:
            addrs: addresses of the peer, for example ``v2:10.0.0.1:3300``, with its nonce as ``bind`` returns them
                (monitors have 0): a peer refuses a link, on v2 without a reason, that was dialled with another IP
                address, port or nonce than its own. The messenger's own address gives :attr:`loopback`.
            peer_type: entity type of the peer.
            policy: policy of a new session; by default the messenger's policy for ``peer_type``.
            anonymous: always create a new connection, which is never found by the peer's address.

        Raises:
            LocalError: the address cannot be dialled; see :meth:`messenger.endpoint.Endpoint.connect`.
        """
        now = self._input()
        session = self.endpoint.connect(addrs_of(addrs), peer_type, now, policy, anonymous=anonymous)
        return self._connection(session)

    def configure(self, **options: object) -> None:
        """Change options while the messenger runs; see :meth:`messenger.endpoint.Endpoint.configure`."""
        self._input()
        self.endpoint.configure(**options)

    def send(self, connection: Connection, message: Message) -> bool:
        """Queue a message. Returns False if the connection has ended."""
        return self.endpoint.send(connection.session, message, self._input())

    def wake(self, connection: Connection) -> None:
        """Dial if the session is in STANDBY, unless its policy makes it a server."""
        self.endpoint.wake_session(connection.session, self._input())

    def keepalive(self, connection: Connection) -> None:
        """Send a keepalive; ``session.keepalive_acked_s`` shows when the peer has acknowledged it."""
        self.endpoint.send_keepalive(connection.session, self._input())

    def keep_alive(self, connection: Connection, interval_s: float | None, timeout_s: float | None) -> None:
        """Send keepalives at regular intervals until the session ends; see :meth:`.Connection.keep_alive`."""
        config = self.endpoint.config
        interval_s = config.mon_client_ping_interval if interval_s is None else interval_s
        timeout_s = config.mon_client_ping_timeout if timeout_s is None else timeout_s
        check_seconds("interval_s", interval_s)
        check_seconds("timeout_s", timeout_s)
        self.endpoint.keep_alive(connection.session, interval_s, timeout_s, self._input())

    def release(self, connection: Connection, message: Message) -> None:
        """Return to the throttles what a message holds that ``ms_dispatch`` kept by returning True."""
        check_kind("message", message, Message, "the Message that was received")
        size_bytes = message.held_bytes
        if size_bytes is None:
            raise LocalError(f"{message!r} holds nothing of the throttles: was it released before?")
        self.endpoint.release(size_bytes, self._input(), connection.session)
        message.held_bytes = None

    def perf_dump(self) -> PerfDump:
        """The performance counters, in the format of ``ceph daemon NAME perf dump``."""
        return self.endpoint.perf_dump()

    def prometheus(self) -> str:
        """The performance counters as Prometheus text, with the names of Ceph's exporter."""
        return prometheus(self.perf_dump(), str(self.endpoint.name))

    def unblock(self, link_id: int) -> None:
        """Continue a link that the interceptor blocked or stalled."""
        self.endpoint.unblock(link_id, self._input())

    def mark_down(self, connection: Connection) -> None:
        """Close the session at once: it delivers nothing more and raises no event.

        Has no effect on the messenger's connection to itself.
        """
        self.check_caller()
        if connection.is_loopback:
            return
        connection.marked_down = True
        if connection.state is not SessionState.CLOSED:
            self.endpoint.mark_down(connection.session, self._input())
        if connection.session.id in self.connections:  # otherwise it has ended before and keeps its own fault
            self._forget(connection, Fault(FaultReason.MARKED_DOWN))

    def mark_disposable(self, connection: Connection) -> None:
        """Make the next fault of the open session end it; see :meth:`.Connection.mark_disposable`."""
        self.check_caller()
        self.endpoint.mark_disposable(connection.session)

    @property
    def moment_s(self) -> float:
        """The current time; the time at which the pump began while one runs."""
        return self.now() if self._turn_s is None else self._turn_s

    def _input(self) -> float:
        """Time of an input from the application; makes sure that a pump carries out the resulting outputs."""
        self.check_caller()
        if self._turn_s is not None:
            return self._turn_s
        self.soon()
        return self.now()

    def mark_down_all(self) -> None:
        """End every session with a reset event, and close every accepted link without a session."""
        self.endpoint.mark_down_all(self._input())

    def begin_shutdown(self, connection: Connection) -> None:
        """Refuse further messages, and close the session without an event once its queue is sent."""
        self.check_caller()
        if connection.state is SessionState.CLOSED:
            return  # it keeps the fault that ended it
        self._shutting[connection.session.id] = connection
        self.endpoint.close_gracefully(connection.session, self._input())

    # ---- carrying out

    def pump(self) -> None:
        """Carry out all outputs of the core and dispatch what has arrived.

        An exception that is raised here (``ms_die_on_*``, an interrupt) stops the pump; the next pump does the
        rest.
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
        """Forget the connections whose graceful shutdown is complete, which raises no event."""
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
        """Pass a record to the history; if the recorder fails repeatedly, only the first failure is reported."""
        try:
            self.record(record)
        except Exception as error:  # noqa: BLE001 - the application's; the link goes on without a record
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
        """Dispatch messages in order, then release together those that the application does not keep."""
        done = done_bytes = 0
        try:
            for message in messages:
                taken: bool | None = None
                try:
                    if not connection.marked_down:
                        result = handler(connection, message)
                        if result and result is not True:
                            kind = type(result).__name__
                            raise LocalError(
                                f"a dispatcher returned a {kind}: give True to keep the message, or None"
                            )
                        taken = result
                except BaseException as error:  # noqa: BLE001 - the application's; the message is released
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
        """Record and report an exception of a dispatcher.

        Raises:
            BaseException: the same exception, if it is meant to end the program or the messenger.
        """
        if isinstance(error, _FATAL):
            raise error
        if self.endpoint.tracing:
            session = connection.session.id
            fields: dict[str, object] = {"where": "a dispatcher", "error": describe(error), "session": session}
            self._record(TraceRecord(self.moment_s, "exception", fields))
        self.failed(error)

    def _unhandled(self, connection: Connection, message: Message) -> None:
        """Count and record a message that no dispatcher took."""
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
            self._queue.run_session(output.session.id)  # messages that arrived before the event come first
        if not connection.marked_down:
            self._notify(connection, output.kind, output.fault)

    def _notify(self, connection: Connection, kind: EventKind, fault: Fault | None) -> None:
        if kind is EventKind.RESET:
            assert fault is not None
            self._forget(connection, fault)
        elif kind is not EventKind.REMOTE_RESET:
            connection.settled(fault)
        self.dispatchers.notify(connection, kind, fault)

    def _connection(self, session: Session) -> Connection:
        connection = session.user
        if connection is None:
            connection = session.user = self.connection_class(self, session)
            self.connections[session.id] = connection
            if session.local:
                self.dispatchers.notify_loopback(connection)
        assert isinstance(connection, Connection)
        return connection

    def _forget(self, connection: Connection, fault: Fault) -> None:
        self.connections.pop(connection.session.id, None)
        connection.settled(fault)
