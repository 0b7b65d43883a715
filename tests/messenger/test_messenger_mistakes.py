"""The asyncio messenger in careless hands, and on a machine whose clock is set."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.errors import FaultError, FaultReason, LocalError
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.messenger import Inbox, Messenger
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, STATELESS_SERVER, PolicySet
from messenger.session.session import SessionState
from tests.support import aio
from tests.support.aio import connected, messenger, on_loop, until
from tests.support.node import auth_pair, numbered


@pytest.fixture(params=[0, 1], ids=["one loop", "workers"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    token = aio.workers.set(request.param)
    yield
    aio.workers.reset(token)


def reports() -> list[str]:
    """Exceptions reported to the loop from here on."""
    errors: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: errors.append(str(context["exception"]))
    )
    return errors


@on_loop
async def test_to_listen_takes_policies_for_the_peers() -> None:
    name = EntityName(EntityType.OSD, 1)
    _, server = auth_pair("none", name)
    async with Messenger(name, auth_server=server) as without:
        with pytest.raises(LocalError, match="has no policies for its peers; give policies=PolicySet"):
            await without.bind()
        with pytest.raises(LocalError, match="has no policies for its peers"):
            await without.bind_all("v2:127.0.0.1:0")
    async with Messenger(name, auth_server=server, policies=PolicySet(STATELESS_SERVER)) as chosen:
        await chosen.bind()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"name": "osd.1"}, "name is of type str: give an EntityName"),
        ({"auth_client": "AQBverysecretkey=="}, "auth_client is of type str: give a CephxClient or a NoneClient"),
        ({"auth_server": "none"}, "auth_server is of type str: give an AuthServer"),
        ({"policies": STATELESS_SERVER}, "policies is of type Policy: give a PolicySet"),
        ({"config": {"ms_initial_backoff": 1}}, "config is of type dict: give a Config"),
        ({"dispatcher": print}, "is no dispatcher: derive its class from messenger.Dispatcher"),
    ],
)
@on_loop
async def test_an_argument_of_another_type_is_refused(arguments: dict[str, object], hint: str) -> None:
    with pytest.raises(LocalError, match=hint):
        Messenger(**arguments)  # type: ignore[arg-type]


def test_a_messenger_is_made_on_an_event_loop() -> None:
    with pytest.raises(LocalError, match="a messenger lives on an event loop: make it in a coroutine"):
        Messenger()


@on_loop
async def test_a_dial_of_another_type_is_refused_and_leaves_nothing_behind() -> None:
    async with messenger(1) as client, messenger(2) as server:
        addr = await server.bind()
        for arguments, hint in (
            ((addr, "osd"), "peer_type is of type str: give an EntityType"),
            ((addr, EntityType.OSD, "lossy_client"), "policy is of type str: give a Policy"),
            ((("127.0.0.1", 6800), EntityType.OSD), "addrs is of type tuple: give text such as"),
        ):
            with pytest.raises(LocalError, match=hint):
                client.connect(*arguments)
        await client.connect(addr, EntityType.OSD).ready(10)


@pytest.mark.parametrize("message", ["hello", b"hello", None])
@on_loop
async def test_send_refuses_objects_that_are_no_message(message: object) -> None:
    async with messenger(1) as client, messenger(2) as server:
        connection = await connected(client, server)
        with pytest.raises(LocalError, match="cannot be sent: give a Message or a payload"):
            connection.send(message)  # type: ignore[arg-type]
        assert connection.is_connected


@on_loop
async def test_sending_from_another_thread_is_refused() -> None:
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        with pytest.raises(LocalError, match="another thread than the messenger's"):
            await asyncio.to_thread(connection.send, Message(MessageType.PING, tid=1))
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(loop.call_soon_threadsafe, connection.send, Message(MessageType.PING, tid=2))
        _, message = await inbox.get(10)
        assert message.tid == 2


class Awaited(Dispatcher):
    async def ms_handle_connect(self, connection: CoreConnection) -> None:  # type: ignore[override]
        pytest.fail("never awaited")


@on_loop
async def test_a_dispatcher_of_coroutines_is_refused() -> None:
    hint = "Awaited.ms_handle_connect is a coroutine function"
    with pytest.raises(LocalError, match=hint):
        Messenger(dispatcher=Awaited())
    async with messenger(1) as client:
        before = client.dispatcher
        for add in (client.add_dispatcher_head, client.add_dispatcher_tail):
            with pytest.raises(LocalError, match=hint):
                add(Awaited())
        with pytest.raises(LocalError, match=hint):
            client.dispatcher = Awaited()
        assert client.dispatcher is before


@pytest.mark.parametrize("port", [-1, 65536])
@on_loop
async def test_a_port_is_one_of_16_bits(port: int) -> None:
    async with messenger(1) as server:
        with pytest.raises(LocalError, match=f"cannot listen on 127.0.0.1:{port}: a port is 0 to 65535"):
            await server.bind("127.0.0.1", port)


@on_loop
async def test_a_messenger_that_was_shut_down_does_nothing_more() -> None:
    async with messenger(1) as client, messenger(2) as server:
        connection = await connected(client, server)
        await asyncio.gather(client.shutdown(), client.shutdown())
        await client.shutdown()
        for call in (client.bind, client.bind_all):
            with pytest.raises(LocalError, match="this messenger has been shut down"):
                await call()
        with pytest.raises(LocalError, match="this messenger has been shut down"):
            client.connect("v2:127.0.0.1:1/1", EntityType.OSD)
        with pytest.raises(LocalError, match="this messenger has been shut down"):
            await client.__aenter__()
        connection.keepalive()
        connection.wake()
        connection.mark_down()
        connection.begin_shutdown()
        await connection.shutdown()
        with pytest.raises(FaultError, match="messenger shut down"):
            await connection.ready(1.0)


@on_loop
async def test_received_messages_can_be_read_after_the_shutdown() -> None:
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        for tid in range(6):
            connection.send(numbered(tid, 100))
        await until(lambda: len(inbox) == 6)
        tids = [(await inbox.get())[1].tid for _ in range(2)]
        ending = asyncio.create_task(server.shutdown())
        for _ in range(2):
            await asyncio.sleep(0)
            tids.append((await inbox.get())[1].tid)
        await ending
        tids += [(await inbox.get())[1].tid for _ in range(2)]
    assert tids == [0, 1, 2, 3, 4, 5]


@on_loop
async def test_wait_for_a_session_in_standby_wakes_it() -> None:
    async with messenger(1, policy=LOSSLESS_PEER) as client, messenger(2, policy=LOSSLESS_PEER) as server:
        connection = await connected(client, server)
        server.mark_down_all()
        await until(lambda: connection.state is SessionState.STANDBY)
        await connection.ready(10.0)
        assert connection.state is SessionState.READY


@on_loop
async def test_waiting_in_vain_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with messenger(1) as client:
            connection = client.connect(f"v2:127.0.0.1:{silent.getsockname()[1]}/1", EntityType.OSD)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await connection.ready(0.01)
            assert connection._waiters == []


@on_loop
async def test_a_route_that_raises_is_a_dial_that_fails() -> None:
    reported = reports()
    broken = [True]

    def route(addr: EntityAddr) -> tuple[str, int]:
        if broken[0]:
            raise KeyError("no route")
        return addr.host, addr.port

    async with (
        messenger(1, route=route, policy=LOSSLESS_CLIENT, ms_initial_backoff=0.01) as client,
        messenger(2, policy=STATELESS_SERVER) as server,
    ):
        connection = client.connect(await server.bind(), EntityType.OSD)
        await until(lambda: reported)
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.LOCAL
        broken[0] = False
        await connection.ready(10.0)
    assert set(reported) == {"'no route'"}


class Tids(Dispatcher):
    """Remembers the tids of what came."""

    def __init__(self) -> None:
        self.tids: list[int] = []

    def ms_dispatch(self, _connection: CoreConnection, message: Message) -> None:
        self.tids.append(message.tid)


@on_loop
async def test_a_message_that_was_spoilt_after_it_was_sent_is_reported() -> None:
    reported, inbox = reports(), Tids()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        spoilt = numbered(1)
        connection.send(spoilt)
        spoilt.data = "text"  # type: ignore[assignment]
        connection.send(numbered(2))
        await until(lambda: inbox.tids == [2])
        await until(lambda: reported)
        assert "cannot be sent: TypeError: a bytes-like object is required, not 'str'" in reported[0]


@on_loop
async def test_fatal_message_is_reported_to_the_loop_of_the_application() -> None:
    reported = reports()
    async with messenger(1) as client, messenger(2, ms_die_on_bad_msg=True) as server:
        connection = await connected(client, server)
        connection.send(Message(MessageType.MON_MAP, front=b"no map"))
        await until(lambda: reported)
    assert reported[0].startswith("ms_die_on_bad_msg: ")


@pytest.mark.parametrize("loops", [1], ids=["workers"], indirect=True)
@on_loop
async def test_report_of_a_worker_has_only_message_and_exception() -> None:
    """From Python 3.12 on, the home loop would report it in a context that the worker's thread is in."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    async with messenger(1) as client, messenger(2, ms_die_on_bad_msg=True) as server:
        connection = await connected(client, server)
        connection.send(Message(MessageType.MON_MAP, front=b"no map"))
        await until(lambda: reported)
    assert reported[0].keys() == {"message", "exception"}


@on_loop
async def test_a_recorder_that_fails_is_reported_and_loses_no_message() -> None:
    """The disk is full for one record of a frame."""
    reported, inbox = reports(), Tids()
    armed: list[str] = []

    def record(line: TraceRecord) -> None:
        if line.kind in armed:
            armed.clear()
            raise OSError(28, "No space left on device")

    async with messenger(1) as client, messenger(2, inbox, trace=record) as server:
        connection = await connected(client, server)
        armed.append("frame")
        for tid in range(1, 6):
            connection.send(numbered(tid, 100))
        await until(lambda: inbox.tids == [1, 2, 3, 4, 5])
        await until(lambda: not connection.session.queue.sent)
        assert reported == ["[Errno 28] No space left on device"]


@on_loop
async def test_listener_on_every_ip_can_be_dialled_at_each() -> None:
    async with messenger(2, policy=STATELESS_SERVER) as server:
        address = await server.bind("0.0.0.0")
        for host in ("127.0.0.1", "127.0.0.2"):
            async with messenger(1, policy=LOSSLESS_CLIENT) as client:
                target = address.with_ip_of(EntityAddr.from_host(host, 1))
                connection = await client.connect(target, EntityType.OSD).ready(10.0)
                assert str(connection.peer_addrs) == str(target)


@on_loop
async def test_tickets_are_judged_by_the_present_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was two days ahead when the server started, and has been set right since."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 2 * 86400)
    async with messenger(2, policy=STATELESS_SERVER) as server:
        address = await server.bind()
        monkeypatch.setattr(time, "time", real)
        monkeypatch.setattr("messenger.messenger._CLOCK_LOOK_S", 0.0)
        server._clock_due_s = 0.0
        async with messenger(1, policy=LOSSLESS_CLIENT) as client:
            await client.connect(address, EntityType.OSD).ready(10.0)
        assert abs(server.endpoint.wall_time_s(time.monotonic()) - real()) < 60
