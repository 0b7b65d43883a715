"""Requests to OSDs: sessions, new maps, backoffs, resends (docs/protocol.md §6.4, §6.8).

A resent request keeps its tid, by which the OSD recognises what it has done already, and its order among the
requests to the same object.
"""

import asyncio
import errno
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple, Protocol

from messenger.denc.address import AddrVec
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.driver import Connection
from messenger.errors import DecodeError, LocalError
from messenger.messages.command import MCommand
from messenger.messages.message import Message
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_client import BackoffOp, MOSDBackoff, MWatchNotify
from messenger.messages.osd_objects import ShardedPgId
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT
from toolkit.rados.errors import RadosError
from toolkit.rados.monitors import Monitors
from toolkit.rados.placement import NO_OSD, Placement
from toolkit.rados.request import Request

INFLIGHT_OPS = 1024
"""Most requests in flight; further ones wait. Ceph's ``objecter_inflight_ops``."""


class OsdSession:
    """A connection to an OSD, and the backoffs that the OSD sent."""

    def __init__(self, osd: int, addrs: AddrVec, connection: Connection) -> None:
        self.osd = osd
        self.addrs = addrs
        """Addresses in the map; another address means another incarnation of the OSD."""
        self.connection = connection
        self._backoffs: dict[tuple[ShardedPgId, int], MOSDBackoff] = {}

    def block(self, backoff: MOSDBackoff) -> None:
        """Stop sending requests that a backoff covers, and acknowledge it to the OSD."""
        self._backoffs[backoff.pgid, backoff.id] = backoff
        acked = (backoff.pgid, backoff.map_epoch, BackoffOp.ACK_BLOCK, backoff.id, backoff.begin, backoff.end)
        self.connection.send(MOSDBackoff(*acked))

    def unblock(self, backoff: MOSDBackoff) -> MOSDBackoff | None:
        """Remove a backoff; returns it, None if there was none."""
        return self._backoffs.pop((backoff.pgid, backoff.id), None)

    def blocks(self, request: Request) -> bool:
        """True if a backoff covers a request."""
        if not self._backoffs or request.target is None:
            return False
        pgid, hobject = request.target.pgid, request.hobject
        return any(backoff.pgid == pgid and backoff.covers(hobject) for backoff in self._backoffs.values())


class Lingering(Protocol):
    """State that an OSD keeps after its reply: a watch, or a notification in progress."""

    def moved(self, placement: Placement) -> bool:
        """True if a new map places the object elsewhere."""

    def is_on(self, session: OsdSession) -> bool:
        """True if it depends on that session."""

    def lost(self) -> None:
        """Register again, because the OSD has lost it or another OSD is responsible."""

    def take(self, notify: MWatchNotify, message: Message) -> None:
        """Handle a message of an OSD about this watch or notify; raises DecodeError."""

    async def stop(self) -> None:
        """End it, because the client ends."""


class _Command(NamedTuple):
    """A command that an OSD has not answered yet."""

    session: OsdSession
    answer: "asyncio.Future[Message]"


class Objecter:
    """Sends requests to the responsible OSDs, again if needed, until they are answered.

    Args:
        messenger: messenger to dial with; its owner passes the events of OSD connections to this object.
        monitors: source of new maps.
    """

    def __init__(self, messenger: Messenger, monitors: Monitors) -> None:
        self._messenger = messenger
        self._monitors = monitors
        self._placement: Placement | None = None
        self._tids = count(1)
        self._requests: dict[int, Request] = {}
        self._commands: dict[int, _Command] = {}
        self._sessions: dict[int, OsdSession] = {}
        self._room = asyncio.Semaphore(INFLIGHT_OPS)
        self._new_map = asyncio.Event()
        self._stopped = False
        self.lingering: dict[int, Lingering] = {}
        """Watches and notifications by cookie."""

    # ---- maps

    @property
    def placement(self) -> Placement:
        """Placement by the newest map."""
        assert self._placement is not None, "the first map has not come"
        return self._placement

    @property
    def epoch(self) -> int:
        """Epoch of the newest map; 0 before the first."""
        return 0 if self._placement is None else self._placement.osdmap.epoch

    @property
    def connections(self) -> dict[str, Connection]:
        """Sessions with OSDs, by their names."""
        return {f"osd.{osd}": session.connection for osd, session in sorted(self._sessions.items())}

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until the map has at least this epoch."""
        while self.epoch < epoch:
            self._new_map.clear()
            await self._new_map.wait()

    async def wait_for_newest_map(self) -> None:
        """Wait until the map is at least as new as the monitors' map at the time of the call."""
        await self.wait_for_epoch(await self._monitors.newest_epoch("osdmap"))

    async def pool_id(self, name: str) -> int:
        """Return the id of a pool; raises RadosError ENOENT if the newest map has none of that name."""
        for attempt in range(2):
            for number, known in self.placement.osdmap.pool_names.items():
                if known == name:
                    return number
            if not attempt:
                await self.wait_for_newest_map()
        raise RadosError(errno.ENOENT, f"pool {name!r}")

    def take_maps(self, message: MOSDMap) -> None:
        """Advance to the newest map that a message contains, and resend requests that it affects.

        Raises:
            DecodeError: a map is malformed.
        """
        before = self.epoch
        stale: set[Request] = set()
        while (osdmap := self._next_map(message)) is not None:
            skipped = self._placement is not None and osdmap.epoch != self.epoch + 1
            self._placement = Placement(osdmap, self._placement)
            for request in list(self._requests.values()):
                if self._is_stale(request, skipped=skipped):
                    stale.add(request)
            for one in list(self.lingering.values()):
                if skipped or one.moved(self._placement):
                    one.lost()
        if self.epoch == before:
            return
        self._monitors.got("osdmap", self.epoch)
        self._close_old_sessions()
        self._send_again(request for request in self._requests.values() if request in stale or not request.session)
        self._new_map.set()

    def _next_map(self, message: MOSDMap) -> OSDMap | None:
        """Return the map of the next epoch, or a later full map if increments are missing."""
        if self._placement is None:
            return OSDMap.decode(message.maps[max(message.maps)]) if message.maps else None
        osdmap = self._placement.osdmap
        incremental = message.incremental_maps.get(self.epoch + 1)
        if message.fsid != osdmap.fsid:
            raise DecodeError(f"maps of cluster {message.fsid}, this one is {osdmap.fsid}")
        if incremental is not None:
            return osdmap.apply(Incremental.decode(incremental))
        newer = [epoch for epoch in message.maps if epoch > self.epoch]
        return OSDMap.decode(message.maps[min(newer)]) if newer else None

    def _is_stale(self, request: Request, *, skipped: bool) -> bool:
        """True if a request has to be resent by the new map; fails the request if its pool does not exist."""
        try:
            target = request.aim(self.placement)
        except RadosError as error:
            if not request.answer.done():
                request.answer.set_exception(error)
            return False
        return skipped or request.must_be_resent(target, self.placement.osdmap)

    def _close_old_sessions(self) -> None:
        """Close sessions with OSDs that are down or have another address."""
        osds = self.placement.osdmap.osds
        for session in list(self._sessions.values()):
            known = session.osd < len(osds) and osds[session.osd].is_up
            if not known or osds[session.osd].client_addrs != session.addrs:
                session.connection.mark_down()
                self._forget_session(session)

    # ---- requests

    async def submit(self, request: Request) -> MOSDOpReply:
        """Send a request, wait for the reply and return it.

        Returns:
            The reply, with the output of the operations.

        Raises:
            RadosError: the cluster rejects the request.
        """
        if self._stopped:
            raise RadosError(errno.ESHUTDOWN, request.what)
        async with self._room:
            if request.locator.pool not in self.placement.osdmap.pools:
                await self.wait_for_newest_map()
            request.tid = next(self._tids)
            self._requests[request.tid] = request
            try:
                self._send_again([request])
                return await request.answer
            finally:
                self._requests.pop(request.tid, None)

    def _send_again(self, requests: Iterable[Request]) -> None:
        """Send requests by the present map, oldest first; those without a responsible OSD wait for a new map."""
        for request in sorted(requests, key=lambda request: request.tid):
            if request.answer.done():
                continue
            request.session = None
            if request.once and request.attempts:
                request.answer.set_exception(RadosError(errno.ECONNRESET, request.what))
                continue
            try:
                request.target = request.aim(self.placement)
            except (RadosError, LocalError, DecodeError) as error:
                request.answer.set_exception(error)
                continue
            if request.target.osd != NO_OSD and not request.is_paused(self.placement.osdmap):
                session = request.session = self._session(request.target.osd)
                if not session.blocks(request):
                    session.connection.send(request.message(self.placement.osdmap))

    def _session(self, osd: int) -> OsdSession:
        session = self._sessions.get(osd)
        if session is None:
            addrs = self.placement.osdmap.osds[osd].client_addrs
            usable = self._monitors.usable(addrs)
            connection = self._messenger.connect(usable, EntityType.OSD, LOSSY_CLIENT)
            session = self._sessions[osd] = OsdSession(osd, addrs, connection)
            connection.user = session
        return session

    def _forget_session(self, session: OsdSession) -> None:
        if self._sessions.get(session.osd) is session:
            del self._sessions[session.osd]
        for request in self._requests.values():
            if request.session is session:
                request.session = None
        for command in self._commands.values():
            if command.session is session and not command.answer.done():
                command.answer.set_exception(RadosError(errno.ECONNRESET, f"command to osd.{session.osd}"))
        for one in list(self.lingering.values()):
            if one.is_on(session):
                one.lost()

    async def command(self, osd: int, payload: MCommand, data: Buffer) -> Message:
        """Run a command on an OSD; returns the message with its MCommandReply.

        Raises:
            RadosError: ENXIO: the OSD is not up; ECONNRESET: the session was lost before the reply, so the command
                may have run or not.
        """
        osds = self.placement.osdmap.osds
        if self._stopped or not 0 <= osd < len(osds) or not osds[osd].is_up:
            raise RadosError(errno.ENXIO, f"osd.{osd}")
        session, tid = self._session(osd), next(self._tids)
        command = self._commands[tid] = _Command(session, asyncio.get_running_loop().create_future())
        try:
            session.connection.send(Message.of(payload, data=data, tid=tid))
            return await command.answer
        finally:
            del self._commands[tid]

    # ---- what comes from OSDs

    def session_of(self, connection: Connection) -> OsdSession | None:
        """Return the session of a connection; None if it has been replaced."""
        session = connection.user
        current = isinstance(session, OsdSession) and self._sessions.get(session.osd) is session
        return session if current else None

    def lost(self, connection: Connection) -> None:
        """Resend on a new connection everything that was in flight on a lost one."""
        session = self.session_of(connection)
        if session is not None:
            requests = [request for request in self._requests.values() if request.session is session]
            self._forget_session(session)
            self._send_again(requests)

    def take_reply(self, connection: Connection, message: Message, reply: MOSDOpReply) -> None:
        """Process an OSD's reply.

        Raises:
            DecodeError: its data does not fit its operations.
        """
        request = self._requests.get(message.tid)
        if request is None or request.session is not connection.user or request.answer.done():
            return
        if 0 <= reply.retry_attempt != request.attempts - 1:
            return  # reply to an earlier send; only the reply to the latest one counts
        if reply.redirect is not None or reply.result == -errno.EAGAIN:
            if reply.redirect is not None:
                request.redirect(reply)
            self._renew(request)
            return
        reply.take_data(message)
        if reply.result < 0:
            request.answer.set_exception(RadosError(-reply.result, request.what))
            return
        if request.on_success is not None:
            request.on_success(request)
        request.answer.set_result(reply)

    def _renew(self, request: Request) -> None:
        """Resend the request under a new tid, because the OSD caches the refusal of the old one."""
        del self._requests[request.tid]
        request.tid, request.attempts = next(self._tids), 0
        self._requests[request.tid] = request
        self._send_again([request])

    def take_command_reply(self, connection: Connection, message: Message) -> None:
        """Process an OSD's reply to a command."""
        command = self._commands.get(message.tid)
        if command is not None and command.session is connection.user and not command.answer.done():
            command.answer.set_result(message)

    def take_backoff(self, session: OsdSession, backoff: MOSDBackoff) -> None:
        """Process a backoff: stop sending the requests it covers, or resend them."""
        if backoff.op == BackoffOp.BLOCK:
            session.block(backoff)
        elif backoff.op == BackoffOp.UNBLOCK and (held := session.unblock(backoff)) is not None:
            # resend also requests sent before the block, because the OSD dropped them
            self._send_again(
                request
                for request in self._requests.values()
                if request.session is session
                and request.target is not None
                and request.target.pgid == held.pgid
                and held.covers(request.hobject)
            )

    def take_notify(self, message: Message, notify: MWatchNotify) -> None:
        """Process a message about a watch or a notification; raises DecodeError."""
        one = self.lingering.get(notify.cookie)
        if one is not None:
            one.take(notify, message)

    # ---- for the owner

    def tick(self) -> None:
        """Send keepalives on sessions with requests in flight, so that dead connections are noticed."""
        for session in self._sessions.values():
            busy = any(request.session is session for request in self._requests.values())
            busy = busy or any(command.session is session for command in self._commands.values())
            if busy or any(one.is_on(session) for one in self.lingering.values()):
                session.connection.keepalive()

    async def stop(self) -> None:
        """Fail all pending requests."""
        self._stopped = True
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(RadosError(errno.ESHUTDOWN, request.what))
        for command in self._commands.values():
            if not command.answer.done():
                command.answer.set_exception(RadosError(errno.ESHUTDOWN, f"command to osd.{command.session.osd}"))
        for one in list(self.lingering.values()):
            await one.stop()
