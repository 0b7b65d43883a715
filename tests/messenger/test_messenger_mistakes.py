"""The asyncio messenger in careless hands, and on a machine whose clock is set."""

import asyncio
import errno
import gc
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from messenger.cephx.none import NoneClient
from messenger.config import Config
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.errors import FaultError, FaultReason, LocalError
from messenger.inbox import Inbox
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.messenger import Connection, Messenger
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER, PolicySet
from messenger.session.session import SessionState
from messenger.transport.tcp import TcpStream, TcpTransport
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
        ({"auth_client": NoneClient}, "auth_client is the class NoneClient: give a CephxClient or a NoneClient"),
        ({"workers": "2"}, "workers is of type str: give a number of threads"),
        ({"workers": 1.5}, "workers is of type float: give a number of threads"),
        ({"nonce": 1.5}, "nonce is of type float: give a number of 32 bits"),
        ({"rng": 7}, "rng is of type int: give a generator"),
        ({"route": ("127.0.0.1", 6800)}, "route is of type tuple: give a function"),
        ({"trace": []}, "trace is of type list: give a function"),
        (
            {"interceptor": print},
            "interceptor is of type builtin_function_or_method: give an object with a method",
        ),
        ({"key_log": b"keys"}, "key_log is of type bytes: give a path or a function"),
        ({"transport": "tcp"}, "transport is of type str: give a Transport"),
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


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((None,), "host is of type NoneType: give an IP address"),
        (("127.0.0.1\0",), "cannot listen on '127.0.0.1.x00': give an IP address"),
        (("ü" * 70,), "give an IP address"),
        (("127.0.0.1", "6800"), "port is of type str: give a number from 0 to 65535"),
        (("127.0.0.1", 0, "v2"), "protocol is of type str: give Protocol.V1 or Protocol.V2"),
    ],
)
@on_loop
async def test_a_place_to_listen_of_another_type_is_refused(arguments: tuple[object, ...], hint: str) -> None:
    async with messenger(1) as server:
        with pytest.raises(LocalError, match=hint):
            await server.bind(*arguments)  # type: ignore[arg-type]
        assert server._listeners == []


@pytest.mark.parametrize(
    ("addrs", "hint"),
    [
        (["v2:127.0.0.1:0"], "addrs is of type list: give text such as"),
        ("-", "- has no IP address to listen on"),
        (EntityAddr.blank(AddressType.MSGR2, 1), "has no IP address to listen on"),
    ],
)
@on_loop
async def test_addresses_to_listen_on_name_an_ip(addrs: object, hint: str) -> None:
    async with messenger(1) as server:
        with pytest.raises(LocalError, match=hint):
            await server.bind_all(addrs)  # type: ignore[arg-type]
        assert server._listeners == []
        assert len(await server.bind_all(EntityAddr.from_host("127.0.0.1", 0))) == 1


@on_loop
async def test_shutdown_during_the_pause_of_a_bind_leaves_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = messenger(1, ms_bind_retry_delay=0.05, ms_bind_retry_count=200)
        binding = asyncio.ensure_future(server.bind_all(f"v2:127.0.0.1:{port}"))
        await asyncio.sleep(0)
        await server.shutdown()
    with pytest.raises(LocalError, match="this messenger has been shut down"):
        await binding
    with socket.create_server(("127.0.0.1", port)):  # nobody listens there
        pass


@pytest.mark.parametrize("timeout_s", [float("nan"), "5"])
@on_loop
async def test_a_time_that_is_no_number_is_refused(timeout_s: object) -> None:
    """NaN would put the loop's timers out of order, and those of the whole program would fire late or never."""
    inbox = Inbox()
    async with messenger(1) as client, messenger(2, inbox) as server:
        connection = await connected(client, server)
        for call in (connection.ready, inbox.get):
            with pytest.raises(LocalError, match=r"timeout_s = .*: give a number of seconds"):
                await call(timeout_s)  # type: ignore[arg-type]
        for times in ((timeout_s, 1.0), (1.0, timeout_s)):
            with pytest.raises(LocalError, match=r"_s = .*: give a number of seconds"):
                connection.keep_alive(*times)  # type: ignore[arg-type]
        assert client.endpoint.keepalives == {}


@on_loop
async def test_shutdown_on_another_loop_is_refused_and_changes_nothing() -> None:
    async with messenger(1) as client, messenger(2) as server:
        connection = await connected(client, server)
        for call in (client.shutdown, client.bind, client.bind_all):
            with pytest.raises(LocalError, match="called on another event loop than the messenger's"):
                await asyncio.to_thread(asyncio.run, call())
        assert connection.is_connected


def test_messenger_of_a_closed_loop_is_refused() -> None:
    """Each ``asyncio.run`` has a loop of its own, which ends with it."""

    async def left_open() -> tuple[Messenger, Connection]:
        client = messenger(1)
        return client, client.connect("v2:127.0.0.1:1/1", EntityType.OSD)

    token = aio.workers.set(0)
    client, connection = asyncio.run(left_open())
    aio.workers.reset(token)
    for call in (lambda: connection.send(numbered(1)), lambda: asyncio.run(connection.ready())):
        with pytest.raises(LocalError, match="the messenger's event loop is closed"):
            call()
    with pytest.raises(LocalError, match="called on another event loop than the messenger's"):
        asyncio.run(client.shutdown())


class Deferring(Dispatcher):
    """Returns a task, which is true, from its callback."""

    async def _later(self) -> None:
        pass

    def ms_dispatch(self, _connection: CoreConnection, _message: Message) -> object:  # type: ignore[override]
        return asyncio.ensure_future(self._later())


@on_loop
async def test_a_dispatcher_that_returns_an_object_keeps_no_message() -> None:
    """Else the messages would fill the throttle, and the connection would stop."""
    reported = reports()
    async with messenger(1) as client, messenger(2, Deferring()) as server:
        connection = await connected(client, server)
        connection.send(numbered(1, 100))
        await until(lambda: reported)
        await until(lambda: not connection.session.queue.sent)
        assert server.endpoint.snapshot()["dispatch_bytes"] == 0
    assert reported == ["a dispatcher returned a Task: give True to keep the message, or None"]


@on_loop
async def test_release_on_another_connection_leaves_the_message_held() -> None:
    class Keeping(Dispatcher):
        def __init__(self) -> None:
            self.kept: list[tuple[CoreConnection, Message]] = []

        def ms_dispatch(self, connection: CoreConnection, message: Message) -> bool:
            self.kept.append((connection, message))
            return True

    keeping = Keeping()
    async with messenger(1) as client, messenger(2, keeping) as server:
        connection = await connected(client, server)
        connection.send(numbered(1, 100))
        await until(lambda: keeping.kept)
        receiver, message = keeping.kept[0]
        with pytest.raises(LocalError, match="message is of type NoneType"):
            receiver.release(None)  # type: ignore[arg-type]
        if not aio.workers.get():
            with pytest.raises(LocalError, match="released where 0 are held"):
                connection.release(message)
        receiver.release(message)
        await until(lambda: server.endpoint.snapshot()["dispatch_bytes"] == 0)


@on_loop
async def test_shutdown_of_an_ended_connection_keeps_its_fault() -> None:
    async with messenger(1) as client:
        connection = client.connect("v2:127.0.0.1:1/1", EntityType.OSD)
        connection.mark_down()
        await connection.shutdown()
        await asyncio.sleep(0)
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.MARKED_DOWN


def highest_descriptor() -> int:
    return max(int(file.name) for file in Path("/proc/self/fd").iterdir())


@on_loop
async def test_workers_that_cannot_be_started_leave_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest_descriptor() + 8, hard))
        monkeypatch.setattr("sys.unraisablehook", lambda _error: None)  # of the loop that asyncio left half made
        with pytest.raises(LocalError, match=r"workers=200: only .* could be started: .*Too many open files"):
            Messenger(workers=200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.collect()
    assert threading.active_count() == before


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
            assert (connection._waiters, connection.session.awaited) == ([], 0)


class Unreachable(TcpTransport):
    """A network without a route to any peer."""

    def __init__(self) -> None:
        self.dials = 0

    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> TcpStream:
        self.dials += 1
        raise OSError(errno.EHOSTUNREACH, "No route to host")


@on_loop
async def test_waiting_dials_again_and_names_the_last_fault() -> None:
    network = Unreachable()
    async with messenger(1, policy=LOSSLESS_PEER, transport=network, ms_initial_backoff=0.01) as client:
        connection = client.connect("v2:10.0.0.1:6800/1", EntityType.OSD)
        waiting = asyncio.ensure_future(connection.ready(0.5))
        await until(lambda: network.dials > 2)
        with pytest.raises(TimeoutError, match=r"not READY after 0.5 s: socket error .* No route to host$"):
            await waiting
        await until(lambda: connection.state is SessionState.STANDBY)


class HangUp(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.close()


@on_loop
async def test_peer_that_closes_every_dial_ends_the_wait() -> None:
    server = await asyncio.get_running_loop().create_server(HangUp, "127.0.0.1", 0)
    address = f"v2:127.0.0.1:{server.sockets[0].getsockname()[1]}/1"
    async with server, messenger(1, policy=LOSSLESS_PEER, ms_initial_backoff=0.01) as client:
        with pytest.raises(FaultError, match="peer closed the connection"):
            await client.connect(address, EntityType.OSD).ready(10.0)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (None, "cannot unpack non-iterable NoneType object"),
        (("127.0.0.1", 70000), "cannot dial 127.0.0.1:70000: a port is 0 to 65535"),
        ((None, 6800), "host is of type NoneType: give an IP address"),
        (("a\0b", 6800), "cannot dial 'a.x00b': give an IP address"),
    ],
)
@on_loop
async def test_a_route_to_no_place_is_a_dial_that_fails(place: Any, why: str) -> None:
    reported = reports()
    async with messenger(1, route=lambda _addr: place, policy=LOSSY_CLIENT) as client:
        connection = client.connect("v2:127.0.0.1:1/1", EntityType.OSD)
        await until(lambda: connection.last_fault)
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.LOCAL
        assert re.search(why, connection.last_fault.detail)
        assert re.search(why, reported[0])


class BrokenTransport(TcpTransport):
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> TcpStream:
        raise KeyError("no such transport")


@on_loop
async def test_a_transport_that_raises_is_a_dial_that_fails() -> None:
    reported = reports()
    async with messenger(1, transport=BrokenTransport(), policy=LOSSY_CLIENT) as client:
        connection = client.connect("v2:127.0.0.1:1/1", EntityType.OSD)
        await until(lambda: connection.last_fault)
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.LOCAL
    assert reported[0] == "'no such transport'"


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
