"""The asyncio messenger's services: binding, graceful ends, throttles with workers, and nothing left behind."""

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from messenger.addressing import in_order
from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.errors import FaultReason, LocalError
from messenger.inbox import Inbox
from messenger.link import Protocol
from messenger.messenger import Connection, Messenger
from messenger.session.policy import (
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATELESS_SERVER,
    PolicySet,
    ThrottleLimit,
)
from messenger.session.session import SessionState
from messenger.transport.memory import MemoryListener, MemoryNetwork
from tests.support import aio
from tests.support.aio import connected, messenger, on_loop, sockets, unchanged, until
from tests.support.node import auth_pair, numbered


def free_range(count: int) -> range:
    """Ports without a listener at present, one after the other; each worker of xdist begins at its own place."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for first in range(23000 + worker % 16 * 500, 32000, 10):
        socks = []
        try:
            for port in range(first, first + count):
                sock = socket.socket()
                socks.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return range(first, first + count)
        finally:
            for sock in socks:
                sock.close()
    raise AssertionError("no free ports")


# ---- binding


@on_loop
async def test_ports_are_taken_from_the_range_upwards() -> None:
    ports = free_range(4)
    options = {"ms_bind_port_min": ports[0], "ms_bind_port_max": ports[-1], "ms_bind_retry_delay": 0.01}
    async with (
        messenger(1, **options) as first,
        messenger(2, **options) as second,
        messenger(3, **options) as third,
    ):
        addrs = await first.bind_all("[v2:127.0.0.1:0,v2:127.0.0.1:0]")
        assert [addr.port for addr in addrs] == [ports[0], ports[1]]
        assert {addr.nonce for addr in addrs} == {first.addrs.front.nonce}
        await second.bind_all("v2:127.0.0.1")
        assert second.addrs.front.port == ports[2]
        with pytest.raises(
            LocalError, match=f"127.0.0.1:any port from {ports[0]} to {ports[-1]}: Address already"
        ):
            await third.bind_all("[v2:127.0.0.1:0,v2:127.0.0.1:0]")
        assert third.addrs.front.port == 0
        await third.bind_all("v2:127.0.0.1:0")  # what was bound before the failure is free again
        connection = await third.connect(addrs, EntityType.OSD).ready(10.0)
        assert connection.peer_addrs == first.addrs


class CountingNetwork(MemoryNetwork):
    """A network that notes at which ports messengers try to listen."""

    def __init__(self) -> None:
        super().__init__()
        self.tries: list[int] = []

    def listen(self, host: str, port: int, config: Config) -> MemoryListener:
        self.tries.append(port)
        return super().listen(host, port, config)


@on_loop
async def test_a_taken_port_is_tried_again() -> None:
    network = CountingNetwork()
    tries = network.tries
    options = {"ms_bind_retry_count": 100, "ms_bind_retry_delay": 0.01}
    async with messenger(1, transport=network) as first, messenger(2, transport=network, **options) as second:
        address = await first.bind()
        binding = asyncio.ensure_future(second.bind_all(f"v2:127.0.0.1:{address.port}"))
        await until(lambda: len(tries) >= 3)
        assert not binding.done()
        await first.shutdown()
        assert (await binding).front.port == address.port


@on_loop
async def test_without_addresses_the_options_decide_where_to_listen() -> None:
    ports = free_range(6)
    options = {"ms_bind_port_min": ports[0], "ms_bind_port_max": ports[-1], "ms_bind_msgr1": False}
    async with messenger(1, **options) as one:
        assert [str(addr.host) for addr in await one.bind_all()] == ["0.0.0.0"]
    async with messenger(1, ms_bind_ipv6=True, **options) as two:
        assert [str(addr.host) for addr in await two.bind_all()] == ["::", "0.0.0.0"]
    async with messenger(1, ms_bind_ipv6=True, ms_bind_prefer_ipv4=True, **options) as two:
        assert [str(addr.host) for addr in await two.bind_all()] == ["0.0.0.0", "::"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ms_bind_ipv4": False}, "ms_bind_ipv4 and ms_bind_ipv6 are both off"),
        ({"ms_bind_msgr1": False, "ms_bind_msgr2": False}, "ms_bind_msgr1 and ms_bind_msgr2 are both off"),
        ({"ms_bind_port_min": 9, "ms_bind_port_max": 8}, "ms_bind_port_min 9 is above ms_bind_port_max 8"),
    ],
)
def test_options_without_anything_to_bind_are_refused(options: dict[str, object], words: str) -> None:
    @on_loop
    async def bind() -> None:
        async with messenger(1, **options) as one:
            with pytest.raises(LocalError, match=words):
                await one.bind_all()

    bind()


def test_own_addresses_are_ordered_by_host_and_v2_first() -> None:
    addrs = AddrVec.parse("[v1:10.0.0.1:1/0,v2:10.0.0.2:2/0,v2:10.0.0.1:3/0,v1:10.0.0.2:4/0]")
    assert str(in_order(tuple(addrs))) == "[v2:10.0.0.1:3/0,v1:10.0.0.1:1/0,v2:10.0.0.2:2/0,v1:10.0.0.2:4/0]"


@on_loop
async def test_dials_come_from_the_bound_address_with_the_option() -> None:
    async with messenger(1, ms_bind_before_connect=True) as client, messenger(2) as server:
        await client.bind("127.0.0.3")
        await connected(client, server)
        (sock,) = sockets(client)
        assert sock.getsockname()[0] == "127.0.0.3"


@pytest.mark.parametrize("nodelay", [False, True])
def test_socket_options(nodelay: bool) -> None:  # noqa: FBT001
    @on_loop
    async def check() -> None:
        options = {"ms_tcp_nodelay": nodelay, "ms_tcp_rcvbuf": 20_000, "ms_tcp_listen_backlog": 3}
        async with messenger(1, **options) as client, messenger(2, **options) as server:
            await connected(client, server)
            for sock in (*sockets(client), *sockets(server)):
                assert bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is nodelay
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 40_000  # the kernel doubles it

    check()


@on_loop
async def test_both_protocols_on_one_messenger() -> None:
    ports = free_range(6)
    options = {"ms_bind_port_min": ports[0], "ms_bind_port_max": ports[-1]}
    inbox = Inbox()
    async with messenger(1, inbox, **options) as server, messenger(2) as client:
        addrs = await server.bind_all("[v1:127.0.0.1:0,v2:127.0.0.1:0]")
        assert [addr.type for addr in addrs] == [AddressType.MSGR2, AddressType.LEGACY]
        connection = await client.connect(addrs, EntityType.OSD).ready(10.0)
        assert Protocol.of(connection.session.target_addr) is Protocol.V2
        connection.mark_down()
        old = await client.connect(addrs.legacy_addr(), EntityType.OSD).ready(10.0)
        old.send(numbered(2))
        assert (await inbox.get(5.0))[1].tid == 2
    async with messenger(1, **options) as server:
        assert [addr.type for addr in await server.bind_all()] == [AddressType.MSGR2, AddressType.LEGACY]


# ---- the end


@on_loop
async def test_graceful_shutdown_reports_queued_messages() -> None:
    """SH-01 over sockets."""
    inbox = Inbox()
    client, server = (messenger(1, policy=LOSSLESS_PEER_REUSE), messenger(2, inbox, policy=LOSSLESS_PEER_REUSE))
    async with client, server:
        connection = await connected(client, server)
        for number in range(200):
            connection.send(numbered(number, 50_000))
        await client.shutdown(graceful=True)
        assert connection.state is SessionState.CLOSED
        assert client.connections == {}
        for number in range(200):
            _, message = await inbox.get(5.0)
            assert message.tid == number


@on_loop
async def test_connection_ends_gracefully_and_the_messenger_continues() -> None:
    inbox = Inbox()
    async with messenger(1, policy=LOSSY_CLIENT) as client, messenger(2, inbox, policy=STATELESS_SERVER) as server:
        connection = await connected(client, server)
        connection.send(numbered(1))
        await connection.shutdown()
        await connection.shutdown()
        assert connection.last_fault is not None
        assert connection.last_fault.reason is FaultReason.SHUTDOWN
        again = await client.connect(server.addrs, EntityType.OSD).ready(10.0)
        again.send(numbered(2))
        assert [(await inbox.get(5.0))[1].tid for _ in range(2)] == [1, 2]


@on_loop
async def test_a_graceful_shutdown_does_not_wait_for_ever() -> None:
    async with messenger(1, policy=LOSSLESS_PEER, ms_shutdown_timeout=0.05) as client:
        async with messenger(2, policy=LOSSLESS_PEER) as server:
            connection = await connected(client, server)
        connection.send(numbered(1))
        await client.shutdown(graceful=True)
        assert connection.state is SessionState.CLOSED


@pytest.mark.parametrize("workers", [0, 1])
def test_graceful_shutdown_that_is_cancelled_closes_everything(workers: int) -> None:
    @on_loop
    async def live() -> None:
        server = messenger(2, Inbox(), policy=LOSSLESS_PEER, ms_dispatch_throttle_bytes=1)
        client = messenger(1, policy=LOSSLESS_PEER)
        async with server:
            connection = await connected(client, server)
            for number in range(2):
                connection.send(numbered(number, 1000))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.shutdown(graceful=True)
            assert client.endpoint.is_shut
            assert connection.state is SessionState.CLOSED
            assert (client.connections, client._links, client._workers) == ({}, {}, [])

    token = aio.workers.set(workers)
    try:
        live()
    finally:
        aio.workers.reset(token)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("graceful", [False, True])
def test_shutdown_leaves_no_socket_task_timer_or_thread(workers: int, graceful: bool) -> None:  # noqa: FBT001
    """No socket, task, timer or thread, whatever was going on."""

    @on_loop
    async def live() -> None:
        loop = asyncio.get_running_loop()

        def census() -> tuple[int, int, int, int]:
            timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
            watched = len(loop._selector.get_map())  # type: ignore[attr-defined]
            return len([*Path("/proc/self/fd").iterdir()]), watched, len(timers), threading.active_count()

        before = census()
        name = EntityName(EntityType.OSD, 1)
        auth_client, auth_server = auth_pair("cephx", name)
        client = Messenger(
            name,
            auth_client=auth_client,
            auth_server=auth_server,
            policies=PolicySet(LOSSLESS_PEER),
            config=Config.only_mode(ConMode.CRC, ms_shutdown_timeout=0.2),
            workers=workers,
        )
        inbox = Inbox()
        server = messenger(2, inbox)
        await client.bind()
        connection = await connected(client, server)
        connection.keep_alive(0.01)
        client.loopback.send(numbered(1))
        client.connect("v2:127.0.0.1:1/1", EntityType.OSD)  # refused, again and again
        client.connect("v2:192.0.2.1:1/1", EntityType.OSD)  # no host answers
        half = socket.create_connection((client.addrs.front.host, client.addrs.front.port))
        for number in range(100):
            connection.send(numbered(number, 100_000))
        await until(lambda: inbox)
        await client.shutdown(graceful=graceful)
        await server.shutdown(graceful=graceful)
        half.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert census() == before
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    live()


# ---- with workers


def throttled(workers: int, inbox: Dispatcher, limit: int) -> Messenger:
    name = EntityName(EntityType.OSD, 2)
    auth_client, auth_server = auth_pair("cephx", name)
    policy = LOSSLESS_PEER.throttled(
        messages=ThrottleLimit("osd_client_messages", limit), size_bytes=ThrottleLimit("osd_client_bytes", 0)
    )
    return Messenger(
        name,
        auth_client=auth_client,
        auth_server=auth_server,
        dispatcher=inbox,
        policies=PolicySet(policy),
        config=Config.only_mode(ConMode.CRC),
        workers=workers,
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_policies_throttle_wherever_data_phases_run(workers: int) -> None:
    @on_loop
    async def traffic() -> None:
        inbox = Inbox()
        async with messenger(1) as first, messenger(3) as other, throttled(workers, inbox, 4) as server:
            connections = [await connected(first, server)]
            connections.append(await other.connect(server.addrs, EntityType.OSD).ready(10.0))
            for number in range(100):
                for connection in connections:
                    connection.send(numbered(number, 100))
            throttle = "throttle-osd_client_messages"
            # each link has asked in vain; a throttle is there once a link has asked at all
            await until(lambda: server.perf_dump().get(throttle, {}).get("get_or_fail_fail", 0) >= 2)
            await until(lambda: len(inbox) >= 4)
            await unchanged(lambda: len(inbox))
            assert len(inbox) == 4
            seen: dict[object, list[int]] = {}
            for _ in range(200):
                connection_, message = await inbox.get(10.0)
                seen.setdefault(connection_, []).append(message.tid)
            assert sorted(seen.values()) == [list(range(100))] * 2
            await until(lambda: server.perf_dump()["throttle-osd_client_messages"]["val"] == 0)
            dump = server.perf_dump()
            assert dump["throttle-osd_client_messages"]["get"] == 200
            assert sum(group["msgr_recv_messages"] for name, group in dump.items() if "Worker" in name) == 200
            assert "ceph_AsyncMessenger_Worker_msgr_recv_messages" in server.prometheus()

    traffic()


@on_loop
async def test_workers_are_waited_for_in_a_graceful_end() -> None:
    inbox = Inbox()
    async with throttled(2, Inbox(), 0) as client, messenger(1, inbox) as server:
        connection = await connected(client, server)
        assert isinstance(connection, Connection)
        for number in range(100):
            connection.send(numbered(number, 50_000))
        await connection.shutdown()
        for number in range(100):
            _, message = await inbox.get(5.0)
            assert message.tid == number


@pytest.mark.parametrize("workers", [0, 2])
def test_messages_to_oneself_are_kept_and_released(workers: int) -> None:
    @on_loop
    async def traffic() -> None:
        inbox = Inbox()
        async with throttled(workers, inbox, 1) as alone:
            for number in range(10):
                alone.loopback.send(numbered(number, 100))
            for number in range(10):
                connection, message = await inbox.get(5.0)
                assert connection is alone.loopback
                assert message.tid == number
            assert await alone.loopback.ready() is alone.loopback  # type: ignore[attr-defined]
            assert alone.endpoint.snapshot()["dispatch_bytes"] == 0

    traffic()
