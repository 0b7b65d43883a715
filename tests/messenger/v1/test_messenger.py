"""The asyncio messenger on v1 over loopback, on its own loop and with workers."""

import threading
from collections.abc import Iterator

import pytest

from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault, FaultError, FaultReason
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, STATEFUL_SERVER, STATELESS_SERVER
from messenger.session.session import SessionState
from tests.support import aio
from tests.support.aio import messenger, on_loop, until
from tests.support.node import OTHER_KEY, cephx_client, numbered

MIB = 1 << 20


@pytest.fixture(autouse=True, params=[0, 2], ids=["one loop", "workers"])
def workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything holds whether connections run on the messenger's own loop or on workers; no thread is left."""
    token = aio.workers.set(request.param)
    before = threading.active_count()
    yield
    aio.workers.reset(token)
    assert threading.active_count() == before


class Recorder(Dispatcher):
    """Remembers everything; answers a message with tid 0 by one with tid 1."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.connections: list[Connection] = []
        self.resets: list[Fault] = []

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self.messages.append(message)
        if not message.tid:
            connection.send(numbered(1))

    def ms_handle_accept(self, connection: Connection) -> None:
        self.connections.append(connection)

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        self.resets.append(fault)

    @property
    def tids(self) -> list[int]:
        return [message.tid for message in self.messages]


@pytest.mark.parametrize("auth", ["none", "cephx"])
@on_loop
async def test_a_message_and_its_answer(auth: str) -> None:
    mine, theirs = Recorder(), Recorder()
    async with messenger(1, mine, auth=auth) as client, messenger(2, theirs, auth=auth) as server:
        addr = await server.bind(protocol=Protocol.V1)
        assert str(addr).startswith("v1:")
        connection = await client.connect(addr, EntityType.OSD).ready(10.0)
        connection.send(numbered(0))
        await until(lambda: mine.tids == [1])
        assert theirs.tids == [0]
        assert connection.session.confirmed


@on_loop
async def test_large_and_many_messages() -> None:
    inbox = Recorder()
    async with (
        messenger(1, policy=LOSSLESS_CLIENT) as client,
        messenger(2, inbox, policy=STATEFUL_SERVER) as server,
    ):
        connection = await client.connect(await server.bind(protocol=Protocol.V1), EntityType.OSD).ready(10.0)
        sizes = [8, 5 * MIB, 100, MIB, 30_000]
        for number in range(2, 402):
            connection.send(numbered(number, sizes[number % len(sizes)] if number < 20 else 10))
        await until(lambda: len(inbox.messages) == 400, 30.0)
        assert inbox.tids == list(range(2, 402))
        for message in inbox.messages[:18]:
            assert bytes(message.data) == numbered(message.tid, sizes[message.tid % len(sizes)]).data
        await until(lambda: not client.endpoint.snapshot()["sent"])


@on_loop
async def test_both_protocols_are_listened_for() -> None:
    inbox = Recorder()
    async with messenger(2, inbox) as server, messenger(1) as first, messenger(3) as second:
        v2, v1 = await server.bind(), await server.bind(protocol=Protocol.V1)
        assert str(server.addrs) == f"[{v2},{v1}]"
        for client, addr in ((first, v1), (second, v2)):
            connection = await client.connect(addr, EntityType.OSD).ready(10.0)
            connection.send(numbered(7))
        await until(lambda: inbox.tids == [7, 7])


@on_loop
async def test_a_lossy_session_ends_with_its_peer() -> None:
    mine = Recorder()
    async with messenger(1, mine, policy=LOSSY_CLIENT) as client:
        async with messenger(2, policy=STATELESS_SERVER) as server:
            connection = await client.connect(await server.bind(protocol=Protocol.V1), EntityType.OSD).ready(10.0)
        await until(lambda: mine.resets)
        assert connection.state is SessionState.CLOSED


@on_loop
async def test_a_wrong_key_is_refused_by_name() -> None:
    async with messenger(1, policy=LOSSY_CLIENT) as client, messenger(2) as server:
        client.endpoint.me.auth_client = cephx_client(client.endpoint.name, OTHER_KEY)
        connection = client.connect(await server.bind(protocol=Protocol.V1), EntityType.OSD)
        with pytest.raises(FaultError) as raised:
            await connection.ready(10.0)
        assert raised.value.fault.reason is FaultReason.AUTH_DENIED
