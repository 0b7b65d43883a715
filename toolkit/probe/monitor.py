"""A session with a monitor: its map, its configuration and answers to commands (docs/protocol.md §6.2)."""

import asyncio
import json
from types import TracebackType
from typing import Any, Self, TypeVar

from messenger.cephx.exchange import AuthClient
from messenger.config import Config
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.errors import Fault, FaultError, LocalError
from messenger.messages.config import MConfig
from messenger.messages.message import Message, Payload
from messenger.messages.mon import (
    SUBSCRIBE_ONETIME,
    MMonCommand,
    MMonCommandAck,
    MMonGetMap,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    Subscription,
)
from messenger.messages.monmap import MMonMap, MonMap
from messenger.messages.osd import MOSDMap
from messenger.messenger import Connection, Messenger
from messenger.session.policy import LOSSY_CLIENT

_P = TypeVar("_P")


class MonitorSession(Dispatcher):
    """A session with one monitor; an async context manager that logs in on entry and shuts down on exit.

    Every request raises FaultError if the session ends, and TimeoutError if the answer does not arrive in time.

    Args:
        addr: the monitor's msgr v2 address.
        auth: the identity to log in with.
        config: options of the messenger.
        timeout_s: time limit of the login and of each answer.
    """

    def __init__(
        self, addr: EntityAddr, auth: AuthClient, config: Config | None = None, timeout_s: float = 10.0
    ) -> None:
        self.addr = addr
        self._auth = auth
        self._config = config
        self._timeout_s = timeout_s
        self._last_tid = 0
        self._waiting: dict[object, asyncio.Future[Message]] = {}

    async def __aenter__(self) -> Self:
        self._messenger = Messenger(auth_client=self._auth, dispatcher=self, config=self._config)
        try:
            self.connection: Connection = self._messenger.connect(self.addr, EntityType.MON, LOSSY_CLIENT)
            await self.connection.ready(self._timeout_s)
        except BaseException:
            await self._messenger.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._messenger.shutdown()

    # ---- questions

    async def monmap(self) -> MonMap:
        """The monitor map."""
        message = await self._ask(MMonGetMap(), MMonMap)
        return _payload(message, MMonMap).monmap

    async def settings(self) -> dict[str, str]:
        """The options the monitors hold for this client."""
        message = await self._ask(MMonSubscribe({"config": Subscription()}), MConfig)
        return _payload(message, MConfig).config

    async def osdmap(self) -> MOSDMap:
        """The newest OSD map, in the message that brings it."""
        once = Subscription(flags=SUBSCRIBE_ONETIME)
        return _payload(await self._ask(MMonSubscribe({"osdmap": once}), MOSDMap), MOSDMap)

    async def newest_version(self, what: str) -> int:
        """Return the newest version of a map: ``osdmap``, ``monmap``, ``mgrmap``, ``mdsmap``."""
        self._last_tid += 1
        message = await self._ask(MMonGetVersion(self._last_tid, what), (MMonGetVersionReply, self._last_tid))
        return _payload(message, MMonGetVersionReply).version

    async def command(self, monmap: MonMap, prefix: str, **args: Any) -> Any:  # noqa: ANN401 - JSON both ways
        """Run a monitor command; returns its output, decoded from JSON.

        Raises:
            LocalError: the monitor refused the command (the error has its text), or its output is not JSON.
        """
        text = json.dumps({"prefix": prefix, "format": "json", **args})
        self._last_tid += 1
        message = await self._ask(
            MMonCommand(monmap.fsid, [text]), (MMonCommandAck, self._last_tid), tid=self._last_tid
        )
        ack = _payload(message, MMonCommandAck)
        if ack.r:
            raise LocalError(f"{prefix}: {ack.rs or 'refused'} ({ack.r})")
        try:
            return json.loads(bytes(message.data) or b"null")
        except (ValueError, RecursionError) as error:
            raise LocalError(f"{prefix}: the monitor's output is not JSON: {error}") from None

    async def _ask(self, question: Payload, key: object, tid: int = 0) -> Message:
        """Send a request and wait for the message that answers it."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        self.connection.send(Message.of(question, tid=tid))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except TimeoutError:
            raise TimeoutError(f"no answer to {type(question).__name__} within {self._timeout_s:g} s") from None
        finally:
            self._waiting.pop(key, None)

    # ---- answers

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:  # noqa: ARG002 - there is one
        """Pass an answer to the request that waits for it."""
        payload = message.payload
        key: object = type(payload)
        if isinstance(payload, MMonCommandAck):
            key = (MMonCommandAck, message.tid)
        elif isinstance(payload, MMonGetVersionReply):
            key = (MMonGetVersionReply, payload.handle)
        answer = self._waiting.get(key)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def ms_handle_reset(self, connection: CoreConnection, fault: Fault) -> None:  # noqa: ARG002 - there is one
        """Fail all waiting requests, because the session ended."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(FaultError(fault))


def _payload(message: Message, kind: type[_P]) -> _P:
    assert isinstance(message.payload, kind)
    return message.payload
