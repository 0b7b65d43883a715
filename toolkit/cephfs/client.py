"""A client of a file system: follows the MDS map and keeps sessions with the daemons of its ranks (docs/mds.md).

async with FsClient.connect("v2:127.0.0.1:3300", keyring="keyring") as client:
    session = await client.open()
    await session.request(MdsRequestOp.MKDIR, "d", arguments=(0o755).to_bytes(4, "little"))
"""

import asyncio
import errno
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from messenger.cephx.client import CephxClient
from messenger.compat import override
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityType
from messenger.driver import Connection
from messenger.errors import DecodeError, Fault, FaultReason
from messenger.messages.mds_caps import MClientCaps, MClientLease
from messenger.messages.mds_client import MClientReply, MClientSession
from messenger.messages.mdsmap import MdsInfo, MDSMap, MdsState, MMDSMap
from messenger.messages.message import Message
from messenger.session.policy import LOSSLESS_CLIENT
from toolkit.cephfs.session import MdsSession, State
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError

RENEW_INTERVAL_S = 5.0
_CLOSE_TIMEOUT_S = 3.0
_AT_WORK = frozenset({MdsState.CLIENTREPLAY, MdsState.ACTIVE, MdsState.STOPPING})


class FsClient(Rados):
    """A client of a cluster and its file system; :meth:`connect` creates it, like a RADOS client.

    It opens sessions with MDS daemons and sends requests. It does not use capabilities and does not decode inodes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as of the RADOS client
        super().__init__(*args, **options)
        if isinstance(self._auth, CephxClient):
            self._auth.wanted_services |= EntityType.MDS
        self.mdsmap: MDSMap | None = None
        """The newest MDS map received."""
        self.renews = True
        """True to renew open sessions regularly, and a stale session at once."""
        self.sessions: dict[int, MdsSession] = {}
        """Sessions by rank."""
        self._has_mdsmap = asyncio.Event()
        self._renewer: asyncio.Task[None] | None = None

    @override
    async def __aenter__(self) -> Self:
        """Connect, and wait for the MDS map.

        Raises:
            RadosError: the monitors refuse this client, or none answers in time; ENOENT: there is no file system.
        """
        await super().__aenter__()
        self._monitors.subscribe("mdsmap")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._has_mdsmap.wait()
        except TimeoutError:
            await self._stop()
            raise RadosError(errno.ENOENT, "the monitors sent no MDS map: is there a file system?") from None
        except BaseException:  # the wait was cancelled
            await self._stop()
            raise
        self._renewer = asyncio.get_running_loop().create_task(self._renew())
        return self

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewer is not None:
            self._renewer.cancel()
        try:
            await self._close_sessions()
        finally:  # the wait for answers may be cancelled
            await super().__aexit__(kind, error, trace)

    async def open(self, rank: int = 0, **metadata: str) -> MdsSession:
        """Open a session with the daemon of a rank.

        Args:
            rank: rank of the daemon; rank 0 serves the root directory.
            metadata: fields that ``ceph tell mds.N session ls`` shows for this client.

        Raises:
            RadosError: EACCES, the MDS rejects it; ENXIO, no daemon is active for the rank; ETIMEDOUT.
        """
        info = self._info(rank)
        if info is None or info.state != MdsState.ACTIVE:
            raise RadosError(errno.ENXIO, f"no MDS is active for rank {rank}")
        session = MdsSession(rank, {"entity_id": self._auth.name.id, **metadata}, self._epoch)
        self.sessions[rank] = session
        self._dial(session, info)
        session.begin_open()
        try:
            async with asyncio.timeout(self._timeout_s):
                await session.wait(State.OPEN)
        except TimeoutError:
            raise RadosError(errno.ETIMEDOUT, f"opening a session with mds rank {rank}") from None
        return session

    # ---- the messenger's events

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        payload = message.payload
        if isinstance(payload, MMDSMap):
            try:
                self._take_map(MDSMap.decode(Decoder(payload.encoded)))
            except DecodeError as error:
                connection.mark_down()
                self.ms_handle_reset(connection, Fault(FaultReason.BAD_MESSAGE, str(error)))
            return
        session = self._session_of(connection)
        if session is None:
            super().ms_dispatch(connection, message)
            return
        session.count(message)
        if isinstance(payload, MClientSession):
            session.take_session(payload)
            if session.state is State.STALE and self.renews:
                session.renew()
        elif isinstance(payload, MClientReply):
            session.take_reply(message.tid, payload)
        elif isinstance(payload, MClientCaps):
            session.take_caps(payload)
        elif isinstance(payload, MClientLease):
            session.take_lease(payload)

    @override
    def ms_handle_connect(self, connection: Connection) -> None:
        session = self._session_of(connection)
        if session is None:
            super().ms_handle_connect(connection)
            return
        session.record("connected")
        if session.doubt and session.state is State.OPENING:
            session.doubt = ""  # the reset was about an earlier session, and it dropped the request to open
            session.begin_open()
        elif session.doubt:
            connection.mark_down()
            session.end(State.RESET, session.doubt)

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        session = self._session_of(connection)
        if connection.peer_type is not EntityType.MDS:
            super().ms_handle_reset(connection, fault)
        elif session is not None:
            session.end(State.RESET, str(fault))

    @override
    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:
        """Note that the peer has lost the session.

        If the peer is the MDS of the map, the link opens, and the session is reset. A daemon that took its place
        at the same port, and may still request the session, refuses links that name its predecessor's address.
        """
        session = self._session_of(connection)
        if session is not None:
            session.doubt = str(fault)

    # ---- internals

    async def _close_sessions(self) -> None:
        """Close all open sessions; otherwise a daemon that takes the rank over waits for this client."""
        left = [session for session in self.sessions.values() if not session.is_over]
        with suppress(TimeoutError, RadosError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                for session in left:
                    if session.state is not State.CLOSING:
                        session.close()
                for session in left:
                    await session.wait(State.CLOSED)
        for session in left:
            if not session.is_over:
                session.end(State.CLOSED)

    def _epoch(self) -> int:
        return 0 if self.mdsmap is None else self.mdsmap.epoch

    def _info(self, rank: int) -> MdsInfo | None:
        assert self.mdsmap is not None
        return next((info for info in self.mdsmap.mds_info.values() if info.rank == rank), None)

    def _session_of(self, connection: Connection) -> MdsSession | None:
        known = (each for each in self.sessions.values() if each.connection is connection)
        return next(known, None)

    def _dial(self, session: MdsSession, info: MdsInfo) -> None:
        addrs = self._monitors.usable(info.addrs)
        session.dialled(self._messenger.connect(addrs, EntityType.MDS, LOSSLESS_CLIENT))

    def _take_map(self, mdsmap: MDSMap) -> None:
        if mdsmap.epoch <= self._epoch():
            return
        self.mdsmap = mdsmap
        self._monitors.got("mdsmap", mdsmap.epoch)
        self._has_mdsmap.set()
        for session in self.sessions.values():
            if not session.is_over:
                self._follow(session)

    def _follow(self, session: MdsSession) -> None:
        """Apply a new map to a session: another daemon may have the rank."""
        info = self._info(session.rank)
        if info is None:
            return  # no daemon has the rank now
        is_same = self._monitors.usable(info.addrs) == session.connection.session.peer_addrs
        if info.state == MdsState.RECONNECT and (not is_same or session.state is not State.RECONNECTING):
            session.connection.mark_down()
            self._dial(session, info)
            session.begin_reconnect()
        elif info.state in _AT_WORK and session.state is State.RECONNECTING:
            session.become(State.OPEN)
            session.resume()
        elif info.state in _AT_WORK and not is_same:
            session.connection.mark_down()
            session.end(State.RESET, "another daemon has the rank, and did not ask for its sessions")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_INTERVAL_S)
            for session in self.sessions.values():
                if self.renews and session.state is State.OPEN:
                    session.renew()
