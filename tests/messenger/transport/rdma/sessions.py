"""Sessions of two messengers on two soft-RoCE devices, for a machine that has these."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.connection import Connection as CoreConnection
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.errors import Fault, FaultReason
from messenger.messages.message import Message
from messenger.messenger import Connection, Messenger
from messenger.protocols import Protocol
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, STATEFUL_SERVER, Policy
from messenger.session.session import SessionState
from messenger.transport.base import Stream
from messenger.transport.rdma.stream import RdmaStream
from messenger.transport.rdma.transport import RdmaTransport
from tests.messenger.transport.rdma import devices
from tests.support import aio
from tests.support.aio import messenger, on_loop, until
from tests.support.node import numbered

CLIENT, SERVER = devices.HOSTS
SIZES_BYTES = (0, 1, 1000, 4096, 70_000, 131_072, 200_000)
_RETRY_S = 0.05


@dataclass
class Recorder(Dispatcher):
    """Keeps what has arrived."""

    received: list[tuple[int, bytes]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
        self.received.append((message.tid, bytes(message.data)))

    def ms_handle_remote_reset(self, connection: CoreConnection, fault: Fault) -> None:
        self.events.append("remote reset")

    @property
    def tids(self) -> list[int]:
        """Numbers of the messages, in the order of arrival."""
        return [tid for tid, _ in self.received]


def node(
    device: str,
    recorder: Recorder,
    *,
    mode: ConMode = ConMode.CRC,
    policy: Policy = LOSSLESS_PEER,
    **options: object,
) -> Messenger:
    """A messenger on one of the two devices."""
    return messenger(
        1 if device == CLIENT else 2,
        recorder,
        mode=mode,
        policy=policy,
        ms_async_rdma_device_name=device,
        ms_bind_before_connect=True,  # the routes are chosen by the source
        ms_initial_backoff=_RETRY_S,
        ms_connection_ready_timeout=aio.CONDITION_TIMEOUT_S,
        **devices.OPTIONS,
        **options,
    )


@asynccontextmanager
async def two(
    mode: ConMode = ConMode.CRC, protocol: Protocol = Protocol.V2, **options: object
) -> AsyncIterator[tuple[Messenger, Connection, Recorder, Messenger, Recorder]]:
    """A client with a connection to a server, both lossless peers."""
    mine, theirs = Recorder(), Recorder()
    async with (
        node(CLIENT, mine, mode=mode, **options) as client,
        node(SERVER, theirs, mode=mode, **options) as server,
    ):
        await client.bind(devices.HOSTS[CLIENT], 0, protocol)
        address = await server.bind(devices.HOSTS[SERVER], 0, protocol)
        connection = await client.connect(address, EntityType.OSD).ready(aio.CONDITION_TIMEOUT_S)
        yield client, connection, mine, server, theirs


def streams(node: Messenger) -> list[RdmaStream]:
    """The streams of a messenger's links."""
    found = [link.stream for link in node._links.values()]
    assert all(isinstance(stream, RdmaStream) for stream in found)
    return found  # type: ignore[return-value]


async def traffic(mode: ConMode, protocol: Protocol) -> None:
    """Messages of all sizes pass both ways as they are, in packets over the pair of interfaces."""
    before = {name: devices.packets(name) for name in devices.HOSTS}
    async with two(mode, protocol) as (_, connection, mine, server, theirs):
        expected = [(number, bytes(numbered(number, size).data)) for number, size in enumerate(SIZES_BYTES)]
        for number, size_bytes in enumerate(SIZES_BYTES):
            connection.send(numbered(number, size_bytes))
        await until(lambda: len(theirs.received) == len(SIZES_BYTES))
        (back,) = server.connections.values()
        for number, size_bytes in enumerate(SIZES_BYTES):
            back.send(numbered(number, size_bytes))
        await until(lambda: len(mine.received) == len(SIZES_BYTES))
        assert theirs.received == mine.received == expected
    for name in devices.HOSTS:
        assert devices.packets(name) - before[name] > sum(SIZES_BYTES) // 1024


async def a_cut_queue_pair_is_replaced_and_nothing_is_lost() -> None:
    async with two() as (client, connection, _, server, theirs):
        number = 0
        for end in client, server, client:
            faults = sum(client.endpoint.counters.faults.values())
            for _ in range(20):
                connection.send(numbered(number, 20_000))
                number += 1
            await asyncio.sleep(0)  # some are on their way
            for stream in streams(end):
                stream.pair.fail()
            await until(lambda faults=faults: sum(client.endpoint.counters.faults.values()) > faults)  # type: ignore[misc]
            await connection.ready(aio.CONDITION_TIMEOUT_S)
            await until(lambda count=number: len(theirs.received) >= count)  # type: ignore[misc]
        assert theirs.tids == list(range(number))
        assert set(client.endpoint.counters.faults) == {FaultReason.SOCKET}


async def a_session_in_standby_wakes_with_the_next_message() -> None:
    async with two() as (_, connection, _, server, theirs):
        connection.send(numbered(1))
        await until(lambda: theirs.tids == [1])
        for stream in streams(server):
            stream.pair.fail()
        await until(lambda: connection.state is SessionState.STANDBY)
        connection.send(numbered(2))
        await until(lambda: theirs.tids == [1, 2])
        assert connection.state is SessionState.READY


async def a_server_that_comes_back_resets_the_session() -> None:
    mine, theirs = Recorder(), Recorder()
    async with node(CLIENT, mine, policy=LOSSLESS_CLIENT) as client:
        await client.bind(devices.HOSTS[CLIENT])
        async with node(SERVER, Recorder(), policy=STATEFUL_SERVER) as server:
            address = await server.bind(devices.HOSTS[SERVER])
            connection = await client.connect(address, EntityType.OSD).ready(aio.CONDITION_TIMEOUT_S)
        again = node(SERVER, theirs, policy=STATEFUL_SERVER)
        again._nonce = address.nonce
        async with again as server:
            await server.bind(devices.HOSTS[SERVER], address.port)
            await until(lambda: mine.events == ["remote reset"])
            connection.send(numbered(5))
            await until(lambda: theirs.tids == [5])


async def packets_that_are_lost_are_sent_again_by_the_device() -> None:
    async with two() as (client, connection, mine, server, theirs):
        (back,) = server.connections.values()
        devices.tc("add", "dev", "va", "root", "netem", "loss", "10%")
        try:
            for number in range(10):
                connection.send(numbered(number, 20_000))
                back.send(numbered(number, 20_000))
            await until(lambda: len(theirs.received) == len(mine.received) == 10)
            shown = devices.tc("show", "dev", "va")
        finally:
            devices.tc("del", "dev", "va", "root")
        assert theirs.tids == mine.tids == list(range(10))
        assert "dropped 0," not in shown
        assert client.endpoint.counters.faults == server.endpoint.counters.faults == {}


async def threads_run_the_open_connections() -> None:
    token = aio.workers.set(1)
    try:
        await traffic(ConMode.CRC, Protocol.V2)
    finally:
        aio.workers.reset(token)


async def what_the_devices_lack_is_named() -> None:
    transport = RdmaTransport()
    for option, value, detail in (
        ("ms_async_rdma_device_name", "mlx5_0", "no RDMA device mlx5_0: there are rxe0, rxe1"),
        ("ms_async_rdma_port_num", 2, "RDMA device rxe0"),
        ("ms_async_rdma_gid_idx", 250, r"RDMA device rxe0 has no address \(GID\) 250"),
        ("ms_async_rdma_send_buffers", 7, "7 RDMA buffers are in use, 8 of them by each connection"),
    ):
        config = Config(**devices.OPTIONS | {option: value})  # type: ignore[arg-type]
        with pytest.raises(OSError, match=detail):
            transport.listen(devices.HOSTS[CLIENT], 0, config)


async def streams_that_linger_when_their_loop_ends_free_the_device() -> None:
    """The garbage collector destroys their queue pairs: a stream and its timer refer to each other."""
    complaints: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda args: complaints.append(repr(args.exc_value)))
        await asyncio.to_thread(_end_a_loop_while_streams_linger)
        gc.collect()
    assert (complaints, devices.opened()) == ([], 0), complaints


def _end_a_loop_while_streams_linger() -> None:
    loop = asyncio.new_event_loop()
    for stream in loop.run_until_complete(_pair_of_streams()):
        stream.write([b"x"])
        stream.close()
    loop.close()


async def _pair_of_streams() -> list[Stream]:
    transport = RdmaTransport()
    host = devices.HOSTS[CLIENT]
    listener = transport.listen(host, 0, Config(**devices.OPTIONS))  # type: ignore[arg-type]
    accepted: list[Stream] = []
    listener.start(accepted.append, lambda _detail: False)
    dialled = await transport.dial(host, listener.addr.port, Config(**devices.OPTIONS))  # type: ignore[arg-type]
    await until(lambda: accepted)
    listener.close()
    return [dialled, *accepted]


async def a_port_that_goes_down_faults_its_links() -> None:
    """The last one: it leaves the port as it is."""
    async with two() as (client, _, _, server, _):
        devices.ip("link", "set", "va", "down")
        await until(lambda: client.endpoint.counters.faults and server.endpoint.counters.faults)
        (session,) = client.endpoint.sessions
        await until(lambda: "RDMA device rxe0" in str(session.last_fault))


CHECKS: dict[str, Callable[[], Coroutine[None, None, None]]] = {
    **{
        f"traffic {name}": partial(traffic, mode, protocol)
        for name, mode, protocol in (
            ("v1", ConMode.CRC, Protocol.V1),
            ("v2 crc", ConMode.CRC, Protocol.V2),
            ("v2 secure", ConMode.SECURE, Protocol.V2),
        )
    },
    **{
        check.__name__.replace("_", " "): check
        for check in (
            threads_run_the_open_connections,
            a_cut_queue_pair_is_replaced_and_nothing_is_lost,
            a_session_in_standby_wakes_with_the_next_message,
            a_server_that_comes_back_resets_the_session,
            packets_that_are_lost_are_sent_again_by_the_device,
            what_the_devices_lack_is_named,
            streams_that_linger_when_their_loop_ends_free_the_device,
            a_port_that_goes_down_faults_its_links,
        )
    },
}
"""By name, in the order in which they must run."""


def run(name: str) -> None:
    """Run one of them on an event loop."""
    on_loop(CHECKS[name])()
