"""Watches and notifications, which OSDs keep after their first reply (docs/protocol.md §6.4)."""

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Protocol, Self

from messenger.denc.codec import Buffer, Decoder
from messenger.messages.message import Message
from messenger.messages.osd_client import MWatchNotify, NotifyOp
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.rados.errors import RadosError
from toolkit.rados.objecter import Lingering, OsdSession
from toolkit.rados.placement import Placement
from toolkit.rados.request import Request, Target

PING_INTERVAL_S = 5.0
"""Interval of watch pings, Ceph's ``objecter_tick_interval``."""

_WATCHER_SIZE = 16


class WatchOp(IntEnum):
    """Kinds of WATCH operations."""

    UNWATCH = 0
    WATCH = 3
    RECONNECT = 5
    PING = 7


class Operator(Protocol):
    """Runs operations on the objects of a pool."""

    async def operate(
        self,
        oid: str,
        *ops: OsdOp,
        once: bool = False,
        on_success: Callable[[Request], None] | None = None,
    ) -> MOSDOpReply:
        """Run operations and return the reply; raises RadosError."""


class _Lingering:
    """A registration at an OSD."""

    def __init__(self, oid: str) -> None:
        self.oid = oid
        self._request: Request | None = None
        self._target: Target | None = None
        self._session: object = None

    def settle(self, request: Request) -> None:
        """Note the OSD that has registered it."""
        self._request, self._target, self._session = request, request.target, request.session

    def unsettle(self) -> None:
        """Note that no OSD has it registered."""
        self._request = self._target = self._session = None

    @property
    def settled(self) -> bool:
        """True if an OSD has registered it."""
        return self._request is not None

    def moved(self, placement: Placement) -> bool:
        """True if a new map places the object elsewhere."""
        if self._request is None:
            return False
        try:
            return self._request.aim(placement) != self._target
        except RadosError:
            return True

    def is_on(self, session: OsdSession) -> bool:
        """True if it depends on that session."""
        return self._session is session


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification to the watchers of an object; the notifier waits until all have acknowledged."""

    payload: bytes
    notify_id: int
    notifier_gid: int
    """Global id of the notifying client."""
    watch: "Watch"

    async def ack(self, reply: Buffer = b"") -> None:
        """Acknowledge, with a reply for the notifier; raises RadosError."""
        await self.watch.acknowledge(self.notify_id, reply)


class Watch(_Lingering):
    """A watch of an object. It survives restarts of OSDs, and ends by :meth:`close` or with an error."""

    def __init__(
        self, operator: Operator, lingering: dict[int, Lingering], oid: str, cookie: int, timeout_s: int
    ) -> None:
        super().__init__(oid)
        self.cookie = cookie
        self._operator = operator
        self._lingering = lingering
        self._timeout_s = timeout_s
        self._generation = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._notifications: deque[Notification] = deque()
        self._news = asyncio.Event()
        self.error: RadosError | None = None
        """Why the watch ended; None while it exists."""

    async def open(self) -> Self:
        """Register the watch; raises RadosError, ENOENT if there is no such object."""
        self._lingering[self.cookie] = self
        try:
            await self._register(WatchOp.WATCH)
        except BaseException:
            self._lingering.pop(self.cookie, None)
            raise
        self._start(self._keep_pinging)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unregister the watch; raises RadosError if the OSD rejects that."""
        watching = self.error is None
        self._end(errno.ENOTCONN)
        await self._tasks_done()
        if watching:
            await self._operator.operate(self.oid, self._operation(WatchOp.UNWATCH))

    async def get(self) -> Notification:
        """Wait for the next notification and return it.

        Raises:
            RadosError: the watch has ended.
        """
        while not self._notifications:
            if self.error is not None:
                raise self.error
            self._news.clear()
            await self._news.wait()
        return self._notifications.popleft()

    async def acknowledge(self, notify_id: int, reply: Buffer) -> None:
        """Acknowledge a notification, with a reply for the notifier; raises RadosError."""
        await self._operator.operate(self.oid, operation(OpCode.NOTIFY_ACK, notify_id, self.cookie, reply))

    def take(self, notify: MWatchNotify, _message: Message) -> None:
        """Handle a message of an OSD about this watch or notify; raises DecodeError."""
        if notify.opcode == NotifyOp.NOTIFY:
            self._notifications.append(Notification(notify.payload, notify.notify_id, notify.notifier_gid, self))
            self._news.set()
        elif notify.opcode == NotifyOp.DISCONNECT:
            self._end(errno.ENOTCONN)

    def lost(self) -> None:
        """Register the watch again, with the next generation."""
        if self.settled and self.error is None:
            self.unsettle()
            self._generation += 1
            self._start(self._reconnect)

    async def stop(self) -> None:
        """End the watch, because the client ends."""
        self._end(errno.ESHUTDOWN)
        await self._tasks_done()

    async def _tasks_done(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _end(self, number: int) -> None:
        if self.error is None:
            self.error = RadosError(number, f"watch of {self.oid!r}")
        self._lingering.pop(self.cookie, None)
        self._news.set()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _start(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(work()))

    async def _reconnect(self) -> None:
        try:
            await self._register(WatchOp.RECONNECT)
        except RadosError as error:
            self._end(error.errno)

    async def _keep_pinging(self) -> None:
        """Ping the OSD to keep the watch; end the watch if the OSD has dropped it."""
        while True:
            await asyncio.sleep(PING_INTERVAL_S)
            if not self.settled:
                continue
            try:
                # not resent on a new session, where it could arrive before the new registration and be rejected
                await self._operator.operate(self.oid, self._operation(WatchOp.PING), once=True)
            except RadosError as error:
                if error.errno != errno.ECONNRESET:
                    self._end(error.errno)
                    return

    async def _register(self, op: WatchOp) -> None:
        await self._operator.operate(self.oid, self._operation(op), on_success=self.settle)

    def _operation(self, op: WatchOp) -> OsdOp:
        args = {"cookie": self.cookie, "op": int(op), "gen": self._generation}
        return operation(OpCode.WATCH, **args, timeout=self._timeout_s)


@dataclass(frozen=True, slots=True)
class NotifyResult:
    """Result of a notification. Watchers are identified by global id and cookie."""

    replies: dict[tuple[int, int], bytes]
    """Replies of the watchers."""
    missed: list[tuple[int, int]]
    """Watchers that did not acknowledge in time."""


class Notify(_Lingering):
    """A notification in progress."""

    def __init__(self, oid: str) -> None:
        super().__init__(oid)
        self.result: asyncio.Future[NotifyResult | None] = asyncio.get_running_loop().create_future()
        """The result; None if the OSD was lost and the notification must be sent again."""

    def lost(self) -> None:
        """Mark it to be sent again."""
        if self.settled and not self.result.done():
            self.result.set_result(None)

    async def stop(self) -> None:
        """End it, because the client ends."""
        if not self.result.done():
            self.result.set_exception(RadosError(errno.ESHUTDOWN, f"notify of {self.oid!r}"))

    def take(self, notify: MWatchNotify, message: Message) -> None:
        """Process the completion: every watcher has acknowledged or timed out; raises DecodeError."""
        if self.result.done() or notify.opcode != NotifyOp.NOTIFY_COMPLETE:
            return
        if notify.return_code not in (0, -errno.ETIMEDOUT):
            self.result.set_exception(RadosError(-notify.return_code, f"notify of {self.oid!r}"))
        else:
            self.result.set_result(_decode_result(message.data))


def _decode_result(data: Buffer) -> NotifyResult:
    """Decode the replies by watcher, and the watchers that timed out."""
    if not len(data):
        return NotifyResult({}, [])
    decoder = Decoder(data)

    def watcher() -> tuple[int, int]:
        return decoder.u64(), decoder.u64()

    replies = decoder.mapping(watcher, decoder.blob, _WATCHER_SIZE + 4)
    return NotifyResult(replies, decoder.sequence(watcher, _WATCHER_SIZE))
