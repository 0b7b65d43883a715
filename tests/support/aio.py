"""Coroutines as tests, and messengers on loopback."""

import asyncio
import functools
import socket
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.interception import Interceptor
from messenger.messenger import Connection, Messenger, Route
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSLESS_PEER, Policy, PolicySet
from messenger.transport.base import Transport
from messenger.transport.stream_link import StreamLink
from messenger.transport.tcp import TcpStream
from tests.support.node import auth_pair

TEST_TIMEOUT_S = 30.0
CONDITION_TIMEOUT_S = 10.0

workers: ContextVar[int] = ContextVar("workers", default=0)
"""How many threads each messenger of a test has for its open connections."""

Parameters = ParamSpec("Parameters")


def on_loop(test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """Run a coroutine as a test, and fail it if tasks are left over."""
    return within(TEST_TIMEOUT_S, test)


def within(timeout_s: float, test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """The same with another limit of time."""

    async def watched(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        async with asyncio.timeout(timeout_s):
            await test(*args, **kwargs)
        leftovers = {task for task in asyncio.all_tasks() if not _accepts(task)} - {asyncio.current_task()}
        assert not leftovers, leftovers

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        asyncio.run(watched(*args, **kwargs))

    return run


def _accepts(task: "asyncio.Task[Any]") -> bool:
    """True for asyncio's own task that accepts a connection, for which a server that closes does not wait."""
    return getattr(task.get_coro(), "__name__", "") == "_accept_connection2"


def messenger(
    number: int,
    dispatcher: Dispatcher | None = None,
    *,
    auth: str = "cephx",
    mode: ConMode = ConMode.CRC,
    policy: Policy = LOSSLESS_PEER,
    entity_type: EntityType = EntityType.OSD,
    interceptor: Interceptor | None = None,
    route: Route | None = None,
    key_log: Path | Callable[[str], None] | None = None,
    trace: Callable[[TraceRecord], None] | None = None,
    transport: Transport | None = None,
    **options: object,
) -> Messenger:
    """osd.``number``, with one connection mode and one policy; ``options`` are those of Config."""
    name = EntityName(entity_type, number)
    client, server = auth_pair(auth, name)
    return Messenger(
        name,
        auth_client=client,
        auth_server=server,
        dispatcher=dispatcher,
        policies=PolicySet(policy),
        config=Config.only_mode(mode, **options),
        interceptor=interceptor,
        workers=workers.get(),
        route=route,
        key_log=key_log,
        trace=trace,
        transport=transport,
    )


def sockets(messenger: Messenger) -> list[socket.socket]:
    """The sockets of a messenger's links; other transports have none."""
    links: list[StreamLink] = list(messenger._links.values())
    return [link.stream.sock for link in links if isinstance(link.stream, TcpStream)]


async def until(condition: Callable[[], object], timeout_s: float | None = None) -> None:
    """Wait until a condition holds, for :data:`CONDITION_TIMEOUT_S` unless given."""
    async with asyncio.timeout(CONDITION_TIMEOUT_S if timeout_s is None else timeout_s):
        while not condition():  # noqa: ASYNC110 - conditions are about state that signals no changes
            await asyncio.sleep(0.001)


async def unchanged(value: Callable[[], object], for_s: float = 0.05, timeout_s: float = 10.0) -> None:
    """Wait until a value has not changed for some time: what is still on its way changes it."""
    async with asyncio.timeout(timeout_s):
        last, since_s = value(), time.monotonic()
        while time.monotonic() - since_s < for_s:
            await asyncio.sleep(0.005)
            if (now := value()) != last:
                last, since_s = now, time.monotonic()


async def connected(client: Messenger, server: Messenger, policy: Policy | None = None) -> Connection:
    """A ready connection from one to the other, which is not bound yet."""
    address = await server.bind()
    return await client.connect(address, EntityType.OSD, policy).ready(10.0)
