"""Our messenger as an OSD that has a lossless session with the cluster messenger of a real one."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import ConMode
from messenger.cephx.keyring import Keyring
from messenger.cephx.none import NoneClient
from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import LocalError
from messenger.messages.ping import MPing
from messenger.messenger import Connection, Messenger
from messenger.session.policy import LOSSLESS_PEER, PolicySet
from messenger.session.states import SessionState
from toolkit.machine.private import write_private
from toolkit.matrix.ground import APP, MON, PEER_KEYRING, Trial
from toolkit.node.program import ProgramSpec
from toolkit.node.recording_messenger import RecordingMessenger, Records
from toolkit.rados.client import Rados

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
NAME = AuthName.parse("osd.9")
"""Entity of the peer; the cluster has no such OSD."""
PATIENCE_S = 60.0
_CAPS = ("mon", "allow profile osd", "osd", "allow *")
_POLL_S = 0.02


class _Login(Rados):
    """Logs in to the monitors to get tickets for the OSD."""

    auth: CephxClient | NoneClient

    @override
    def make_messenger(self, auth: CephxClient | NoneClient, config: Config | None) -> Messenger:
        self.auth = auth
        return super().make_messenger(auth, config)


class Peer:
    """An OSD of ours, in a thread in the network of the connecting host.

    Args:
        trial: the trial that the peer is part of.
        renews: True to stay logged in to the monitor and renew tickets, instead of requesting them once.
    """

    def __init__(self, trial: Trial, *, renews: bool = False) -> None:
        self._trial = trial
        self._renews = renews
        self.node = trial.ground.new_peer_name()
        """Name of the peer in the history: each peer has a new one, because its links are numbered from 1."""
        self._host = trial.cluster.backend.hosts[APP]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="matrix peer", daemon=True)
        self._target = trial.osd_cluster_addrs()
        self._keyring = self._make_keyring()
        self.connection: Connection
        self._thread.start()
        self._started.result(PATIENCE_S)

    @classmethod
    @contextmanager
    def of(cls, trial: Trial, *, renews: bool = False) -> "Iterator[Peer]":
        """Open a session of a new peer, and end it when the block ends."""
        peer = cls(trial, renews=renews)
        try:
            yield peer
        finally:
            peer.end()

    # ---- operations

    def send(self, count: int) -> None:
        """Queue ``count`` pings."""

        async def send() -> None:
            for _ in range(count):
                self.connection.send(MPing())

        self._call(send())

    def wait(self, holds: "Callable[[Connection], bool]", what: str) -> None:
        """Wait until ``holds`` is true for the connection.

        Raises:
            LocalError: it is still false after PATIENCE_S; the text begins with ``what``.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._call(self._asked(holds)):
            if time.monotonic() > deadline_s:
                raise LocalError(f"{what}: not within {PATIENCE_S:.0f} s; {self.connection!r}")
            time.sleep(_POLL_S)

    async def _asked(self, holds: "Callable[[Connection], bool]") -> bool:
        """Evaluate ``holds`` on the event loop of the messenger."""
        return holds(self.connection)

    def wait_acked(self) -> None:
        """Wait until all queued messages have been acknowledged; raises LocalError."""
        self.wait(lambda each: not self.unacked(each), "everything is acknowledged")

    def wait_ready(self) -> None:
        """Wait until the session is ready; raises LocalError."""
        self.wait(lambda each: each.state is SessionState.READY, "the session is open")

    @staticmethod
    def unacked(connection: Connection) -> int:
        """Return the number of messages that are queued or not acknowledged."""
        queue = connection.session.queue
        return len(queue.sent) + len(queue)

    def reopen(self, addrs: AddrVec | None = None) -> None:
        """Mark the session down, which sends nothing, and open a new one to the same or to other addresses."""

        async def reopen() -> None:
            self.connection.mark_down()
            self._dial(addrs or self._target)

        self._call(reopen())
        self.wait_ready()

    def end(self) -> None:
        """Shut down the messenger and end the thread."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._messenger.shutdown(), loop).result(PATIENCE_S)
            loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)

    # ---- internals

    def _make_keyring(self) -> Keyring | None:
        if self._trial.cell.auth == "none":
            return None
        text = self._trial.ceph("auth", "get-or-create", str(NAME), *_CAPS)
        write_private(self._trial.directory / PEER_KEYRING, text.encode())
        return Keyring.parse(text, str(NAME))

    def _run(self) -> None:
        try:
            self._host.inside(lambda: asyncio.run(self._live()))
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        monitor = self._trial.cluster.nodes[MON].address
        login = _Login.connect(monitor, entity=str(NAME), keyring=self._keyring, config=self._config())
        async with AsyncExitStack() as logged_in:
            await logged_in.enter_async_context(login)
            if not self._renews:
                await logged_in.aclose()
            await self._keep_session(login.auth)

    async def _keep_session(self, auth: CephxClient | NoneClient) -> None:
        """Dial the OSD with the tickets of the identity, and keep the session until :meth:`end`."""
        cluster = self._trial.cluster
        records = Records(
            ProgramSpec(name=self.node, start_s=cluster.began_s), {str(self._target): "osd"}, self._write
        )
        self._messenger = RecordingMessenger(
            EntityName(EntityType.OSD, int(NAME.id)),
            auth_client=auth,
            policies=PolicySet(LOSSLESS_PEER),
            config=self._config(),
            trace=records.trace,
        )
        self._messenger.records = records
        self._dial(self._target)
        await self.connection.ready(PATIENCE_S)
        self._started.set_result(None)
        await self._over.wait()

    def _dial(self, addrs: AddrVec) -> None:
        self.connection = self._messenger.connect(addrs, EntityType.OSD, LOSSLESS_PEER)

    def _config(self) -> Config:
        mode = ConMode.SECURE if self._trial.cell.mode == "secure" else ConMode.CRC
        packs = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1}
        return Config.only_mode(mode, **(packs if self._trial.cell.mode == "compressed" else {}))

    def _write(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        self._trial.cluster.take(time_s, self.node, kind, fields)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S + 10)
