"""The asyncio messenger over loopback."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.errors import Fault, FaultError, FaultReason, LocalError
from messenger.inbox import Inbox
from messenger.messages.message import Message
from messenger.messages.ping import MPing
from messenger.messenger import Connection, Messenger
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, STATEFUL_SERVER, STATELESS_SERVER, PolicySet
from messenger.session.session import SessionState
from tests.support import aio
from tests.support.aio import connected, messenger, on_loop, unchanged, until
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
        self.events: list[str] = []
        self.faults: list[Fault] = []

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
        self.messages.append(message)
        if not message.tid:
            connection.send(numbered(1))

    def ms_handle_connect(self, connection: CoreConnection) -> None:
        self.events.append("connect")

    def ms_handle_accept(self, connection: CoreConnection) -> None:
        self.events.append("accept")

    def ms_handle_reset(self, connection: CoreConnection, fault: Fault) -> None:
        self.events.append("reset")
        self.faults.append(fault)

    def ms_handle_remote_reset(self, connection: CoreConnection, fault: Fault) -> None:
        self.events.append("remote_reset")

    def ms_handle_refused(self, connection: CoreConnection, fault: Fault) -> None:
        self.events.append("refused")
        self.faults.append(fault)

    @property
    def tids(self) -> list[int]:
        return [message.tid for message in self.messages]


# ---- connecting


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@on_loop
async def test_a_message_and_its_answer(mode: ConMode) -> None:
    mine, theirs = Recorder(), Recorder()
    async with messenger(1, mine, mode=mode) as client, messenger(2, theirs, mode=mode) as server:
        connection = await connected(client, server)
        assert connection.state is SessionState.READY
        assert connection.connection_mode is mode
        assert connection.send(numbered(0))
        assert connection.send(MPing())
        await until(lambda: mine.tids == [1, 1])
        assert (mine.events, theirs.events) == (["connect"], ["accept"])
        assert repr(connection).startswith("<Connection osd.2 v2:127.0.0.1:")
    assert connection.state is SessionState.CLOSED
    assert connection.connection_mode is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@on_loop
async def test_addresses_are_learned_and_announced(host: str) -> None:
    async with messenger(1) as client, messenger(2) as server:
        address = await server.bind(host)
        assert (address.host, server.addrs.front) == (host, address)
        assert address.port > 0
        connection = await client.connect(str(address), EntityType.OSD).ready(10.0)
        assert client.addrs.front.host == host
        assert str(connection.session.peer_name) == "osd.2"
        assert client.connect(address, EntityType.OSD) is connection


async def refusal(client: Messenger, address: str, peer_type: EntityType = EntityType.OSD) -> str:
    """Return the error that a user reads when a dial is refused."""
    with pytest.raises(FaultError) as caught:
        await client.connect(address, peer_type).ready(10.0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@on_loop
async def test_connect_to_a_closed_port_is_refused() -> None:
    async with messenger(1) as client, messenger(2) as server:
        address = await server.bind()
        await server.shutdown()
        text = await refusal(client, str(address))
        assert text == f"connection refused in START_CONNECT: 127.0.0.1:{address.port}"


@on_loop
async def test_authentication_is_denied() -> None:
    name = EntityName(EntityType.OSD, 1)
    wrong = Messenger(name, auth_client=cephx_client(name, OTHER_KEY))
    async with wrong as client, messenger(2) as server:
        text = await refusal(client, str(await server.bind()))
        assert text.startswith("authentication refused in AUTH_CONNECTING: cephx refused with EACCES")


@on_loop
async def test_no_common_mode() -> None:
    async with messenger(1, mode=ConMode.CRC) as client, messenger(2, mode=ConMode.SECURE) as server:
        text = await refusal(client, str(await server.bind()))
        assert text.endswith("the peer allows only connection mode secure")


@on_loop
async def test_another_type_of_peer() -> None:
    async with messenger(1) as client, messenger(2) as server:
        text = await refusal(client, str(await server.bind()), EntityType.MON)
        assert text == "unexpected peer entity type in HELLO_CONNECTING: dialled a mon, but the peer is a osd"


class Greeter(asyncio.Protocol):
    """Says something and then nothing more."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._greeting)


@asynccontextmanager
async def impostor(greeting: bytes) -> AsyncIterator[str]:
    """A server of another protocol; its address."""
    server = await asyncio.get_running_loop().create_server(lambda: Greeter(greeting), "127.0.0.1", 0)
    async with server:
        yield f"v2:127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


@pytest.mark.parametrize(
    ("greeting", "fault"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the Ceph messenger protocol"),
        (b"ceph v027" + bytes(272), "peer speaks msgr v1"),
        (b"", None),
    ],
    ids=["http", "v1", "silent"],
)
@on_loop
async def test_a_peer_of_another_protocol_is_tried_again_but_not_for_ever(
    greeting: bytes, fault: str | None
) -> None:
    recorder = Recorder()
    async with impostor(greeting) as address, messenger(1, recorder, policy=LOSSLESS_CLIENT) as client:
        connection = client.connect(address, EntityType.OSD)
        with pytest.raises(TimeoutError if fault is None else FaultError, match=fault):
            await connection.ready(0.05 if fault is None else 5.0)
        assert connection.state is SessionState.CONNECTING
        assert recorder.events == ["refused"] * (fault is not None)
        connection.mark_down()
        with pytest.raises(FaultError, match="marked down"):
            await connection.ready(1.0)


@on_loop
async def test_waiters_get_the_end_as_an_error() -> None:
    async with impostor(b"") as address, messenger(1) as client:
        connection = client.connect(address, EntityType.OSD)
        begun: list[int] = []

        async def wait(number: int) -> None:
            begun.append(number)
            await connection.ready()

        waiting = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await until(lambda: len(begun) == 3)
        connection.mark_down()
        for waiter in waiting:
            with pytest.raises(FaultError, match="marked down"):
                await waiter


@on_loop
async def test_a_taken_port_is_reported_in_one_line() -> None:
    async with messenger(1) as first, messenger(2) as second:
        address = await first.bind()
        with pytest.raises(LocalError, match=f"cannot listen on 127.0.0.1:{address.port}: Address already in use"):
            await second.bind(port=address.port)


@on_loop
async def test_listening_without_an_authentication_server_is_the_callers_mistake() -> None:
    async with Messenger(auth_client=cephx_client(EntityName(EntityType.CLIENT, 1))) as client:
        with pytest.raises(LocalError, match="authentication server"):
            await client.bind()


# ---- messages


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@on_loop
async def test_two_thousand_messages_of_mixed_sizes_both_ways(mode: ConMode) -> None:
    sizes = [MIB if number % 200 == 7 else (number * 37) % 5000 for number in range(2000)]
    inboxes = Inbox(), Inbox()
    async with messenger(1, inboxes[0], mode=mode) as client, messenger(2, inboxes[1], mode=mode) as server:
        connection = await connected(client, server)
        (answering,) = server.connections.values()
        sent = [numbered(number, size) for number, size in enumerate(sizes)]
        for message in sent:
            connection.send(message)
            answering.send(message)
        for inbox in inboxes:
            for message in sent:
                _, received = await inbox.get(10.0)
                assert received.tid == message.tid
                assert received.data == message.data
        for either in client, server:
            await until(lambda either=either: set(either.endpoint.snapshot().values()) <= {0, 1})
            assert either.endpoint.snapshot()["dispatch_bytes"] == 0


@on_loop
async def test_a_slow_reader_stops_the_sender_and_loses_nothing() -> None:
    limit = 100_000
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox, ms_dispatch_throttle_bytes=limit) as server:
        connection = await connected(client, server)
        for number in range(600):
            connection.send(numbered(number, 50_000))
        # Each of two workers has half of the throttle.
        await until(lambda: server.endpoint.held_by_application_bytes >= limit // max(1, aio.workers.get()))
        await unchanged(lambda: (len(inbox), client.endpoint.snapshot()["queued"]))
        assert server.endpoint.held_by_application_bytes <= limit + 50_000
        assert len(inbox) <= 3
        assert client.endpoint.snapshot()["queued"] > 0  # type: ignore[operator]
        for number in range(600):
            _, message = await inbox.get(10.0)
            assert message.tid == number
        assert server.endpoint.held_by_application_bytes == 0


@on_loop
async def test_a_dispatcher_that_raises_loses_no_other_message() -> None:
    class Clumsy(Recorder):
        def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
            super().ms_dispatch(connection, message)
            if message.tid % 2:
                raise ValueError(f"cannot handle {message.tid}")

        def ms_handle_accept(self, connection: CoreConnection) -> None:
            raise RuntimeError("cannot accept")

    reported: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    clumsy = Clumsy()
    async with messenger(1) as client, messenger(2, clumsy) as server:
        connection = await connected(client, server)
        for number in range(1, 11):
            connection.send(numbered(number, 1000))
        await until(lambda: clumsy.tids == list(range(1, 11)))
        assert [str(error) for error in reported] == [
            "cannot accept",
            *[f"cannot handle {n}" for n in (1, 3, 5, 7, 9)],
        ]
        assert server.endpoint.dispatch_throttle.value == 0


@on_loop
async def test_marking_down_from_inside_a_dispatcher() -> None:
    class Fickle(Recorder):
        def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
            super().ms_dispatch(connection, message)
            connection.mark_down()

    fickle = Fickle()
    async with (
        messenger(1, policy=LOSSY_CLIENT) as client,
        messenger(2, fickle, policy=STATELESS_SERVER) as server,
    ):
        connection = await connected(client, server)
        for number in range(1, 11):
            connection.send(numbered(number))
        await until(lambda: connection.state is SessionState.CLOSED)
        assert fickle.tids == [1]
        assert fickle.events == ["accept"]
        assert server.connections == {}
        assert server.endpoint.dispatch_throttle.value == 0


@on_loop
async def test_sending_after_the_end_is_refused() -> None:
    async with messenger(1) as client, messenger(2) as server:
        connection = await connected(client, server)
        connection.mark_down()
        assert not connection.send(numbered(1))
        connection.keepalive()
        connection.mark_down()
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.MARKED_DOWN
        assert client.connections == {}


@on_loop
async def test_keepalives_show_the_wall_clock() -> None:
    async with messenger(1) as client, messenger(2) as server:
        connection = await connected(client, server)
        connection.keepalive()
        await until(lambda: connection.session.keepalive_acked_s)
        assert connection.session.keepalive_acked_s == pytest.approx(time.time(), abs=5.0)


@on_loop
async def test_a_server_that_comes_back_on_its_port() -> None:
    mine, theirs = Recorder(), Recorder()
    async with messenger(1, mine, policy=LOSSLESS_CLIENT, ms_initial_backoff=0.02) as client:
        async with messenger(2, policy=STATEFUL_SERVER) as server:
            connection = await connected(client, server)
            address = server.addrs.front
        await until(lambda: "refused" in mine.events)
        again = messenger(2, theirs, policy=STATEFUL_SERVER)
        again._nonce = address.nonce
        async with again as server:
            await server.bind(port=address.port)
            await until(lambda: "remote_reset" in mine.events)
            connection.send(numbered(5))
            await until(lambda: theirs.tids == [5])
            assert mine.events[-1] == "connect"


@on_loop
async def test_histories_and_routes() -> None:
    records: list[TraceRecord] = []
    routed = []
    async with messenger(2) as server:
        address = await server.bind()

        def route(addr: object) -> tuple[str, int]:
            routed.append(addr)
            return "127.0.0.1", address.port

        name = EntityName(EntityType.OSD, 1)
        async with Messenger(
            name,
            auth_client=cephx_client(name),
            policies=PolicySet(LOSSY_CLIENT),
            route=route,
            trace=records.append,
        ) as client:
            elsewhere = address.with_nonce(address.nonce)
            await client.connect(elsewhere, EntityType.OSD).ready(10.0)
        assert routed == [elsewhere]
    assert {"state", "frame", "link", "event"} <= {record.kind for record in records}


# ---- the inbox


@on_loop
async def test_an_inbox_with_a_timeout() -> None:
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        with pytest.raises(TimeoutError):
            await inbox.get(0.01)
        connection.send(numbered(1))
        from_, message = await inbox.get(10.0)
        assert message.tid == 1
        assert isinstance(from_, Connection)
        assert str(from_.session.peer_name) == "osd.1"
        assert len(inbox) == 0


@on_loop
async def test_several_readers_of_one_inbox_get_one_message_each() -> None:
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        readers = [asyncio.ensure_future(inbox.get(10.0)) for _ in range(5)]
        with pytest.raises(TimeoutError):
            await inbox.get(0.001)
        for number in range(1, 6):
            connection.send(numbered(number))
        received = [message.tid for _, message in await asyncio.gather(*readers)]
        assert received == [1, 2, 3, 4, 5]


@on_loop
async def test_a_reader_that_gives_up_when_a_message_comes_does_not_take_it_away() -> None:
    inbox = Inbox()
    async with messenger(1, inbox) as client:
        connection = client.connect("v2:127.0.0.1:1/1", EntityType.OSD)
        first, second = (asyncio.ensure_future(inbox.get(10.0)) for _ in range(2))
        await asyncio.sleep(0)
        inbox.ms_dispatch(connection, numbered(1, 0))
        first.cancel()
        _, message = await asyncio.wait_for(second, 1.0)
        assert message.tid == 1
        assert first.cancelled()


# ---- the end


@pytest.mark.parametrize("turns", range(8))
@on_loop
async def test_shutting_down_while_dialling(turns: int) -> None:
    async with messenger(2) as server:
        address = await server.bind()
        client = messenger(1)
        connection = client.connect(address, EntityType.OSD)
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.shutdown()
        assert connection.state is SessionState.CLOSED
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(FaultError, match="messenger shut down"):
            await connection.ready(1.0)


@on_loop
async def test_shutting_down_under_load_and_twice() -> None:
    recorder = Recorder()
    client, server = messenger(1), messenger(2, recorder)
    connection = await connected(client, server)
    for number in range(1, 2001):
        connection.send(numbered(number, 10_000))
    await until(lambda: recorder.messages)
    for either in client, server:
        await either.shutdown()
        await either.shutdown()
        assert set(either.endpoint.snapshot().values()) == {0}
        assert either.connections == {}
    assert recorder.tids == list(range(1, len(recorder.tids) + 1))
    assert not connection.send(numbered(1))


@on_loop
async def test_the_other_side_notices_a_shutdown() -> None:
    recorder = Recorder()
    async with messenger(2, recorder, policy=STATELESS_SERVER) as server:
        async with messenger(1, policy=LOSSY_CLIENT) as client:
            await connected(client, server)
        await until(lambda: recorder.events == ["accept", "reset"])
        assert recorder.faults[0].reason is FaultReason.EOF
        assert server.connections == {}
