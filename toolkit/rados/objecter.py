"""Requests on their way to OSDs: sessions, new maps, backoffs, sending again (docs/protocol.md §6.4, §6.8).

What is sent again keeps its tid, by which an OSD knows what it has done already, and its place among the requests
to the same object.
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
"""More requests than this wait for replies to earlier ones, Ceph's ``objecter_inflight_ops``."""


class OsdSession:
    """A connection to an OSD, and what that OSD asked to wait with."""

    def __init__(self, osd: int, addrs: AddrVec, connection: Connection) -> None:
        self.osd = osd
        self.addrs = addrs
        """As the map had them; another address is another life of the OSD."""
        self.connection = connection
        self._backoffs: dict[tuple[ShardedPgId, int], MOSDBackoff] = {}

    def block(self, backoff: MOSDBackoff) -> None:
        """Stop sending requests that a backoff covers, and acknowledge it to the OSD."""
        self._backoffs[backoff.pgid, backoff.id] = backoff
        acked = (backoff.pgid, backoff.map_epoch, BackoffOp.ACK_BLOCK, backoff.id, backoff.begin, backoff.end)
        self.connection.send(MOSDBackoff(*acked))

    def unblock(self, backoff: MOSDBackoff) -> MOSDBackoff | None:
        """Forget a backoff; returns it, if there was one."""
        return self._backoffs.pop((backoff.pgid, backoff.id), None)

    def blocks(self, request: Request) -> bool:
        """True if a request has to wait."""
        if not self._backoffs or request.target is None:
            return False
        pgid, hobject = request.target.pgid, request.hobject
        return any(backoff.pgid == pgid and backoff.covers(hobject) for backoff in self._backoffs.values())


class Lingering(Protocol):
    """What stays with an OSD after its request was answered: a watch, or a notification being delivered."""

    def moved(self, placement: Placement) -> bool:
        """True if a new map places the object elsewhere."""

    def is_on(self, session: OsdSession) -> bool:
        """True if it depends on that session."""

    def lost(self) -> None:
        """The OSD that knew of it does not any more."""

    def take(self, notify: MWatchNotify, message: Message) -> None:
        """Handle a message of an OSD about this watch or notify; raises DecodeError."""

    async def stop(self) -> None:
        """End because the client ends."""


class _Command(NamedTuple):
    """A command that an OSD has yet to answer."""

    session: OsdSession
    answer: "asyncio.Future[Message]"


class Objecter:
    """Sends requests where they belong, until they are answered.

    Args:
        messenger: dials; its owner hands this object the events of connections to OSDs.
        monitors: bring new maps.
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
        """By cookie."""

    # ---- maps

    @property
    def placement(self) -> Placement:
        """By the newest map."""
        assert self._placement is not None, "the first map has not come"
        return self._placement

    @property
    def epoch(self) -> int:
        """Of the newest map; 0 before the first."""
        return 0 if self._placement is None else self._placement.osdmap.epoch

    @property
    def connections(self) -> dict[str, Connection]:
        """The sessions with OSDs, by their names."""
        return {f"osd.{osd}": session.connection for osd, session in sorted(self._sessions.items())}

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until the map is at least that new."""
        while self.epoch < epoch:
            self._new_map.clear()
            await self._new_map.wait()

    async def wait_for_newest_map(self) -> None:
        """Wait until the map is as new as the monitors' is now."""
        await self.wait_for_epoch(await self._monitors.newest_epoch("osdmap"))

    async def pool_id(self, name: str) -> int:
        """The number of a pool; raises RadosError ENOENT if not even the newest map has one of that name."""
        for attempt in range(2):
            for number, known in self.placement.osdmap.pool_names.items():
                if known == name:
                    return number
            if not attempt:
                await self.wait_for_newest_map()
        raise RadosError(errno.ENOENT, f"pool {name!r}")

    def take_maps(self, message: MOSDMap) -> None:
        """Go on to the newest map that a message leads to.

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
        """The map after the present one, or the next one in full where some are missing."""
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
        """True if the new map asks for a request to be sent again; one without a pool any more is answered."""
        try:
            target = request.aim(self.placement)
        except RadosError as error:
            if not request.answer.done():
                request.answer.set_exception(error)
            return False
        return skipped or request.must_be_resent(target, self.placement.osdmap)

    def _close_old_sessions(self) -> None:
        """Leave OSDs that are down, or that have another address by now."""
        osds = self.placement.osdmap.osds
        for session in list(self._sessions.values()):
            known = session.osd < len(osds) and osds[session.osd].is_up
            if not known or osds[session.osd].client_addrs != session.addrs:
                session.connection.mark_down()
                self._forget_session(session)

    # ---- requests

    async def submit(self, request: Request) -> MOSDOpReply:
        """Have an OSD carry out a request.

        Returns:
            The reply, with their output in its operations.

        Raises:
            RadosError: the cluster refuses it.
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
        """Send requests by the present map, oldest first; those without an OSD to take them wait for a new map."""
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
        """Have an OSD carry out a command; returns the message with its MCommandReply.

        Raises:
            RadosError: ENXIO, the OSD is not up; ECONNRESET, it went away before it answered, and whether it
                carried out the command is not known.
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
        """The session that a connection carries; None if it is an old one."""
        session = connection.user
        current = isinstance(session, OsdSession) and self._sessions.get(session.osd) is session
        return session if current else None

    def lost(self, connection: Connection) -> None:
        """A connection ended: everything that was on it is sent again on a new one."""
        session = self.session_of(connection)
        if session is not None:
            requests = [request for request in self._requests.values() if request.session is session]
            self._forget_session(session)
            self._send_again(requests)

    def take_reply(self, connection: Connection, message: Message, reply: MOSDOpReply) -> None:
        """An OSD has answered.

        Raises:
            DecodeError: its data does not fit its operations.
        """
        request = self._requests.get(message.tid)
        if request is None or request.session is not connection.user or request.answer.done():
            return
        if 0 <= reply.retry_attempt != request.attempts - 1:
            return  # to an earlier sending; the answer to the last one is the one that holds
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
        """An OSD has carried out a command."""
        command = self._commands.get(message.tid)
        if command is not None and command.session is connection.user and not command.answer.done():
            command.answer.set_result(message)

    def take_backoff(self, session: OsdSession, backoff: MOSDBackoff) -> None:
        """An OSD asks to hold requests back, or to send them now."""
        if backoff.op == BackoffOp.BLOCK:
            session.block(backoff)
        elif backoff.op == BackoffOp.UNBLOCK and (held := session.unblock(backoff)) is not None:
            # what had been sent before the block was dropped there, so it is sent again as well
            self._send_again(
                request
                for request in self._requests.values()
                if request.session is session
                and request.target is not None
                and request.target.pgid == held.pgid
                and held.covers(request.hobject)
            )

    def take_notify(self, message: Message, notify: MWatchNotify) -> None:
        """An OSD speaks of a watch or a notification; raises DecodeError."""
        one = self.lingering.get(notify.cookie)
        if one is not None:
            one.take(notify, message)

    # ---- for the owner

    def tick(self) -> None:
        """Some seconds have passed: a dead connection shows when it has something to carry."""
        for session in self._sessions.values():
            busy = any(request.session is session for request in self._requests.values())
            busy = busy or any(command.session is session for command in self._commands.values())
            if busy or any(one.is_on(session) for one in self.lingering.values()):
                session.connection.keepalive()

    async def stop(self) -> None:
        """Answer nothing any more."""
        self._stopped = True
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(RadosError(errno.ESHUTDOWN, request.what))
        for command in self._commands.values():
            if not command.answer.done():
                command.answer.set_exception(RadosError(errno.ESHUTDOWN, f"command to osd.{command.session.osd}"))
        for one in list(self.lingering.values()):
            await one.stop()
