"""The manager's side towards daemons: their sessions, reports and commands (docs/protocol.md §6.3)."""

import errno
from collections.abc import Callable

from messenger.cephx.exchange import AuthServer
from messenger.cephx.none import NoneServer
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.service import CephxService
from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import DecodeError, Fault, FaultReason, LocalError
from messenger.messages.command import MCommand, MCommandReply, MMgrCommand, MMgrCommandReply
from messenger.messages.message import Message
from messenger.messages.mgr import MMgrClose, MMgrConfigure, MMgrOpen, MMgrReport
from messenger.messages.pg_stats import MPGStats
from messenger.messenger import Messenger
from messenger.session.policy import PolicySet
from toolkit.manager.daemon import Daemon

MOST_DAEMONS = 10_000
"""Maximum number of daemons that a manager keeps."""


class DaemonServer(Dispatcher):
    """Accepts sessions of daemons and keeps their reports.

    Args:
        number: global id of the manager, which is the number in its entity name.
        rotating: service keys of the manager; None without authentication.
        config: options of the messenger.
        daemons: daemons by name, to which new ones are added.
        configuration: returns the MMgrConfigure that answers an MMgrOpen.
        opened: called with each daemon that opens a session.
        changed: called after each event and report.
    """

    def __init__(
        self,
        number: int,
        rotating: RotatingKeyring | None,
        config: Config | None,
        daemons: dict[str, Daemon],
        configuration: Callable[[], MMgrConfigure],
        opened: Callable[[Daemon], None],
        changed: Callable[[], None],
    ) -> None:
        self._daemons = daemons
        self._configuration = configuration
        self._opened = opened
        self._changed = changed
        server: AuthServer = NoneServer() if rotating is None else CephxService(EntityType.MGR, rotating.secrets)
        self._messenger = Messenger(
            EntityName(EntityType.MGR, number),
            auth_server=server,
            dispatcher=self,
            policies=PolicySet.for_messenger("mgr", config),
            config=config,
        )
        self.commands: list[str] = []
        """The newest 100 commands that were refused, as the received JSON."""

    @property
    def addrs(self) -> AddrVec:
        """Addresses that daemons connect to."""
        return self._messenger.addrs

    async def listen(self, addrs: AddrVec | str) -> None:
        """Listen on these addresses; raises LocalError."""
        try:
            await self._messenger.bind_all(addrs)
        except LocalError:
            await self._messenger.shutdown()
            raise

    async def stop(self) -> None:
        """Close all sessions without MMgrClose, like a killed manager."""
        await self._messenger.shutdown()
        self.drop_all("the manager stopped")

    def drop_all(self, reason: str) -> None:
        """Close the links of all sessions; the daemons then follow the manager map."""
        for daemon in self._daemons.values():
            if (connection := daemon.connection) is not None:
                connection.mark_down()
                daemon.ended("cut", reason)
        self._changed()

    def cut(self, daemon: Daemon) -> None:
        """Close the link of an open session."""
        assert daemon.connection is not None
        daemon.connection.mark_down()
        daemon.ended("cut")
        self._changed()

    # ---- the messenger's events

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        payload = message.payload
        if isinstance(payload, MCommand):
            self._refuse(connection, message, payload)
        elif isinstance(payload, MMgrOpen):
            self._open(connection, payload)
        elif isinstance(payload, MMgrReport | MPGStats | MMgrClose):
            self._take(connection, payload)
        else:
            return False
        self._changed()
        return None

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        daemon = self._daemon_of(connection)
        if daemon is not None:
            daemon.ended("lost", str(fault))
            self._changed()

    # ---- internals

    def _daemon_of(self, connection: Connection) -> Daemon | None:
        """Return the daemon whose open session uses this connection; None if there is none."""
        daemon = connection.user
        return daemon if isinstance(daemon, Daemon) and daemon.connection is connection else None

    def _open(self, connection: Connection, payload: MMgrOpen) -> None:
        name = f"{payload.service_name or connection.peer_type.label}.{payload.daemon_name}"
        daemon = self._daemons.get(name)
        if daemon is None:
            if len(self._daemons) >= MOST_DAEMONS:
                connection.mark_down()
                return
            daemon = self._daemons[name] = Daemon(name)
        connection.user = daemon
        daemon.opened(connection, payload)
        connection.send(self._configuration())
        self._opened(daemon)

    def _take(self, connection: Connection, payload: MMgrReport | MPGStats | MMgrClose) -> None:
        daemon = self._daemon_of(connection)
        if daemon is None:
            connection.mark_down()  # its MMgrOpen went to another manager: make it connect and open again
            return
        if isinstance(payload, MPGStats):
            daemon.take_pg_stats(payload)
        elif isinstance(payload, MMgrReport):
            try:
                daemon.take_report(payload)
            except DecodeError as error:
                connection.mark_down()
                daemon.ended("bad_message", str(Fault(FaultReason.BAD_MESSAGE, str(error))))
        else:
            daemon.ended("closed")
            connection.send(payload)  # a daemon that ends waits for its MMgrClose to come back

    def _refuse(self, connection: Connection, message: Message, payload: MCommand) -> None:
        """Answer a command with an error, so that ``ceph`` prints it instead of waiting."""
        kind = MMgrCommandReply if isinstance(payload, MMgrCommand) else MCommandReply
        self.commands = [*self.commands[-99:], *payload.cmd[:1]]
        reason = "this is msgrlab's manager, which carries out no commands"
        connection.send(Message.of(kind(-errno.EOPNOTSUPP, reason), tid=message.tid))
