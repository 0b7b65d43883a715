"""The embedded OSD as a dispatcher: its session with the monitor, its map, and the requests of clients."""

import asyncio
import contextlib
import errno
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

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
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.pg import PgId
from messenger.messages.pg_scrub import MOSDScrub2
from messenger.messenger import Messenger
from toolkit.embedded.osd import commands
from toolkit.embedded.osd.copies import Copier, sources_of
from toolkit.embedded.osd.options import OsdOptions
from toolkit.embedded.osd.requests import Requests, refusal
from toolkit.embedded.osd.snapsets import PoolSnaps
from toolkit.embedded.osd.store import ObjectKey, StoredObject
from toolkit.embedded.osd.work import Client, Source
from toolkit.rados.errors import RadosError
from toolkit.rados.monitors import Monitors
from toolkit.rados.objecter import Objecter
from toolkit.rados.placement import Placement, object_hash

TICK_INTERVAL_S = 5.0
"""Interval between checks of the session with the monitor; shorter if service keys live for seconds only."""
REPORT_INTERVAL_S = 0.5
"""Interval between reports of the space usage, while it changes."""
MOST_WAITING = 2048
"""Maximum number of a client's requests that wait; librados has at most 1024 in flight."""
MOST_WAITING_BYTES = 256 << 20
"""Maximum size of a client's requests that wait; librados has at most 100 MiB in flight."""
MOST_UNREAD_BYTES = 64 << 20
"""Size of answers that a client has not read beyond which its further requests wait."""
UNREAD_OVERHEAD_BYTES = 1 << 10
"""Memory for an answer in addition to its data."""
UNREAD_INTERVAL_S = 0.02
"""Interval of checks whether such a client has read more."""
_UNREAD_CHECKS = 8
"""How often unread answers are counted, at least, while so many bytes are sent: a count takes time."""


@dataclass(slots=True)
class _Waiting:
    """Requests that wait for a map, for a copied object, or until their client reads, in order of arrival."""

    requests: list[tuple[Message, MOSDOp]] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, message: Message, request: MOSDOp) -> bool:
        """Add a request; returns False if the requests are now too many, or too large together."""
        self.requests.append((message, request))
        self.size_bytes += message.size_bytes
        return len(self.requests) <= MOST_WAITING and self.size_bytes <= MOST_WAITING_BYTES


def is_blocklisted(osdmap: OSDMap, addrs: AddrVec) -> bool:
    """True if a client is on the blocklist: one of its addresses, whatever its type, or all of its IP."""
    known = {(addr.ip, addr.port, addr.nonce) for addr in osdmap.blocklist}
    return bool(known) and any(
        (addr.ip, addr.port, addr.nonce) in known or (addr.ip, 0, 0) in known for addr in addrs
    )


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
        self._copier = Copier()
        self._snaps: dict[int, PoolSnaps] = {}
        """Snapshots by pool."""
        self._maps: dict[int, bytes] = {}
        """Received increments by epoch, for clients with older maps."""
        self._waiting: dict[Connection, _Waiting] = {}
        self._uncounted_bytes: dict[Connection, int] = {}
        """Size of a client's answers since it was last known to read fast enough."""
        self._behind: set[Connection] = set()
        """Clients whose requests wait because of unread answers."""
        self._known_epochs: dict[Connection, int] = {}
        """The newest epoch that each client is known to have, from its requests or from sent maps."""
        self._tick_interval_s = TICK_INTERVAL_S if rotating is None else min(TICK_INTERVAL_S, rotating.grace_s)
        self._report_due = asyncio.Event()
        """Set if a report is due at once, since placement groups were scrubbed."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, messenger: Messenger) -> None:
        """Log in; ``messenger`` must be listening with this OSD as its dispatcher."""
        self._options = OsdOptions(messenger.endpoint.config, messenger.configure)
        self._monitors = Monitors(messenger, self._auth, self._monitor_addrs, rotating=self._rotating)
        self._copier.objecter = Objecter(messenger, self._monitors)
        self._monitors.start()
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._report()), loop.create_task(self._tick())]

    async def stop(self) -> None:
        """End the session with the monitor, and stop all tasks."""
        self._monitors.stop()
        await self._copier.stop()
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
        if connection.peer_type is EntityType.MON:
            self._monitors.connected(connection, time.time())

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        if connection.peer_type is EntityType.MON:
            self._monitors.lost(connection, fault)
            return
        if connection.peer_type is EntityType.OSD and self._copier.objecter.session_of(connection) is not None:
            self._copier.objecter.lost(connection)
            return
        self._copier.lost(connection)
        self._known_epochs.pop(connection, None)
        self._uncounted_bytes.pop(connection, None)
        self._behind.discard(connection)
        self._waiting.pop(connection, None)

    @override
    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        if connection.peer_type is EntityType.MON:
            self._monitors.lost(connection, fault)
        elif fault.reason is FaultReason.AUTH_DENIED:
            self._monitors.renew_tickets(time.time())

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        payload = message.payload
        try:
            if isinstance(payload, MOSDOp):
                payload.take_data(message)
                self._take_request(connection, message, payload)
            elif isinstance(payload, MCommand):
                reply, output = commands.answer(payload, self._state())
                connection.send(Message.of(reply, data=output, tid=message.tid))
            elif isinstance(payload, MOSDOpReply):
                self._copier.objecter.take_reply(connection, message, payload)
            elif connection.peer_type is not EntityType.MON:
                return None  # clients with watches send pings, which have no reply
            elif isinstance(payload, MOSDScrub2):
                self._scrub(payload)
            elif isinstance(payload, MOSDMap):
                self._copier.objecter.take_maps(payload)
                self._take_maps(payload)
            else:
                self._monitors.dispatch(connection, message, time.time())
        except DecodeError as error:
            self._end(connection, str(error))
        self._update_serving()
        return None

    def _state(self) -> commands.State:
        fsid = self._placement.osdmap.fsid if self._placement is not None else UUID(int=0)
        return commands.State(self.number, fsid, self.epoch, self._serves, self.requests, self._options)

    def _serves(self, pgid: PgId) -> bool:
        """True if this OSD is the primary of a placement group, which need not exist."""
        pool = self._placement.osdmap.pools.get(pgid.pool) if self._placement is not None else None
        return pool is not None and pgid.seed < pool.pg_num and self._mapping(pgid) == self.number

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
        osdmap = self._placement.osdmap
        removed = osdmap.removed_snaps_queue
        self._snaps = {
            number: PoolSnaps.of(pool, removed.get(number, {})) for number, pool in osdmap.pools.items()
        }
        self.requests.store.keep_pools(self._snaps)
        self.requests.watches.end_where(lambda addrs: is_blocklisted(osdmap, addrs))
        for connection in list(self._waiting):
            self._take_waiting(connection)

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
        if placement is None or self._has_to_wait(connection, request):
            if not self._waiting.setdefault(connection, _Waiting()).add(message, request):
                self._end(connection, f"more than {MOST_WAITING} requests or {MOST_WAITING_BYTES} bytes wait")
            return
        self._share_maps(connection, request.osdmap_epoch)
        pool = placement.osdmap.pools.get(pgid.pool)
        if pool is None or self._mapping(pgid) != self.number:
            return  # the newer map directs the client to another OSD, to which it resends the request
        if is_blocklisted(placement.osdmap, connection.session.peer_addrs):
            connection.send(refusal(request, -errno.ESHUTDOWN, self.epoch).message(message.tid))
            return
        sources = list(sources_of(request))
        missing = [source for source in sources if not self._is_here(source)]
        if not missing:
            self._run(connection, message, request, sources, {})
            return

        def run(found: dict[Source, StoredObject | int]) -> None:
            self._run(connection, message, request, sources, found)
            self._take_waiting(connection)

        self._copier.read(connection, missing, run)

    def _has_to_wait(self, connection: Connection, request: MOSDOp) -> bool:
        """True for a request for a later map, or after others of its client that wait or cannot be answered."""
        is_early = request.osdmap_epoch > self.epoch or connection in self._waiting
        return is_early or self._copier.holds(connection) or self._is_behind(connection)

    def _take_waiting(self, connection: Connection) -> None:
        """Take the requests of a client that wait."""
        for message, request in self._waiting.pop(connection, _Waiting()).requests:
            self._take_request(connection, message, request)

    def _is_here(self, source: Source) -> bool:
        """True if this OSD has the object that is copied, or knows that there is no such pool."""
        pgid = self._group_of(source)
        return pgid is None or self._mapping(pgid) == self.number

    def _group_of(self, source: Source) -> PgId | None:
        assert self._placement is not None
        locator = source.locator
        if locator.pool not in self._placement.osdmap.pools:
            return None
        return self._placement.pg_of(locator.pool, object_hash(source.oid, locator.key, locator.nspace))

    def _mapping(self, pgid: PgId) -> int:
        assert self._placement is not None
        return self._placement.mapping(pgid).acting_primary

    def _run(
        self,
        connection: Connection,
        message: Message,
        request: MOSDOp,
        sources: list[Source],
        found: dict[Source, StoredObject | int],
    ) -> None:
        """Run a request, with the states of the objects that it copies."""
        assert self._placement is not None
        pgid = request.pgid.pgid
        pool = self._placement.osdmap.pools.get(pgid.pool)
        if pool is None or self._mapping(pgid) != self.number:
            return  # the map has changed while objects were read
        reply = self.requests.carry_out(
            request,
            message.tid,
            self._client(connection),
            epoch=self.epoch,
            pg_num=pool.pg_num,
            snaps=self._snaps[pgid.pool],
            sources={source: self._own_state(source) for source in sources} | found,
        )
        answer = reply.message(message.tid)
        connection.send(answer)
        size_bytes = answer.size_bytes + UNREAD_OVERHEAD_BYTES
        self._uncounted_bytes[connection] = self._uncounted_bytes.get(connection, 0) + size_bytes

    def _is_behind(self, connection: Connection) -> bool:
        """True if a client has too many unread answers; then its waiting requests are looked at again soon."""
        if self._uncounted_bytes.get(connection, 0) <= MOST_UNREAD_BYTES // _UNREAD_CHECKS:
            return False
        queue = connection.session.queue
        if queue.queued_bytes + len(queue) * UNREAD_OVERHEAD_BYTES <= MOST_UNREAD_BYTES:
            self._uncounted_bytes[connection] = 0
            return False
        if not self._behind:
            asyncio.get_running_loop().call_later(UNREAD_INTERVAL_S, self._look_again)
        self._behind.add(connection)
        return True

    def _look_again(self) -> None:
        """Take the requests of clients that have read their answers meanwhile."""
        behind, self._behind = self._behind, set()
        for connection in behind:
            if not self._is_behind(connection):
                self._take_waiting(connection)

    def _own_state(self, source: Source) -> StoredObject | int:
        """Return the state of an object of this OSD that is copied; ENOENT if there is none."""
        pgid = self._group_of(source)
        if pgid is None:
            return errno.ENOENT
        key = ObjectKey(source.locator.nspace, source.locator.key, source.oid)
        return self.requests.store.group(pgid).at(key, source.snapid) or errno.ENOENT

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
        """Report the placement groups to the monitor whenever they have changed."""
        reported: dict[str, Any] = {}
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._report_due.wait(), REPORT_INTERVAL_S)
            self._report_due.clear()
            groups = {str(pgid): state.value() for pgid, state in self.requests.store.states().items()}
            if groups == reported or not self.serving.is_set():
                continue
            try:
                command = {"prefix": "osd report groups", "epoch": self.epoch, "groups": groups}
                await self._monitors.command(command)
            except RadosError:
                await asyncio.sleep(REPORT_INTERVAL_S)
                continue  # try again: the monitor rejects reports until the OSD has subscribed
            reported = groups

    def _scrub(self, request: MOSDScrub2) -> None:
        """Scrub the placement groups of which this OSD is the primary, and report the result."""
        for sharded in request.pgs:
            if self._serves(sharded.pgid):
                self.requests.store.group(sharded.pgid).run_scrub(time.time(), deep=request.deep)
        self._report_due.set()
