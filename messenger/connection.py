"""The application's handle of a session."""

from typing import TYPE_CHECKING, Any

from messenger.cephx.exchange import AuthResult, ConMode
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.denc.features import has_feature
from messenger.errors import Fault, LocalError
from messenger.messages.message import Message, Payload
from messenger.protocols import Protocol
from messenger.session.session import Session
from messenger.session.states import SessionState

if TYPE_CHECKING:
    from messenger.driver import Driver


class Connection:
    """The application's handle of a session. It outlives links where the policy is lossless, as in Ceph."""

    def __init__(self, driver: "Driver", session: Session) -> None:
        self._driver = driver
        self.session = session
        """The core's session: state, counters, negotiated features; to be read, not changed."""
        self.marked_down = False
        self.user: Any = None
        """Any object that the application attaches to this connection; the messenger does not use it."""

    def __repr__(self) -> str:
        return f"<Connection {self.session.peer_name} {self.session.peer_addrs} {self.state}>"

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self.session.state

    @property
    def last_fault(self) -> Fault | None:
        """Why the connection ended, its last link broke or its last dial failed; None if there was no fault."""
        return self.session.last_fault

    @property
    def peer_addrs(self) -> AddrVec:
        """Addresses of the peer."""
        return self._driver.addrs if self.session.local else self.session.peer_addrs

    @property
    def peer_type(self) -> EntityType:
        """Entity type of the peer."""
        return self.session.peer_type

    @property
    def is_loopback(self) -> bool:
        """True for the messenger's connection to itself."""
        return self.session.local

    @property
    def is_connected(self) -> bool:
        """True while the session is READY; in other states messages wait in its queue."""
        return self.state is SessionState.READY

    @property
    def protocol(self) -> Protocol:
        """Protocol of the session: msgr v1 or v2."""
        return Protocol.of(self.session.target_addr)

    @property
    def auth_result(self) -> AuthResult | None:
        """Result of the authentication of the current link; None while there is no link."""
        link = self.session.link
        return link.auth_result if link is not None else None

    def has_feature(self, feature: int) -> bool:
        """True if ``feature`` was negotiated, with all bits of its incarnation (docs/protocol.md §2.1)."""
        return has_feature(self.session.features, feature)

    def get_con_mode(self) -> ConMode | None:
        """Ceph's name for :attr:`connection_mode`."""
        return self.connection_mode

    @property
    def last_keepalive(self) -> float:
        """Unix time at which the newest keepalive of the peer arrived; 0 before the first."""
        return self.session.keepalive_seen_s

    @property
    def last_keepalive_ack(self) -> float:
        """Unix time at which the newest keepalive that the peer has acknowledged was sent; 0 before the first."""
        return self.session.keepalive_acked_s

    @property
    def connection_mode(self) -> ConMode | None:
        """Connection mode (crc or secure) of the current link; None unless the session is READY."""
        link = self.session.link
        return link.con_mode if link is not None and self.state is SessionState.READY else None

    def send(self, message: Message | Payload) -> bool:
        """Queue a message, or wrap a payload in one and queue that. Returns False if the connection has ended.

        True means only that it is queued: the peer may not get it (see :attr:`last_fault`). This call never waits
        for the peer; see ``max_queued_bytes`` for a limit of what is queued. Do not change the message until the
        peer has acknowledged it: changed bytes may arrive as they are then, and a message that cannot be written
        any more is dropped, also by a lossless session, and reported to the event loop's exception handler.

        Raises:
            LocalError: ``message`` is neither a message nor a payload, one of its parts is too long or no
                bytes-like object, its payload cannot be encoded, or the caller runs in another thread than the
                messenger.
        """
        if not isinstance(message, Message):
            if not hasattr(message, "TYPE"):
                raise LocalError(f"{message!r} cannot be sent: give a Message or a payload, such as MPing()")
            message = Message.of(message)
        return self._driver.send(self, message)

    def wake(self) -> None:
        """Dial if the session is in STANDBY, unless its policy makes it a server."""
        self._driver.wake(self)

    def keepalive(self) -> None:
        """Send a keepalive; :attr:`last_keepalive_ack` shows when the peer has acknowledged it."""
        self._driver.keepalive(self)

    def keep_alive(self, interval_s: float | None = None, timeout_s: float | None = None) -> None:
        """Send keepalives at regular intervals until the session ends.

        A link whose newest acknowledged keepalive is older than the timeout is closed: a lossless session dials
        again, a lossy one ends with a reset event. Time in which an application blocks the event loop is excluded.

        Args:
            interval_s: seconds between keepalives, ``mon_client_ping_interval`` unless given; 0 stops them.
            timeout_s: seconds, ``mon_client_ping_timeout`` unless given; 0 never closes the link.
        """
        self._driver.keep_alive(self, interval_s, timeout_s)

    def release(self, message: Message) -> None:
        """Return to the throttles what a message holds that ``ms_dispatch`` kept by returning True."""
        self._driver.release(self, message)

    def mark_down(self) -> None:
        """Close the session at once: it delivers nothing more and raises no event."""
        self._driver.mark_down(self)

    def mark_disposable(self) -> None:
        """Make the next fault of the open session end it, whatever its policy; nothing else changes."""
        self._driver.mark_disposable(self)

    def begin_shutdown(self) -> None:
        """Refuse further messages, and close the session without an event once its queue is sent.

        A lossless session also waits for acknowledgements. After ``ms_shutdown_timeout`` it is closed in any case.
        """
        self._driver.begin_shutdown(self)

    def settled(self, fault: Fault | None) -> None:
        """Record the outcome of a handshake or the end: None if the session opened, else the fault."""
        self.session.last_fault = fault
