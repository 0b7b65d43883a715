"""Carries out what the core asks for, whatever the transport: the part that all drivers share.

A driver owns an Endpoint, a clock and byte streams. Subclasses say how to open, write, pause and close links;
the asyncio one is messenger.py, the simulator has another.
"""

from abc import ABC, abstractmethod
from typing import Any

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.endpoint import Endpoint
from messenger.errors import Fault, FaultReason
from messenger.messages.message import Message, Payload
from messenger.outputs import (
    CloseLink,
    Deliver,
    EventKind,
    OpenLink,
    Output,
    PauseLink,
    SessionEvent,
    ShutLink,
    TraceRecord,
    WriteLink,
)
from messenger.session.policy import Policy
from messenger.session.session import Session, SessionState


class Connection:
    """What an application holds of a session; it survives links where the policy is lossless, as in Ceph."""

    def __init__(self, driver: "Driver", session: Session) -> None:
        self._driver = driver
        self.session = session
        """The core's session: state, counters, negotiated features; to be read, not changed."""
        self.marked_down = False
        self.last_fault: Fault | None = None
        """Why the connection ended or was last refused."""
        self.user: Any = None
        """The application's own object for this connection."""

    def __repr__(self) -> str:
        return f"<Connection {self.session.peer_name} {self.session.peer_addrs} {self.state}>"

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        return self.session.state

    @property
    def connection_mode(self) -> ConMode | None:
        """The connection mode while a link carries the session, else None."""
        link = self.session.link
        return link.con_mode if link is not None and self.state is SessionState.READY else None

    def send(self, message: Message | Payload) -> bool:
        """Queue a message, or a payload to be wrapped in one; False if the connection has ended."""
        return self._driver.send(self, message if isinstance(message, Message) else Message.of(message))

    def keepalive(self) -> None:
        """Ask the peer for a sign of life; ``session.keepalive_acked_s`` shows the answer."""
        self._driver.keepalive(self)

    def release(self, message: Message) -> None:
        """A message kept by ``ms_dispatch`` returning True is done with."""
        self._driver.release(message.size_bytes)

    def mark_down(self) -> None:
        """End the session at once; nothing of it is delivered from here on and no event follows."""
        self._driver.mark_down(self)

    def settled(self, fault: Fault | None) -> None:
        """The session opened (None), or was refused or ended."""
        self.last_fault = fault


class Driver(ABC):
    """An endpoint being driven."""

    connection_class: type[Connection] = Connection

    def __init__(self, endpoint: Endpoint, dispatcher: Dispatcher) -> None:
        self.endpoint = endpoint
        self.dispatcher = dispatcher
        self.connections: dict[int, Connection] = {}
        """Open connections by session id."""
        # When the present pump began, None between pumps. Whatever happens within one has one time.
        self._turn_s: float | None = None

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

    def failed(self, error: Exception) -> None:
        """A dispatcher callback raised; the messenger itself goes on."""
        raise error

    # ---- for applications

    def connect(
        self, addrs: AddrVec | EntityAddr | str, peer_type: EntityType, policy: Policy | None = None
    ) -> Connection:
        """The connection to the peer at ``addrs``: the existing one, or a new one that starts to dial.

        Raises:
            LocalError: the address is not usable; see Endpoint.connect.
        """
        if isinstance(addrs, str):
            addrs = AddrVec.parse(addrs)
        elif isinstance(addrs, EntityAddr):
            addrs = AddrVec((addrs,))
        session = self.endpoint.connect(addrs, peer_type, self._input(), policy)
        return self._connection(session)

    def send(self, connection: Connection, message: Message) -> bool:
        """See :meth:`Connection.send`."""
        return self.endpoint.send(connection.session, message, self._input())

    def keepalive(self, connection: Connection) -> None:
        """See :meth:`Connection.keepalive`."""
        self.endpoint.send_keepalive(connection.session, self._input())

    def release(self, size_bytes: int) -> None:
        """See :meth:`Connection.release`."""
        self.endpoint.release(size_bytes, self._input())

    def unblock(self, link_id: int) -> None:
        """Let a link go on that the interceptor blocked or stalled."""
        self.endpoint.unblock(link_id, self._input())

    def mark_down(self, connection: Connection) -> None:
        """See :meth:`Connection.mark_down`."""
        connection.marked_down = True
        self.endpoint.mark_down(connection.session, self._input())
        self._forget(connection, Fault(FaultReason.MARKED_DOWN))

    def _input(self) -> float:
        """The time of an input from the application; what comes of it is carried out in this turn, or soon."""
        if self._turn_s is not None:
            return self._turn_s
        self.soon()
        return self.now()

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
        finally:
            self._turn_s = None
        self.set_timer(self.endpoint.timers.next_deadline())

    def _carry_out(self, output: Output, now: float) -> None:
        if isinstance(output, Deliver):
            self._deliver(output, now)
        elif isinstance(output, WriteLink):
            self.write_link(output.link_id, output.buffers)
        elif isinstance(output, TraceRecord):
            self.record(output)
        elif isinstance(output, SessionEvent):
            self._event(output)
        elif isinstance(output, OpenLink):
            self.open_link(output.link_id, output.addr)
        elif isinstance(output, CloseLink):
            self.close_link(output.link_id)
        elif isinstance(output, PauseLink):
            self.pause_link(output.link_id, paused=output.paused)
        elif isinstance(output, ShutLink):
            self.shut_link(output.link_id)

    def _deliver(self, output: Deliver, now: float) -> None:
        connection = self._connection(output.session)
        dispatch = self.dispatcher.ms_dispatch
        kept_bytes = 0
        for message in output.messages:
            try:
                if not connection.marked_down and dispatch(connection, message):
                    kept_bytes += message.size_bytes
            except Exception as error:  # noqa: BLE001 - the application's; its message counts as done
                self.failed(error)
        self.endpoint.release(output.size_bytes - kept_bytes, now)

    def _event(self, output: SessionEvent) -> None:
        connection = self._connection(output.session)
        if connection.marked_down:
            return
        try:
            self._tell(connection, output.kind, output.fault)
        except Exception as error:  # noqa: BLE001 - the application's
            self.failed(error)

    def _tell(self, connection: Connection, kind: EventKind, fault: Fault | None) -> None:
        if kind is EventKind.CONNECT:
            connection.settled(None)
            self.dispatcher.ms_handle_connect(connection)
            return
        if kind is EventKind.ACCEPT:
            connection.settled(None)
            self.dispatcher.ms_handle_accept(connection)
            return
        assert fault is not None
        if kind is EventKind.REMOTE_RESET:
            self.dispatcher.ms_handle_remote_reset(connection, fault)
        elif kind is EventKind.REFUSED:
            connection.settled(fault)
            self.dispatcher.ms_handle_refused(connection, fault)
        else:
            self._forget(connection, fault)
            self.dispatcher.ms_handle_reset(connection, fault)

    def _connection(self, session: Session) -> Connection:
        connection = session.user
        if connection is None:
            connection = session.user = self.connection_class(self, session)
            self.connections[session.id] = connection
        assert isinstance(connection, Connection)
        return connection

    def _forget(self, connection: Connection, fault: Fault) -> None:
        self.connections.pop(connection.session.id, None)
        connection.settled(fault)
