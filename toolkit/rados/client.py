"""A RADOS client: a Ceph cluster from an application's point of view.

::

    async with Rados.connect("v2:127.0.0.1:3300", keyring="keyring") as rados:
        pool = rados.pool("rbd")
        await pool.write_full("greeting", b"hello")
"""

import asyncio
import errno
import json
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from messenger.cephx.client import CephxClient
from messenger.cephx.keyring import Keyring
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.codec import Buffer
from messenger.denc.entity import AuthName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import DecodeError, Fault, FaultReason, LocalError
from messenger.messages.command import MCommand, MCommandReply
from messenger.messages.message import Message
from messenger.messages.monmap import MonMap
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_client import MOSDBackoff, MWatchNotify
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osdmap import OSDMap
from messenger.messenger import Messenger, Route
from toolkit.network.host_names import numeric
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import IoCtx
from toolkit.rados.monitors import CommandReply, Monitors
from toolkit.rados.objecter import Objecter
from toolkit.rados.placement import Placement

TICK_INTERVAL_S = 5.0
"""Interval of keepalives and of checks that tickets are still valid."""

MonAddrs = str | AddrVec | Iterable[str | AddrVec]


class Rados(Dispatcher):
    """A client, made by :meth:`connect`; an async context manager that is connected inside the block."""

    def __init__(
        self,
        addrs: list[AddrVec],
        auth: CephxClient | NoneClient,
        config: Config | None,
        timeout_s: float,
        route: Route | None = None,
    ) -> None:
        self._addrs = addrs
        self._auth = auth
        self._config = config
        self._timeout_s = timeout_s
        self._route = route
        self._rotating: RotatingKeyring | None = None
        self._messenger: Messenger
        self._parts: tuple[Monitors, Objecter] | None = None
        """None before the first time that this client is entered; they refuse requests after it has ended."""
        self._is_entered = False
        self._ticker: asyncio.Task[None] | None = None

    @classmethod
    def connect(
        cls,
        mon_addrs: MonAddrs,
        *,
        entity: str = "client.admin",
        keyring: Keyring | Path | str | None = None,
        config: Config | None = None,
        timeout_s: float = 30.0,
        route: Route | None = None,
    ) -> Self:
        """Return a client of the cluster whose monitors have these addresses.

        Args:
            mon_addrs: address or bracketed address vector of a monitor, or several of them. Their types select the
                protocols, for OSDs, too.
            entity: entity name of the client.
            keyring: keyring with the key of ``entity``; None for a cluster without authentication.
            config: options of the messenger, such as connection modes.
            timeout_s: time limit for entering the context.
            route: returns the address to dial for an address, where a proxy is in between.

        Raises:
            LocalError: a malformed address or name, no key for the entity, or no address at all.
        """
        one = isinstance(mon_addrs, str | AddrVec)
        several: list[Any] = [mon_addrs] if one else list(mon_addrs)
        addrs = [AddrVec.parse(numeric(addr)) if isinstance(addr, str) else addr for addr in several]
        if not any(map(len, addrs)):
            raise LocalError("a client needs the address of a monitor")
        name = AuthName.parse(entity)
        if keyring is None:
            return cls(addrs, NoneClient(name), config, timeout_s, route)
        ring = keyring if isinstance(keyring, Keyring) else Keyring.load(keyring)
        return cls(addrs, CephxClient(name, ring.key(name)), config, timeout_s, route)

    def make_messenger(self, auth: CephxClient | NoneClient, config: Config | None) -> Messenger:
        """Return the client's messenger, with the client as dispatcher; subclasses may return another kind."""
        return Messenger(auth_client=auth, dispatcher=self, config=config, route=self._route)

    async def __aenter__(self) -> Self:
        """Connect to a monitor and wait for the first maps.

        Raises:
            RadosError: the monitors reject this client, or none answers in time (ETIMEDOUT).
            LocalError: it is connected already.
        """
        if self._is_entered:
            raise LocalError("this client is connected already; make another one by Rados.connect")
        self._messenger = self.make_messenger(self._auth, self._config)
        monitors = Monitors(self._messenger, self._auth, self._addrs, self._rotating)
        self._parts = monitors, Objecter(self._messenger, monitors)
        self._is_entered = True
        monitors.start()
        try:
            await self._wait_until_ready()
        except BaseException:
            await self._stop()
            raise
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def _monitors(self) -> Monitors:
        return self._connected()[0]

    @property
    def _objecter(self) -> Objecter:
        return self._connected()[1]

    def _connected(self) -> tuple[Monitors, Objecter]:
        if self._parts is None:
            raise LocalError("this client is not connected: use it in 'async with Rados.connect(...) as rados'")
        return self._parts

    # ---- the cluster

    @property
    def global_id(self) -> int:
        """Global id that the monitors assigned to this client."""
        return self._auth.global_id

    @property
    def connections(self) -> dict[str, Connection]:
        """Its sessions by the peer's name: ``mon``, ``osd.0`` and so on."""
        mon = self._monitors.connection
        return ({} if mon is None else {"mon": mon}) | self._objecter.connections

    @property
    def osdmap(self) -> OSDMap:
        """The newest OSD map received."""
        return self._objecter.placement.osdmap

    @property
    def placement(self) -> Placement:
        """Placement of objects by that map."""
        return self._objecter.placement

    @property
    def monmap(self) -> MonMap:
        """The monitor map."""
        assert self._monitors.monmap is not None
        return self._monitors.monmap

    def pool(self, name: str, namespace: str = "", locator_key: str = "") -> IoCtx:
        """Return the objects of a pool; the first request raises RadosError (ENOENT) if there is no such pool."""
        return IoCtx(self._objecter, name, namespace, locator_key)

    async def command(self, command: dict[str, Any], data: Buffer = b"") -> CommandReply:
        """Run a monitor command, given as its ``prefix`` and arguments; raises RadosError.

        ::

            await rados.command({"prefix": "osd pool ls", "format": "json"})
        """
        return await self._monitors.command(command, data)

    async def osd_command(self, osd: int, command: dict[str, Any], data: Buffer = b"") -> CommandReply:
        """Run a command on an OSD, as ``ceph tell osd.N`` does.

        Raises:
            RadosError: it failed; ENXIO: the OSD is not up; ECONNRESET: the session was lost before the reply.
        """
        payload = MCommand(self.monmap.fsid, [json.dumps(command)])
        message = await self._objecter.command(osd, payload, data)
        reply = message.payload
        assert isinstance(reply, MCommandReply)
        if reply.r < 0:
            raise RadosError(-reply.r, f"{command.get('prefix', command)} on osd.{osd}: {reply.rs}")
        return CommandReply(bytes(message.data), reply.rs)

    async def create_pool(self, name: str, pg_num: int = 8, **options: Any) -> IoCtx:  # noqa: ANN401 - as JSON
        """Create a pool and wait until this client's map has it.

        Args:
            name: name of the pool.
            pg_num: number of placement groups.
            options: further arguments of ``ceph osd pool create``, such as ``size`` or ``pool_type``.

        Raises:
            RadosError: the monitors reject the command.
        """
        await self.command({"prefix": "osd pool create", "pool": name, "pg_num": pg_num, **options})
        await self.wait_for_newest_map()
        return self.pool(name)

    async def wait_for_newest_map(self) -> None:
        """Wait until the OSD map is at least as new as the monitors' map at the time of the call."""
        await self._objecter.wait_for_newest_map()

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until the OSD map has at least this epoch."""
        await self._objecter.wait_for_epoch(epoch)

    # ---- the messenger's events

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        """Process a message; one that does not decode closes the sender's session."""
        try:
            self._dispatch(connection, message)
        except DecodeError as error:
            connection.mark_down()
            self.ms_handle_reset(connection, Fault(FaultReason.BAD_MESSAGE, str(error)))

    def _dispatch(self, connection: Connection, message: Message) -> None:
        payload = message.payload
        if isinstance(payload, MOSDOpReply):
            self._objecter.take_reply(connection, message, payload)
        elif isinstance(payload, MOSDMap):
            self._objecter.take_maps(payload)
        elif isinstance(payload, MWatchNotify):
            self._objecter.take_notify(message, payload)
        elif isinstance(payload, MCommandReply):
            self._objecter.take_command_reply(connection, message)
        elif isinstance(payload, MOSDBackoff):
            session = self._objecter.session_of(connection)
            if session is not None:
                self._objecter.take_backoff(session, payload)
        else:
            self._monitors.dispatch(connection, message, time.time())

    def ms_handle_connect(self, connection: Connection) -> None:
        """Log in, if the peer is a monitor."""
        if connection.session.peer_type is EntityType.MON:
            self._monitors.connected(connection, time.time())

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        """Open a new session, and resend what was not answered."""
        if connection.session.peer_type is EntityType.MON:
            self._monitors.lost(connection, fault)
        else:
            self._objecter.lost(connection)

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        """Try the next monitor, or renew the ticket that an OSD rejected."""
        if connection.session.peer_type is EntityType.MON:
            self._monitors.lost(connection, fault)
        elif fault.reason is FaultReason.AUTH_DENIED:
            self._monitors.renew_tickets(time.time())

    # ---- start and end

    async def _wait_until_ready(self) -> None:
        first_maps = asyncio.get_running_loop().create_task(self._have_first_maps())
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.wait([first_maps, self._monitors.refusal], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            fault = self._monitors.last_fault
            why = "" if fault is None else f", last failure: {fault}"
            raise RadosError(errno.ETIMEDOUT, f"connecting to {', '.join(map(str, self._addrs))}{why}") from None
        finally:
            first_maps.cancel()
            await asyncio.wait([first_maps])
        if self._monitors.refusal.done():
            self._monitors.refusal.result()

    async def _have_first_maps(self) -> None:
        await self._monitors.has_monmap.wait()
        await self._objecter.wait_for_epoch(1)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_INTERVAL_S)
            self._monitors.tick(time.time())
            self._objecter.tick()

    async def _stop(self) -> None:
        self._monitors.stop()
        self._is_entered = False
        if self._ticker is not None:
            self._ticker.cancel()
        try:
            await self._objecter.stop()
            if self._ticker is not None:
                await asyncio.wait([self._ticker])
        finally:  # the wait may be cancelled
            await self._messenger.shutdown()
