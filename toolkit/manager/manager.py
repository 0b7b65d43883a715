"""A manager beside a real cluster: becomes active, accepts sessions of daemons, fails over (docs/manager.md).

::

    async with Manager.connect("v2:127.0.0.1:3300", keyring="mgr.keyring") as manager:
        await manager.wait_until(lambda: "osd.0" in manager.daemons and manager.daemons["osd.0"].reports)
"""

import asyncio
import errno
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from messenger.cephx.keyring import Keyring
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.codec import Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.errors import LocalError
from messenger.messages.message import Message
from messenger.messages.mgr import ManagerCommand, MMgrBeacon, MMgrConfigure
from messenger.messages.mgr_digest import MMgrDigest, MMonMgrReport
from messenger.messages.mgrmap import MgrMap, ModuleInfo
from messenger.messenger import Route
from toolkit.manager.capacity import available_by_rule
from toolkit.manager.daemon import Daemon
from toolkit.manager.digest import digest_of, newest
from toolkit.manager.login import MonLink
from toolkit.manager.server import DaemonServer
from toolkit.rados.client import MonAddrs
from toolkit.rados.errors import RadosError

BEACON_INTERVAL_S = 2.0
"""Ceph's ``mgr_beacon_period``. The monitors drop a manager after ``mon_mgr_beacon_grace``, 30 s."""
ANY_PORTS = "[v2:127.0.0.1:0/0,v1:127.0.0.1:0/0]"
_FULL_RATIO = 0.95
"""Ceph's ``mon_osd_full_ratio``, for maps that have none."""
_BY_MANAGER = 1 << 3
"""Flag of a command that ``ceph`` sends to the manager instead of a monitor."""
_METADATA = {"osd": ("osd metadata", "id"), "mds": ("mds metadata", "who"), "mon": ("mon metadata", "id")}
"""By kind of daemon, the monitor command for its metadata, and the argument that names the daemon."""
_COMMANDS = tuple(
    ManagerCommand(cmd, text, "pg" if cmd.startswith("pg") else "osd", "r", flags=_BY_MANAGER)
    for cmd, text in (
        ("pg stat", "print a line about the placement groups"),
        ("pg dump", "print the states of all placement groups"),
        ("osd df", "print what each OSD holds"),
        ("osd perf", "print the latencies of the OSDs"),
    )
)


class State(StrEnum):
    """State of a manager."""

    JOINING = "joining"
    """Beacons are sent, and no manager map names the manager yet."""
    STANDBY = "standby"
    ACTIVE = "active"
    REPLACED = "replaced"
    """The manager was active, and the map names another one or none. Like ceph-mgr, it sends no beacons until it
    restarts, because the monitors have put its address on the blocklist."""
    STOPPED = "stopped"


_IN_THE_MAP = frozenset({State.JOINING, State.STANDBY, State.ACTIVE})


@dataclass(slots=True)
class _Life:
    """The objects of one incarnation of the manager."""

    link: MonLink
    server: DaemonServer
    ending: AsyncExitStack
    gid: int
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)


class Manager:
    """A manager; :meth:`connect` creates it. As an async context manager it runs inside the block.

    Args:
        new_link: returns a client of the monitors that is not connected yet.
        name: entity of the manager.
        config: options of both messengers.
        listen_on: addresses to listen on, one for each protocol.
        timeout_s: time limit for a start.
    """

    def __init__(
        self,
        new_link: Callable[[], MonLink],
        name: AuthName,
        config: Config | None,
        listen_on: AddrVec | str,
        timeout_s: float,
    ) -> None:
        self._new_link = new_link
        self._name = name
        self._config = config
        self._listen_on = listen_on
        self._timeout_s = timeout_s
        self._life: _Life | None = None
        self._changed = asyncio.Event()
        self.state = State.STOPPED
        self.daemons: dict[str, Daemon] = {}
        """Daemons by name (``osd.0``) that have opened a session with this or an earlier incarnation."""
        self.modules: Sequence[ModuleInfo] = ()
        """Modules that the monitors show as available."""
        self.services: Mapping[str, str] = {}
        """URLs by module, as ``ceph mgr services`` shows them while the manager is active."""
        self.metadata: dict[str, str] = {"hostname": "msgrlab", "ceph_version": "msgrlab"}
        """Description that ``ceph mgr metadata`` shows."""
        self.configuration = MMgrConfigure(stats_period_s=5, stats_threshold=5)
        """Answer to MMgrOpen; :meth:`configure` changes it."""

    @classmethod
    def connect(
        cls,
        mon_addrs: MonAddrs,
        *,
        entity: str = "mgr.msgrlab",
        keyring: Keyring | Path | str | None = None,
        config: Config | None = None,
        listen_on: AddrVec | str = ANY_PORTS,
        timeout_s: float = 30.0,
        route: Route | None = None,
    ) -> Self:
        """Return a manager of the cluster whose monitors have these addresses.

        Args:
            mon_addrs: addresses of monitors, as for :meth:`toolkit.rados.client.Rados.connect`.
            entity: entity of the manager; the id is its name in the manager map.
            keyring: keyring with the key of ``entity``; None for a cluster without authentication.
            config: options of the messengers.
            listen_on: addresses for daemons, one for each protocol; port 0 selects a free port.
            timeout_s: time limit for entering the context and for :meth:`restart`.
            route: returns the address to dial for a monitor's address; None to dial the monitors directly.

        Raises:
            LocalError: a malformed address or name, no key for the entity, or one that is not ``mgr.NAME``.
        """
        name = AuthName.parse(entity)
        if name.type is not EntityType.MGR:
            raise LocalError(f"entity {entity!r} is not a manager: give mgr.NAME")
        if isinstance(keyring, Path | str):
            keyring = Keyring.load(keyring)

        def new_link() -> MonLink:
            return MonLink.connect(
                mon_addrs, entity=entity, keyring=keyring, config=config, timeout_s=timeout_s, route=route
            )

        new_link()  # raises LocalError here instead of in the first start
        return cls(new_link, name, config, listen_on, timeout_s)

    async def __aenter__(self) -> Self:
        """Start: log in, listen, and wait until the manager map names this manager.

        Raises:
            RadosError: the monitors reject the key (EACCES), or do not add the manager to the map (ETIMEDOUT).
            LocalError: an address cannot be bound.
        """
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- properties

    @property
    def name(self) -> str:
        """Name in the manager map."""
        return self._name.id

    @property
    def gid(self) -> int:
        """Global id of this incarnation, which names it in the manager map."""
        return self._alive().gid

    @property
    def addrs(self) -> AddrVec:
        """Addresses of this incarnation that daemons connect to."""
        return self._alive().server.addrs

    @property
    def mgrmap(self) -> MgrMap:
        """The newest manager map."""
        return self._alive().link.mgrmap

    @property
    def monitors(self) -> MonLink:
        """The RADOS client of this incarnation, for commands to the monitors and the OSD map."""
        return self._alive().link

    @property
    def digest(self) -> MMgrDigest | None:
        """Newest status and health that the monitors have sent; None before the first."""
        return self._alive().link.digest

    @property
    def refused_commands(self) -> list[str]:
        """Commands that this incarnation has refused, as the JSON that arrived."""
        return self._alive().server.commands

    def sessions(self) -> list[str]:
        """Return the sorted names of daemons with an open session."""
        return sorted(name for name, daemon in self.daemons.items() if daemon.is_open)

    # ---- waiting

    async def wait(self, *states: State) -> None:
        """Wait until the manager is in one of these states."""
        await self.wait_until(lambda: self.state in states)

    async def wait_until(self, holds: Callable[[], object]) -> None:
        """Wait until ``holds`` is true; it is evaluated after each event, report and map."""
        while not holds():
            await self._changed.wait()

    # ---- actions

    def configure(self, stats_period_s: int, stats_threshold: int = 5) -> None:
        """Change how daemons report, in open sessions and in later ones.

        Args:
            stats_period_s: seconds between reports; 0 stops them.
            stats_threshold: lowest priority of reported counters.
        """
        self.configuration = MMgrConfigure(stats_period_s, stats_threshold)
        for daemon in self.daemons.values():
            if daemon.connection is not None:
                daemon.connection.send(self.configuration)

    def cut(self, daemon: str) -> None:
        """Close the link of a daemon's session. The session is lossy: the daemon opens a new one.

        Raises:
            RadosError: ENOTCONN, the daemon has no open session.
        """
        known = self.daemons.get(daemon)
        if known is None or not known.is_open:
            raise RadosError(errno.ENOTCONN, f"{daemon} has no open session; open: {', '.join(self.sessions())}")
        self._alive().server.cut(known)

    async def fail(self) -> None:
        """Have the monitors drop the active manager, as ``ceph mgr fail`` does, and wait until the map shows it.

        A standby becomes active at once, instead of after ``mon_mgr_beacon_grace``. This manager is then REPLACED.

        Raises:
            RadosError: the monitors reject the command; EINVAL, the manager is not active.
        """
        if self.state is not State.ACTIVE:
            raise RadosError(
                errno.EINVAL, f"mgr.{self.name} is {self.state}, only an active manager can be failed"
            )
        await self._alive().link.command({"prefix": "mgr fail", "who": self.name})
        await self.wait(State.REPLACED)

    async def stop(self) -> None:
        """End without a message to the monitors or daemons, like a killed manager."""
        life, self._life = self._life, None
        if life is None:
            return
        self._become(State.STOPPED)
        tasks = list(life.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await life.ending.aclose()

    async def restart(self) -> None:
        """Stop, and start again with another global id and nonce; raises as entering the context."""
        await self.stop()
        await self._start()

    # ---- internals

    def _alive(self) -> _Life:
        if self._life is None:
            raise RadosError(errno.ENOTCONN, f"mgr.{self.name} does not run")
        return self._life

    async def _start(self) -> None:
        ending = AsyncExitStack()
        link = await ending.enter_async_context(self._new_link())
        server = DaemonServer(
            link.global_id,
            link.rotating,
            self._config,
            self.daemons,
            lambda: self.configuration,
            self._opened,
            self._notify,
        )
        ending.push_async_callback(server.stop)
        life = self._life = _Life(link, server, ending, link.global_id)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._join(life)
        except TimeoutError:
            await self.stop()
            why = f"the monitors do not add mgr.{self.name} to the manager map; it needs mon 'profile mgr'"
            raise RadosError(errno.ETIMEDOUT, why) from None
        except BaseException:
            await self.stop()
            raise

    async def _join(self, life: _Life) -> None:
        """Listen, and send beacons until the manager map names this manager."""
        life.link.changed = self._follow
        await self.wait_until(lambda: life.link.has_keys)
        await life.server.listen(self._listen_on)
        life.link.follow()
        self._become(State.JOINING)
        self._run(life, self._send_beacons(life))
        await self.wait(State.STANDBY, State.ACTIVE)

    @staticmethod
    def _run(life: _Life, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        life.tasks.add(task)
        task.add_done_callback(life.tasks.discard)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _become(self, state: State) -> None:
        self.state = state
        self._notify()

    def _follow(self) -> None:
        """Apply the newest manager map."""
        life = self._life
        if life is not None and self.state in _IN_THE_MAP:
            mgrmap = life.link.mgrmap
            if mgrmap.active_gid == life.gid:
                self.state = State.ACTIVE
            elif self.state is State.ACTIVE:
                self.state = State.REPLACED
                life.server.drop_all("the manager map names another manager")
            else:
                self.state = State.STANDBY if life.gid in mgrmap.standbys else State.JOINING
        self._notify()

    def _opened(self, daemon: Daemon) -> None:
        if self._life is not None:
            self._run(self._life, self._ask_metadata(self._life, daemon))

    @staticmethod
    async def _ask_metadata(life: _Life, daemon: Daemon) -> None:
        """Request the metadata of a daemon from the monitors; services sent theirs in MMgrOpen."""
        kind, _, number = daemon.name.partition(".")
        if kind in _METADATA:
            prefix, argument = _METADATA[kind]
            daemon_id = int(number) if kind == "osd" and number.isdecimal() else number
            with suppress(RadosError):  # the monitors have no metadata of the daemon yet; it stays without
                reply = await life.link.command({"prefix": prefix, argument: daemon_id, "format": "json"})
                daemon.metadata = {key: str(value) for key, value in json.loads(reply.output).items()}

    async def _send_beacons(self, life: _Life) -> None:
        """Send a beacon and, if active, a report: regularly, and at once when the state changes."""
        while self.state in _IN_THE_MAP:
            state = self.state
            life.link.send(self._beacon(life))
            if state is State.ACTIVE:
                life.link.send(self._report(life))
            with suppress(TimeoutError):
                async with asyncio.timeout(BEACON_INTERVAL_S):
                    await self.wait(*(set(State) - {state}))

    def _beacon(self, life: _Life) -> MMgrBeacon:
        is_active = self.state is State.ACTIVE
        return MMgrBeacon(
            life.server.addrs,
            life.gid,
            available=is_active,
            name=self.name,
            fsid=life.link.monmap.fsid,
            module_names={module.name for module in self.modules},
            command_descs=list(_COMMANDS) if is_active else [],
            metadata=dict(self.metadata),
            services=dict(self.services) if is_active else {},
            modules=list(self.modules),
            mgr_features=ALL_FEATURES,
        )

    def _report(self, life: _Life) -> Message:
        osdmap = life.link.osdmap
        pg_nums = {number: pool.pg_num for number, pool in osdmap.pools.items()}
        groups = newest(daemon.pg_stats for daemon in self.daemons.values())
        named = {number: self.daemons.get(f"osd.{number}") for number in range(len(osdmap.osds))}
        osds = {number: daemon.osd_stat for number, daemon in named.items() if daemon and daemon.osd_stat}
        available = available_by_rule(life.link.placement.crush, osds, osdmap.full_ratio or _FULL_RATIO)
        digest = digest_of(pg_nums, groups, osds, available)
        encoder = Encoder()
        digest.encode(encoder, ALL_FEATURES)
        return Message.of(MMonMgrReport(gid=life.gid), data=encoder.getvalue())
