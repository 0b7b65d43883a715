"""Properties of shards that are threads."""

import asyncio
import threading

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import LocalError
from messenger.interception import Action, Point, Way
from messenger.link import Link
from messenger.messages.message import Message
from tests.support.aio import connected, messenger, on_loop, until, workers
from tests.support.node import numbered


class Threads(Dispatcher):
    """Remembers in which thread it was called."""

    def __init__(self) -> None:
        self.tids: list[int] = []
        self.threads: set[int] = set()

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self.tids.append(message.tid)
        self.threads.add(threading.get_ident())


class Block:
    """Blocks the first MESSAGE that arrives."""

    def __init__(self) -> None:
        self.links: list[int] = []
        self.threads: set[int] = set()

    def intercept(self, link: Link, point: Point, passes: int) -> Action:
        if point != Point("MESSAGE", Way.READ) or passes > 1:
            return Action.CONTINUE
        self.links.append(link.id)
        self.threads.add(threading.get_ident())
        return Action.BLOCK


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@on_loop
async def test_dispatchers_are_called_where_the_messenger_lives(mode: ConMode) -> None:
    workers.set(3)
    inbox = Threads()
    async with messenger(1, mode=mode) as client, messenger(2, inbox, mode=mode) as server:
        connection = await connected(client, server)
        for number in range(200):
            connection.send(numbered(number, 100_000 if number % 50 == 0 else 10))
        await until(lambda: len(inbox.tids) == 200)
    assert inbox.tids == list(range(200))
    assert inbox.threads == {threading.get_ident()}


@on_loop
async def test_a_link_on_a_worker_can_be_blocked_and_unblocked() -> None:
    inbox, block = Threads(), Block()
    workers.set(1)
    async with messenger(1) as client, messenger(3) as third, messenger(2, inbox, interceptor=block) as server:
        connection = await connected(client, server)
        connection.send(numbered(1))
        connection.send(numbered(2))
        await until(lambda: block.links)
        other = await third.connect(server.addrs, EntityType.OSD).ready(10.0)
        other.send(numbered(3))
        await until(lambda: inbox.tids)
        assert inbox.tids == [3], "what came later on another link has overtaken the blocked one"
        server.unblock(block.links[0])
        await until(lambda: inbox.tids == [3, 1, 2])
    assert block.threads != {threading.get_ident()}


@on_loop
async def test_fewer_workers_than_none_are_the_callers_mistake() -> None:
    workers.set(-1)
    with pytest.raises(LocalError, match="give 0 or more"):
        messenger(1)


@on_loop
async def test_second_release_raises_local_error() -> None:
    workers.set(2)
    inbox = Threads()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        connection.send(numbered(1))
        await until(lambda: inbox.tids)
        with pytest.raises(LocalError, match="twice"):
            server.endpoint.release(8, server.now())


def test_workers_end_with_the_loop_of_a_messenger_that_was_never_shut_down() -> None:
    """Its peers see the end, too."""

    async def forget(addr: EntityAddr) -> None:
        workers.set(1)
        await messenger(1).connect(addr, EntityType.OSD).ready(10)

    async def serve() -> None:
        async with messenger(2) as server:
            addr = await server.bind()
            await asyncio.to_thread(asyncio.run, forget(addr))
            (accepted,) = server.connections.values()
            assert accepted.is_connected
            await until(lambda: not accepted.is_connected)

    def serve_and_wait() -> bool:
        asyncio.run(serve())
        left = [thread for thread in threading.enumerate() if thread.name.startswith("msgr-worker")]
        for thread in left:
            thread.join(10)
        return not any(thread.is_alive() for thread in left)

    with pytest.warns(ResourceWarning, match="its messenger was never shut down"):
        assert serve_and_wait()
