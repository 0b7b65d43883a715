"""What an application holds of a session."""

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
    """What an application holds of a session; it survives links where the policy is lossless, as in Ceph."""

    def __init__(self, driver: "Driver", session: Session) -> None:
        self._driver = driver
        self.session = session
        """The core's session: state, counters, negotiated features; to be read, not changed."""
        self.marked_down = False
        self.user: Any = None
        """The application's own object for this connection."""

    def __repr__(self) -> str:
        return f"<Connection {self.session.peer_name} {self.session.peer_addrs} {self.state}>"

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        return self.session.state

    @property
    def last_fault(self) -> Fault | None:
        """Why the connection ended, its last link broke or its last dial failed; None while all is well."""
        return self.session.last_fault

    @property
    def peer_addrs(self) -> AddrVec:
        """Where the peer is."""
        return self._driver.addrs if self.session.local else self.session.peer_addrs

    @property
    def peer_type(self) -> EntityType:
        """What the peer is."""
        return self.session.peer_type

    @property
    def is_loopback(self) -> bool:
        """True for the connection to oneself."""
        return self.session.local

    @property
    def is_connected(self) -> bool:
        """True while messages flow; False while they wait in the queue."""
        return self.state is SessionState.READY

    @property
    def protocol(self) -> Protocol:
        """The protocol of the session."""
        return Protocol.of(self.session.target_addr)

    @property
    def auth_result(self) -> AuthResult | None:
        """What the handshake of the present link agreed on; None without a link."""
        link = self.session.link
        return link.auth_result if link is not None else None

    def has_feature(self, feature: int) -> bool:
        """True if a feature was negotiated, with all bits of its incarnation (docs/protocol.md §2.1)."""
        return has_feature(self.session.features, feature)

    def get_con_mode(self) -> ConMode | None:
        """Ceph's word for :attr:`connection_mode`."""
        return self.connection_mode

    @property
    def last_keepalive(self) -> float:
        """Unix time at which the peer last asked for a sign of life; 0 before the first."""
        return self.session.keepalive_seen_s

    @property
    def last_keepalive_ack(self) -> float:
        """Unix time of the newest keepalive of ours that the peer has answered; 0 before the first."""
        return self.session.keepalive_acked_s

    @property
    def connection_mode(self) -> ConMode | None:
        """The connection mode while a link carries the session, else None."""
        link = self.session.link
        return link.con_mode if link is not None and self.state is SessionState.READY else None

    def send(self, message: Message | Payload) -> bool:
        """Queue a message, or a payload to be wrapped in one; False if the connection has ended.

        True says nothing of the peer: :attr:`last_fault` does. Leave the parts of the message unchanged until the
        peer has acknowledged it.

        Raises:
            LocalError: it is neither a message nor a payload, a part of the message is no buffer of bytes or too
                long, its payload cannot be encoded, or this is not the thread of the messenger.
        """
        if not isinstance(message, Message):
            if not hasattr(message, "TYPE"):
                raise LocalError(f"{message!r} cannot be sent: give a Message or a payload, such as MPing()")
            message = Message.of(message)
        return self._driver.send(self, message)

    def wake(self) -> None:
        """Dial if the session is in STANDBY, unless only the peer may."""
        self._driver.wake(self)

    def keepalive(self) -> None:
        """Send a keepalive; ``session.keepalive_acked_s`` shows the answer."""
        self._driver.keepalive(self)

    def keep_alive(self, interval_s: float | None = None, timeout_s: float | None = None) -> None:
        """Send keepalives at regular intervals until the session ends.

        A link on which the newest answer is older than the timeout is closed: a lossless session dials again, a
        lossy one ends with a reset.

        Args:
            interval_s: ``mon_client_ping_interval`` unless given; 0 ends it.
            timeout_s: ``mon_client_ping_timeout`` unless given; 0 = wait for ever.
        """
        self._driver.keep_alive(self, interval_s, timeout_s)

    def release(self, message: Message) -> None:
        """Release a message that ``ms_dispatch`` kept by returning True."""
        self._driver.release(self, message)

    def mark_down(self) -> None:
        """Close the session at once: it delivers nothing more and raises no event."""
        self._driver.mark_down(self)

    def mark_disposable(self) -> None:
        """A fault of the open session is to end it, whatever its policy says; until then everything goes on."""
        self._driver.endpoint.mark_disposable(self.session)

    def begin_shutdown(self) -> None:
        """Refuse further messages, and close the session without an event once its queue is sent.

        A lossless session waits for acknowledgements, too. After ``ms_shutdown_timeout`` it ends in any case.
        """
        self._driver.begin_shutdown(self)

    def settled(self, fault: Fault | None) -> None:
        """The session opened (None), or was refused or ended."""
        self.session.last_fault = fault
