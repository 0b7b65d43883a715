"""The embedded OSD as a dispatcher: its session with the monitor, its map, and the requests of clients."""

import asyncio
import time
from dataclasses import dataclass, field

from messenger.cephx.client import CephxClient
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import DecodeError, Fault, FaultReason
from messenger.messages.command import MCommand
from messenger.messages.message import Message
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental
from messenger.messenger import Messenger
from toolkit.embedded.osd import commands
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.osd.work import Client
from toolkit.rados.errors import RadosError
from toolkit.rados.monitors import Monitors
from toolkit.rados.placement import Placement

TICK_INTERVAL_S = 5.0
"""Interval between checks of the session with the monitor; shorter if service keys live for seconds only."""
REPORT_INTERVAL_S = 0.5
"""Interval between reports of the space usage, while it changes."""


MOST_WAITING = 2048
"""Maximum number of a client's requests that wait for a map; librados has at most 1024 in flight."""
MOST_WAITING_BYTES = 256 << 20
"""Maximum size of a client's requests that wait for a map; librados has at most 100 MiB in flight."""


@dataclass(slots=True)
class _Waiting:
    """Requests of a client that has a newer map than the OSD, in order of arrival."""

    requests: list[tuple[Message, MOSDOp]] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, message: Message, request: MOSDOp) -> bool:
        """Add a request; returns False if the requests are now too many, or too large together."""
        self.requests.append((message, request))
        self.size_bytes += message.size_bytes
        return len(self.requests) <= MOST_WAITING and self.size_bytes <= MOST_WAITING_BYTES


class Osd(Dispatcher):
    """Serves the placement groups of which it is the primary.

    Args:
        number: the OSD's id.
        auth: credentials for the login to the monitor.
        rotating: keyring for the service keys from the monitor; None without authentication.
        monitors: addresses of the monitors.
    """

    def __init__(
        self,
        number: int,
        auth: CephxClient | NoneClient,
        rotating: RotatingKeyring | None,
        monitors: list[AddrVec],
    ) -> None:
        self.number = number
        self.requests = Requests()
        self.serving = asyncio.Event()
        """Set once the OSD is up in its map, and has service keys to authenticate clients."""
        self._auth = auth
        self._rotating = rotating
        self._monitor_addrs = monitors
        self._placement: Placement | None = None
        self._maps: dict[int, bytes] = {}
        """Received increments by epoch, for clients with older maps."""
        self._waiting: dict[Connection, _Waiting] = {}
        self._known_epochs: dict[Connection, int] = {}
        """The newest epoch that each client is known to have, from its requests or from sent maps."""
        self._tick_interval_s = TICK_INTERVAL_S if rotating is None else min(TICK_INTERVAL_S, rotating.grace_s)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, messenger: Messenger) -> None:
        """Log in; ``messenger`` must be listening with this OSD as its dispatcher."""
        self._monitors = Monitors(messenger, self._auth, self._monitor_addrs, rotating=self._rotating)
        self._monitors.start()
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._report()), loop.create_task(self._tick())]

    async def stop(self) -> None:
        """End the session with the monitor, and stop all tasks."""
        self._monitors.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def epoch(self) -> int:
        """Epoch of the OSD's map; 0 before the first map."""
        return 0 if self._placement is None else self._placement.osdmap.epoch

    # ---- the messenger's events

    @override
    def ms_handle_connect(self, connection: Connection) -> None:
        self._monitors.connected(connection, time.time())

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        if connection.peer_type is EntityType.MON:
            self._monitors.lost(connection, fault)
            return
        self._known_epochs.pop(connection, None)
        self.requests.watches.lost(connection)
        self._waiting.pop(connection, None)

    @override
    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        self._monitors.lost(connection, fault)

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        payload = message.payload
        try:
            if isinstance(payload, MOSDOp):
                payload.take_data(message)
                self._take_request(connection, message, payload)
            elif isinstance(payload, MCommand):
                reply, output = commands.answer(payload)
                connection.send(Message.of(reply, data=output, tid=message.tid))
            elif connection.peer_type is not EntityType.MON:
                return None  # clients with watches send pings, which have no reply
            elif isinstance(payload, MOSDMap):
                self._take_maps(payload)
            else:
                self._monitors.dispatch(connection, message, time.time())
        except DecodeError as error:
            self._end(connection, str(error))
        self._update_serving()
        return None

    def _end(self, connection: Connection, why: str) -> None:
        """End the session of a client that exceeds a limit or sends malformed data; it may reconnect."""
        connection.mark_down()
        self.ms_handle_reset(connection, Fault(FaultReason.BAD_MESSAGE, why))

    # ---- maps

    def _take_maps(self, message: MOSDMap) -> None:
        before = self.epoch
        while (osdmap := self._next_map(message)) is not None:
            self._placement = Placement(osdmap, self._placement)
        if self._placement is None or self.epoch == before:
            return
        self._monitors.got("osdmap", self.epoch)
        self.requests.store.keep_pools(self._placement.osdmap.pools)
        waiting, self._waiting = self._waiting, {}
        for connection, of_client in waiting.items():
            for request, payload in of_client.requests:
                self._take_request(connection, request, payload)

    def _next_map(self, message: MOSDMap) -> OSDMap | None:
        if self._placement is not None:
            increment = message.incremental_maps.get(self.epoch + 1)
            if increment is not None:
                self._maps[self.epoch + 1] = bytes(increment)
                return self._placement.osdmap.apply(Incremental.decode(increment))
        newer = [epoch for epoch in message.maps if epoch > self.epoch]
        return OSDMap.decode(message.maps[max(newer)]) if newer else None

    def _update_serving(self) -> None:
        if self.serving.is_set() or self._placement is None:
            return
        has_keys = self._rotating is None or bool(self._rotating.secrets)
        if has_keys and self._placement.osdmap.osds[self.number].is_up:
            self.serving.set()

    def _share_maps(self, connection: Connection, epoch: int) -> None:
        """Send a client the maps after ``epoch``, or after the newest that it is known to have."""
        assert self._placement is not None
        known = max(epoch, self._known_epochs.get(connection, 0))
        self._known_epochs[connection] = max(known, self.epoch)
        if known >= self.epoch:
            return
        message = MOSDMap(self._placement.osdmap.fsid, oldest=1, newest=self.epoch)
        wanted = range(known + 1, self.epoch + 1)
        if all(number in self._maps for number in wanted):
            message.incremental_maps = {number: self._maps[number] for number in wanted}
        else:
            message.maps = {self.epoch: self._placement.osdmap.encode(connection.session.features)}
        connection.send(message)

    # ---- requests

    def _take_request(self, connection: Connection, message: Message, request: MOSDOp) -> None:
        placement, pgid = self._placement, request.pgid.pgid
        if placement is None or request.osdmap_epoch > self.epoch or connection in self._waiting:
            if not self._waiting.setdefault(connection, _Waiting()).add(message, request):
                self._end(connection, f"more than {MOST_WAITING} requests or {MOST_WAITING_BYTES} bytes wait")
            return
        self._share_maps(connection, request.osdmap_epoch)
        pool = placement.osdmap.pools.get(pgid.pool)
        if pool is None or placement.mapping(pgid).acting_primary != self.number:
            return  # the newer map directs the client to another OSD, to which it resends the request
        reply = self.requests.carry_out(
            request, message.tid, self._client(connection), epoch=self.epoch, pg_num=pool.pg_num
        )
        connection.send(reply.message(message.tid))

    @staticmethod
    def _client(connection: Connection) -> Client:
        """Return the sender, identified by the global id of its login."""
        result = connection.auth_result
        name = connection.session.peer_name
        if result is not None and name.type is EntityType.CLIENT:
            name = EntityName(name.type, result.global_id)
        return Client(name, connection)

    # ---- periodic tasks

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_interval_s)
            self._monitors.tick(time.time())

    async def _report(self) -> None:
        """Report the space usage to the monitor whenever it has changed."""
        reported: dict[int, tuple[int, int]] = {}
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            use = self.requests.store.use()
            if use == reported or not self.serving.is_set():
                continue
            try:
                await self._monitors.command({"prefix": "osd report use", "use": use})
            except RadosError:
                continue  # try again: the monitor rejects reports until the OSD has subscribed
            reported = use
