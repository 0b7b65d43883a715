"""An embedded daemon on its messenger, and the commands that inspect and disturb it."""

import asyncio
from typing import Any, ClassVar

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthClient, AuthMethod, AuthServer
from messenger.cephx.key_server import CipherPolicy, KeyServer, Principal
from messenger.cephx.mon_server import MonAuthServer
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.service import CephxService
from messenger.compat import override
from messenger.connection import Connection as CoreConnection
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT, STATELESS_SERVER, PolicySet
from toolkit.embedded.lifetimes import LIFETIMES, require_lifetimes
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.manager import Manager
from toolkit.embedded.mon.maps import Maps
from toolkit.embedded.mon.monitor import Monitor
from toolkit.embedded.node.spec import EmbeddedSpec
from toolkit.embedded.osd.daemon import Osd
from toolkit.faults.points import ArmedPoints, parse_point
from toolkit.node.inside import Inside
from toolkit.node.live_random import LiveRandom
from toolkit.node.recording_messenger import RecordingMessenger, Records, Write

SERVE_TIMEOUT_S = 15.0
"""Maximum time until the monitor has marked a starting OSD up."""


class EmbeddedApp(Inside):
    """A monitor or an OSD, and its commands.

    Args:
        spec: the daemon's spec.
        write: called with each history record.
    """

    VERBS: ClassVar[tuple[str, ...]] = (
        *("arm", "disarm", "unblock", "hits", "visits", "configure"),
        *("perf_dump", "snapshot", "session", "sessions", "resources", "holdings"),
        *("limit_descriptors", "limit_memory", "own_address"),
    )
    """Methods that are commands, over the control channel of a process."""

    def __init__(self, spec: EmbeddedSpec, write: Write) -> None:
        self.spec = spec
        self.points = ArmedPoints()
        self._records = Records(spec, spec.names, write)
        self._rng = LiveRandom(f"{spec.seed} {spec.name} {spec.incarnation}")
        self._manager: Messenger | None = None
        self._daemon: Monitor | Osd = self._new_monitor() if spec.type is EntityType.MON else self._new_osd()

    async def open(self) -> None:
        """Listen, and serve.

        Raises:
            LocalError: an address cannot be bound, or the monitor does not mark the OSD up in time.
        """
        spec = self.spec
        self._messenger = RecordingMessenger(
            EntityName(spec.type, 0 if spec.type is EntityType.MON else int(spec.id)),
            auth_client=self._auth_client,
            auth_server=self._auth_server,
            dispatcher=self._daemon,
            policies=PolicySet(STATELESS_SERVER, {EntityType.MON: LOSSY_CLIENT}),
            config=spec.config(),
            rng=self._rng,
            nonce=spec.addrs.front.nonce,
            route=spec.route,
            trace=self._records.trace,
            interceptor=self.points,
        )
        self._messenger.records = self._records
        self._messenger.add_dispatcher_head(_Tap(self._records, self._messenger))
        if isinstance(self._daemon, Monitor):
            await self._open_manager(self._daemon.cluster)
        for own in spec.addrs:
            await self._messenger.bind(own.host, own.port, Protocol.of(own))
        if isinstance(self._daemon, Osd):
            await self._serve(self._daemon)

    async def _open_manager(self, cluster: Cluster) -> None:
        """Listen for commands to the manager on free ports: its map has their numbers."""
        manager, spec = Manager(cluster), self.spec
        self._manager = Messenger(
            EntityName(EntityType.MGR, 0),
            auth_server=manager.auth_server(),
            dispatcher=manager,
            policies=PolicySet(STATELESS_SERVER),
            config=spec.config(),
        )
        for own in spec.addrs:
            await self._manager.bind(own.host, 0, Protocol.of(own))
        manager.announce(self._manager.addrs)

    async def _serve(self, osd: Osd) -> None:
        osd.start(self._messenger)
        try:
            async with asyncio.timeout(SERVE_TIMEOUT_S):
                await osd.serving.wait()
        except TimeoutError:
            raise LocalError(f"{self.spec.name}: the monitor has not marked osd.{self.spec.id} up") from None

    async def close(self) -> None:
        """End the daemon; its objects are lost."""
        if isinstance(self._daemon, Osd):
            await self._daemon.stop()
        if self._manager is not None:
            await self._manager.shutdown()
        await self._messenger.shutdown()

    # ---- the daemon

    def _new_monitor(self) -> Monitor:
        spec = self.spec
        principals = {name: Principal(entry.key, entry.caps) for name, entry in spec.keys.entries.items()}
        # rotating keys have the default type, aes, which all releases support
        policy = CipherPolicy(preferred=spec.key_type)
        keys = KeyServer(
            principals, self._rng, policy=policy, auth_ttl_s=spec.auth_ttl_s, service_ttl_s=spec.service_ttl_s
        )
        method = AuthMethod[spec.auth.upper()]
        auth = MonAuthServer(keys, (method,), (method,))
        monitors = {name: AddrVec.parse(addrs) for name, addrs in spec.monitors.items()}
        maps = Maps(spec.cluster_id, monitors, {int(osd): host for osd, host in spec.osds.items()})
        for pool, pg_num in spec.pools.items():
            maps.create_pool(pool, pg_num)
        self._auth_client: AuthClient | None = None
        self._auth_server: AuthServer = auth
        return Monitor(Cluster(spec.id, maps, keys, spec.auth), auth, self._rng)

    def _new_osd(self) -> Osd:
        spec = self.spec
        name = AuthName(EntityType.OSD, spec.id)
        rotating = RotatingKeyring(EntityType.OSD, spec.service_ttl_s) if spec.auth == "cephx" else None
        client: CephxClient | NoneClient
        if rotating is None:
            client, self._auth_server = NoneClient(name), NoneServer()
        else:
            client = CephxClient(name, spec.keys.key(name))
            self._auth_server = CephxService(EntityType.OSD, rotating.secrets)
        self._auth_client = client
        monitors = [AddrVec.parse(addrs) for addrs in spec.monitors.values()]
        return Osd(int(spec.id), client, rotating, monitors)

    @property
    @override
    def driver(self) -> Messenger:
        return self._messenger

    @property
    def daemon(self) -> Monitor | Osd:
        """The monitor or OSD itself."""
        return self._daemon

    # ---- commands

    async def carry_out(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command.

        Raises:
            LocalError: the command is unknown.
            MsgrError: the command failed.
            TypeError: the arguments do not match the command.
        """
        if verb not in self.VERBS:
            raise LocalError(f"unknown verb {verb!r}; known: {', '.join(sorted(self.VERBS))}")
        connections = self._messenger.connections.values()
        self._connections = {self._records.name_of(each): each for each in connections}
        answer: dict[str, Any] | None = getattr(self, verb)(**args)
        return answer or {}

    def arm(self, point: str, action: str, nth: int) -> None:
        """Take ``action`` when a link reaches ``point`` for the ``nth`` time from now on."""
        self.points.arm(point, action, nth)

    def disarm(self) -> None:
        """Cancel the armed actions that have not been taken yet."""
        self.points.disarm()

    def unblock(self, point: str) -> None:
        """Resume the links that are blocked or stalled at ``point``."""
        for link_id in self.points.held(point):
            self.driver.unblock(link_id)

    def hits(self, point: str) -> dict[str, int]:
        """Return the number of actions armed at ``point`` that have been taken, under the key ``hits``."""
        wanted = parse_point(point)
        return {"hits": sum(each.link_id is not None for each in self.points.armed if each.point == wanted)}

    def visits(self) -> dict[str, list[tuple[str, str, int]]]:
        """Return how often each action was taken at each point, under the key ``visits``."""
        return {"visits": [(point, action, count) for (point, action), count in self.points.visited.items()]}

    def configure(self, options: dict[str, Any]) -> None:
        """Change options of the messenger, and the ticket lifetimes of a monitor.

        Raises:
            LocalError: an option is unknown or has an invalid value, or an OSD is given ticket lifetimes.
        """
        lifetimes = {name: value for name, value in options.items() if name in LIFETIMES}
        if lifetimes and not isinstance(self._daemon, Monitor):
            raise LocalError(f"{self.spec.name}: {', '.join(lifetimes)}: the monitor makes the tickets")
        require_lifetimes(lifetimes)
        self.driver.configure(**{name: value for name, value in options.items() if name not in lifetimes})
        if isinstance(self._daemon, Monitor):
            ttls_s = {LIFETIMES[name]: float(value) for name, value in lifetimes.items()}
            self._daemon.cluster.keys.set_lifetimes(**ttls_s)


class _Tap(Dispatcher):
    """Records delivered messages, and leaves them to the daemon."""

    def __init__(self, records: Records, messenger: Messenger) -> None:
        self._records = records
        self._messenger = messenger

    @override
    def ms_dispatch(self, connection: CoreConnection, message: Message) -> bool | None:
        self._records.delivered(self._messenger, connection, message)
        return False
