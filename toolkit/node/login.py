"""Logins by messages: a node's requests to monitors, and a monitor's replies (docs/protocol.md §5.6)."""

from typing import TYPE_CHECKING, Any, cast

from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.minting import MintingClient
from messenger.denc.entity import AuthName, EntityType
from messenger.driver import Connection
from messenger.errors import AuthError, DecodeError, Fault, FaultReason
from messenger.link import Protocol
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.message import Message, Payload
from messenger.messages.types import MessageType
from messenger.mon_login import MonLogin
from toolkit.node.auth import Credentials, read_secrets

if TYPE_CHECKING:
    from toolkit.node.app import NodeApp

AUTH_TYPES = frozenset({MessageType.AUTH, MessageType.AUTH_REPLY})
"""Message types of logins."""
_DENIED = frozenset({FaultReason.AUTH_DENIED, FaultReason.AUTH_METHOD})


class _Line:
    """The part of a connection that a login uses; messages that it sends are recorded."""

    def __init__(self, connection: Connection, app: "NodeApp") -> None:
        self.protocol = connection.protocol
        self.auth_result = connection.auth_result
        self._connection = connection
        self._app = app

    def send(self, payload: Payload) -> None:
        """Send a message of the login."""
        self._app.send_payload(self._connection, payload)


class Logins:
    """The logins of a node at monitors; on a monitor, those of its peers.

    It logs in at every monitor that it has a connection to. When it dials several at once (:meth:`hunt`), each
    login that succeeds replaces the tickets of the one before. The first connection whose tickets are current when
    its login is complete is kept, and the others are closed. Connections whose login was complete but no longer
    current wait until then: if the connection that replaced their tickets is lost, one of them logs in again.
    """

    def __init__(self, app: "NodeApp", credentials: Credentials) -> None:
        self._app = app
        self.credentials = credentials
        self._logins: dict[int, MonLogin] = {}
        """Logins of this node, by session id."""
        self._sessions: dict[int, MonAuthSession] = {}
        """Logins at this monitor, by session id."""
        self._hunted: list[Connection] = []
        self._overtaken: list[Connection] = []
        self.monitor = ""
        """Name of the monitor that a hunt has kept."""
        self.strays = 0
        """Replies of monitors whose login was dropped."""
        self.failures: list[str] = []
        """Reasons of failed logins."""

    COMMANDS = frozenset({"hunt", "renew", "rotate", "change", "state"})

    @property
    def done(self) -> list[str]:
        """Names of the monitors where its login is complete."""
        return [name for name, connection in self._app.connections.items() if self._is_done(connection)]

    def _login_of(self, name: str) -> MonLogin:
        return self._logins[self._app.connections[name].session.id]

    def _is_done(self, connection: Connection) -> bool:
        login = self._logins.get(connection.session.id)
        return login is not None and login.done

    # ---- callbacks of the messenger

    def opened(self, connection: Connection) -> None:
        """Log in on a connection that this side dialled, if the peer is a monitor."""
        identity = self.credentials.client
        if connection.peer_type is not EntityType.MON or self.credentials.monitor is not None:
            return
        if isinstance(identity, MintingClient):  # it mints its own tickets
            return
        driver = self._app.driver
        line = cast("Connection", _Line(connection, self._app))
        login = MonLogin(line, identity, driver.endpoint.rng, self.credentials.rotating)
        self._logins[connection.session.id] = login
        login.start(self._app.wall_s)
        if login.done:
            login.renew(self._app.wall_s)
            self._logged_in(connection)

    def accepted(self, connection: Connection) -> None:
        """Prepare for the login of a peer that dialled this monitor."""
        monitor = self.credentials.monitor
        if monitor is None or connection.peer_type is EntityType.MON:
            return
        v1 = connection.protocol is Protocol.V1
        self._sessions[connection.session.id] = MonAuthSession(
            monitor,
            self._app.driver.endpoint.rng,
            established=None if v1 else connection.auth_result,
            features=connection.session.features,
        )

    def take(self, connection: Connection, message: Message) -> bool:
        """Process a message of a login; returns False for other messages."""
        payload = message.payload
        if isinstance(payload, MAuth):
            self._answer(connection, payload)
        elif isinstance(payload, MAuthReply):
            self._go_on(connection, payload)
        else:
            return False
        return True

    def refused(self, connection: Connection, fault: Fault) -> None:
        """Renew the tickets if a service rejected one (§5.8); go on with the hunt if a monitor refused."""
        if connection.peer_type is not EntityType.MON and fault.reason in _DENIED:
            self.renew()
        elif connection in self._hunted:
            self._fall_back()

    def lost(self, connection: Connection) -> None:
        """Drop the logins of a session that ended."""
        if connection in self._hunted:
            self._hunted.remove(connection)
            self._fall_back()
        self._logins.pop(connection.session.id, None)
        self._sessions.pop(connection.session.id, None)

    # ---- commands

    def hunt(self, monitors: list[str]) -> None:
        """Dial all these monitors at once, and keep the first whose login is complete and current."""
        self.monitor = ""
        self._overtaken = []
        for name in monitors:
            self._app.connect(name, "lossy_client")
        self._hunted = [self._app.connections[name] for name in monitors]

    def renew(self) -> None:
        """Request missing and expiring tickets wherever it is logged in, as on every tick."""
        for login in self._logins.values():
            if login.done:
                login.renew(self._app.wall_s)

    def rotate(self, *, wipe: bool) -> None:
        """As a monitor, rotate the service keys that are due; with ``wipe`` replace all of them."""
        monitor = self.credentials.monitor
        assert monitor is not None
        if wipe:
            monitor.keys.wipe(self._app.wall_s)
        else:
            monitor.keys.rotate(self._app.wall_s)

    def change(self, changes: dict[str, Any]) -> None:
        """Change ``secrets``, the key that it ``mints`` tickets with, or the defects (``spoil``).

        A monitor also takes ``ready``, and an entity that logs in another ``key``.
        """
        credentials = self.credentials
        if "secrets" in changes:
            credentials.secrets.clear()
            credentials.secrets.update(read_secrets(changes["secrets"]))
        if "mints" in changes:
            credentials.mint_with(changes["mints"])
        if "spoil" in changes:
            credentials.spoiler.what = changes["spoil"]
        if credentials.monitor is not None:
            credentials.monitor.ready = changes.get("ready", credentials.monitor.ready)
        if credentials.identity is not None and "key" in changes:
            credentials.identity.key = CryptoKey.from_base64(changes["key"])

    def state(self) -> dict[str, Any]:
        """Return its global_id, secret_ids of tickets by service, secret_ids of service keys, and its logins."""
        identity = self.credentials.identity
        tickets = {} if identity is None else identity.tickets
        return {
            "global_id": 0 if identity is None else identity.global_id,
            "tickets": {service.label: ticket.blob.secret_id for service, ticket in tickets.items()},
            "secrets": sorted(self.credentials.secrets),
            "monitor": self.monitor,
            "monitors": self.done,
            "current": [name for name in self.done if self._login_of(name).is_current],
            "strays": self.strays,
            "failures": list(self.failures),
            "pending": [str(name) for name in self._used_pending_keys()],
        }

    def _used_pending_keys(self) -> list[AuthName]:
        monitor = self.credentials.monitor
        return [] if monitor is None else list(monitor.keys.used_pending_keys)

    # ---- inside

    def _answer(self, connection: Connection, request: MAuth) -> None:
        session = self._sessions.get(connection.session.id)
        if session is None:
            return
        answer = session.handle(request.protocol, request.auth_payload, self._app.wall_s)
        if answer is not None:
            reply = MAuthReply(answer.protocol, answer.result, answer.global_id, answer.payload)
            self._app.send_payload(connection, reply)

    def _go_on(self, connection: Connection, reply: MAuthReply) -> None:
        login = self._logins.get(connection.session.id)
        if login is None:
            self.strays += 1
            return
        was_done = login.done
        try:
            login.take(reply, self._app.wall_s)
        except (AuthError, DecodeError) as error:
            self.failures.append(error.reason.name)
            if not login.done:
                self.lost(connection)
                self._app.give_up(connection)
            return
        if login.done and not was_done:
            self._logged_in(connection)

    def _logged_in(self, connection: Connection) -> None:
        if connection not in self._hunted:
            return
        if not self._logins[connection.session.id].is_current:
            self._hunted.remove(connection)
            self._overtaken.append(connection)
            return
        self.monitor = self._app.name_of(connection)
        losers = [other for other in (*self._hunted, *self._overtaken) if other is not connection]
        self._hunted, self._overtaken = [], []
        for loser in losers:
            self.lost(loser)
            self._app.give_up(loser)

    def _fall_back(self) -> None:
        """Log in again at a monitor whose tickets were replaced by a login that may be lost now."""
        if self._overtaken:
            name = self._app.name_of(connection := self._overtaken.pop())
            self.lost(connection)
            self._app.give_up(connection)
            self._app.connect(name, "lossy_client")
            self._hunted.append(self._app.connections[name])
