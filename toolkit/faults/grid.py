"""Break a conversation with a real monitor at every frame, since a monitor has no breakpoints.

A messenger of msgrlab dials the monitor through a proxy, authenticates, requests the monitor map and sends a
keepalive. The first conversation is undisturbed and lists the frames; then one conversation is run per frame,
direction and action. After every fault a new attempt must succeed, and actions that only delay must not break the
session.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from messenger.cephx.client import CephxClient
from messenger.cephx.keyring import Keyring
from messenger.config import Config
from messenger.connection import Connection as CoreConnection
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.dispatch import Dispatcher
from messenger.errors import FaultError, MsgrError
from messenger.link import Protocol
from messenger.messages.auth import MAuthReply
from messenger.messages.message import Message
from messenger.messages.mon import MMonGetMap
from messenger.messages.monmap import MMonMap
from messenger.messenger import Messenger
from messenger.mon_login import MonLogin
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSY_CLIENT
from toolkit.faults.live import Proxy, parse_place

_TOGETHER = 6
"""Number of conversations at once; they mostly wait."""
_ATTEMPTS = 5
_PATIENCE_S = 8.0
"""Seconds for one attempt, on a busy machine."""
_REPORT_POLLS = 100
_REPORT_POLL_S = 0.01
_OPTIONS: dict[str, Any] = {"ms_initial_backoff": 0.02, "ms_max_backoff": 0.1, "ms_connection_ready_timeout": 5.0}

ACTIONS: Mapping[str, str] = {
    "cut before": "cut before",
    "cut inside": "cut at 3",
    "cut after": "cut after",
    "close": "close before",
    "hold": "hold it",
    "delay": "delay 50ms",
    "trickle": "trickle",
    "duplicate": "duplicate",
    "corrupt": "corrupt byte -1",
    "corrupt, fixed": "corrupt byte 0 of segment 0 fixed",
}
"""Actions at a frame, as the rule language writes them."""
_ENDED = frozenset({"SOCKET", "EOF"})
FAULTS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("hold", "delay", "trickle"), frozenset()),
    **dict.fromkeys(("cut before", "cut inside", "cut after", "close"), _ENDED),
}
"""Reasons for which our links may end, for actions that leave no choice; holds and delays break nothing."""
_NEVER = frozenset({"READY_TIMEOUT", "REFUSED", "IDLE_TIMEOUT"})
"""Reasons that no action may cause: a break must be noticed at once, not by a timeout."""
_ONLY_V2 = frozenset({"corrupt, fixed"})


@dataclass(slots=True)
class Cell:
    """The result of one action at one frame."""

    protocol: str
    """``v1``, ``v2 crc``, ``v2 secure``."""
    direction: str
    tag: str
    action: str
    number: int = 0
    """Number of the frame in an undisturbed conversation."""
    outcome: str = ""
    """``recovered``, or the error of the last attempt."""
    faults: list[str] = field(default_factory=list)
    """Reasons of our links' faults, as the messenger names them."""
    hits: int = 0
    attempts: int = 0
    seconds: float = 0.0
    problem: str = ""
    """Why the proxy could not carry out the action; empty if it could."""

    @property
    def right(self) -> bool:
        """True if the session works in the end and each fault had an expected reason."""
        if self.problem:
            return True
        faults = set(self.faults)
        expected = faults <= FAULTS[self.action] if self.action in FAULTS else not faults & _NEVER
        return self.outcome == "recovered" and self.hits > 0 and expected

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self) | {"right": self.right}

    def __str__(self) -> str:
        if self.problem:
            return "-"
        if self.outcome != "recovered":
            return self.outcome
        return f"ok: {self.faults[0]}" if self.faults else "ok"


class _Client(Dispatcher):
    """The dispatcher of a monitor client."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.login: MonLogin | None = None
        self.logged_in = asyncio.Event()
        self.lost = asyncio.Event()

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> bool:  # noqa: ARG002 - there is one
        """Take the replies of the login and the monitor map."""
        if isinstance(message.payload, MAuthReply) and self.login is not None:
            self.login.take(message.payload, time.time())
            if self.login.done:
                self.logged_in.set()
        if isinstance(message.payload, MMonMap) and self.logged_in.is_set() and not self.answered.done():
            self.answered.set_result(None)
        return True

    def ms_handle_reset(self, connection: CoreConnection, fault: object) -> None:  # noqa: ARG002 - there is one
        """Note that the session is over."""
        self.lost.set()


class Grid:
    """All cells for one monitor.

    Args:
        target: the monitor's HOST:PORT; with ``v1:`` before it, msgr v1 is used.
        keyring: keyring with the key of ``name``.
        name: entity that authenticates.
        modes: modes of v2 to test.
        actions: keys of :data:`ACTIONS` to test.

    Raises:
        LocalError: the target or the keyring is invalid.
    """

    def __init__(
        self,
        target: str,
        keyring: Path,
        name: str = "client.admin",
        modes: Sequence[str] = ("crc", "secure"),
        actions: Sequence[str] = tuple(ACTIONS),
    ) -> None:
        self._place = parse_place(target)
        self._v1 = target.startswith("v1:")
        self._keyring = keyring
        self._name = AuthName.parse(name)
        self._key = Keyring.load(keyring).key(self._name)
        self._protocols = ["v1"] if self._v1 else [f"v2 {mode}" for mode in modes]
        self._actions = actions

    def run(self) -> Iterator[Cell]:
        """Run all cells; yields each when it is complete.

        Raises:
            MsgrError: even an undisturbed conversation with the monitor fails.
        """
        found: Queue[Cell | BaseException | None] = Queue()
        Thread(target=lambda: asyncio.run(self._gather(found)), name="grid", daemon=True).start()
        while (cell := found.get()) is not None:
            if isinstance(cell, BaseException):
                raise cell
            yield cell

    async def _gather(self, found: "Queue[Cell | BaseException | None]") -> None:
        try:
            for protocol in self._protocols:
                await self._fill(protocol, found.put)
            found.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where the cells are wanted
            found.put(error)

    async def _fill(self, protocol: str, put: Callable[[Cell], None]) -> None:
        turns = asyncio.Semaphore(_TOGETHER)

        async def one(cell: Cell) -> None:
            async with turns:
                await self.find(cell)
            put(cell)

        frames = await self.frames(protocol)
        actions = [action for action in self._actions if not (protocol == "v1" and action in _ONLY_V2)]
        cells = [
            Cell(protocol, direction, tag, action, number)
            for number, (direction, tag) in enumerate(frames)
            for action in actions
        ]
        await asyncio.gather(*map(one, cells))

    async def frames(self, protocol: str) -> list[tuple[str, str]]:
        """Return direction and tag of every kind of frame in an undisturbed conversation, in order.

        Raises:
            MsgrError: the conversation fails.
        """
        with self._proxy(()) as proxy:
            await self._converse(proxy, protocol, lambda _reason: None)
            seen = [("->" if frame.direction == "to_server" else "<-", frame.tag) for frame in proxy.frames]
        return list(dict.fromkeys(seen))

    async def find(self, cell: Cell) -> None:
        """Run a cell's conversation, and fill in its result."""
        began_s = time.monotonic()
        rule = f"{cell.direction} {cell.tag} #1: {ACTIONS[cell.action]}"
        with self._proxy(rule) as proxy:
            releasing = asyncio.create_task(_release(proxy)) if cell.action == "hold" else None
            for cell.attempts in range(1, _ATTEMPTS + 1):
                try:
                    await self._converse(proxy, cell.protocol, cell.faults.append)
                    cell.outcome = "recovered"
                    break
                except FaultError as error:
                    cell.outcome = error.fault.reason.value
                except TimeoutError:
                    cell.outcome = "no answer"
                except MsgrError as error:
                    cell.outcome = str(error)
            if releasing is not None:
                releasing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await releasing
            await _has_struck(proxy)
            cell.hits = proxy.hit_count
            cell.problem = next((hit.problem for hit in proxy.hits if hit.problem), "")
        cell.faults = list(dict.fromkeys(cell.faults))
        cell.seconds = round(time.monotonic() - began_s, 3)

    def _proxy(self, rules: str | tuple[str, ...]) -> Proxy:
        host, port = self._place
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return Proxy(target, rules, self._keyring, parties=("client", "monitor"))

    async def _converse(self, proxy: Proxy, protocol: str, fault: Callable[[str], object]) -> None:
        """Make one attempt: dial, authenticate, request the map, and send a keepalive.

        Raises:
            FaultError, TimeoutError, LocalError: it failed.
        """
        client, auth = _Client(), CephxClient(self._name, self._key)
        async with (
            asyncio.timeout(_PATIENCE_S),
            self._messenger(proxy, protocol, client, auth, fault) as messenger,
        ):
            kind = AddressType.LEGACY if protocol == "v1" else AddressType.MSGR2
            addr = EntityAddr.from_host(*self._place, kind)
            connection = messenger.connect(addr, EntityType.MON, LOSSY_CLIENT)
            await connection.ready()
            client.login = MonLogin(connection, auth, messenger.endpoint.rng)
            if connection.protocol is Protocol.V1:
                client.login.start(time.time())
                await _unless_lost(client, client.logged_in.wait(), connection)
            client.logged_in.set()
            connection.send(Message.of(MMonGetMap()))
            connection.keepalive()
            await _unless_lost(client, asyncio.shield(client.answered), connection)
            while not connection.last_keepalive_ack:
                await _unless_lost(client, asyncio.sleep(0.005), connection)

    @contextlib.asynccontextmanager
    async def _messenger(
        self, proxy: Proxy, protocol: str, client: _Client, auth: CephxClient, fault: Callable[[str], object]
    ) -> AsyncIterator[Messenger]:
        mode = protocol.partition(" ")[2] or "crc"
        over = False

        def trace(record: TraceRecord) -> None:
            if record.kind == "fault" and not over:
                fault(str(record.fields["reason"]))

        host, port = parse_place(proxy.address)
        config = Config(**_OPTIONS, ms_mon_client_mode=mode)
        messenger = Messenger(
            auth_client=auth, dispatcher=client, config=config, route=lambda _addr: (host, port), trace=trace
        )
        try:
            yield messenger
        finally:
            over = True
            await messenger.shutdown()


async def _has_struck(proxy: Proxy) -> None:
    """Wait briefly for the first hit: a cut is reported only after all bytes before it were sent."""
    for _ in range(_REPORT_POLLS):
        if proxy.hits:
            return
        await asyncio.sleep(_REPORT_POLL_S)


async def _release(proxy: Proxy) -> None:
    """Release the held frame a little later."""
    await asyncio.sleep(0.03)
    while not proxy.release("it"):  # noqa: ASYNC110 - it happens in another thread
        await asyncio.sleep(0.03)


async def _unless_lost(client: _Client, what: Any, connection: CoreConnection) -> None:  # noqa: ANN401 - awaitable
    """Wait for something, but only while the session exists.

    Raises:
        FaultError: the session is over.
    """
    task, lost = asyncio.ensure_future(what), asyncio.ensure_future(client.lost.wait())
    try:
        await asyncio.wait([task, lost], return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            assert connection.last_fault is not None
            raise FaultError(connection.last_fault)
        await task
    finally:
        lost.cancel()
        task.cancel()
