"""The parts that only TCP has: names, options and resets of sockets, exhaustion of descriptors."""

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messenger.denc.address import AddressType
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason
from messenger.inbox import Inbox
from messenger.session.policy import LOSSY_CLIENT, STATELESS_SERVER
from messenger.session.session import SessionState
from messenger.transport.tcp import dial, listening_socket, socket_addr
from tests.support.aio import connected, messenger, on_loop, sockets, until
from tests.support.node import numbered


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (("10.1.2.3", 6789), "v2:10.1.2.3:6789/0"),
        (("fd00::1", 3300, 0, 0), "v2:[fd00::1]:3300/0"),
        (("fe80::1%eth0", 3300, 0, 2), "v2:[fe80::1]:3300/0"),
    ],
)
def test_names_of_sockets_are_addresses(name: tuple[str, int], text: str) -> None:
    assert str(socket_addr(name)) == text
    assert socket_addr(name).type is AddressType.MSGR2


# ---- dialling and listening


@on_loop
async def test_a_dial_that_is_given_up_closes_its_socket() -> None:
    """A leaked socket would be a ResourceWarning, which is an error here."""
    loop = asyncio.get_running_loop()
    with listening_socket("127.0.0.1", 0) as listener:
        task = asyncio.ensure_future(dial(loop, "127.0.0.1", listener.getsockname()[1]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_an_address_that_cannot_be_bound_leaves_no_socket() -> None:
    with listening_socket("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        listening_socket("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(OSError, match="assign"):
        listening_socket("192.0.2.1", 0)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Use up all descriptors; open files stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_loop
async def test_each_half_open_link_makes_room_for_the_next_dial_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of descriptors, a backlog of silent peers does not delay the dial behind them by a pause for each."""
    monkeypatch.setattr("messenger.transport.tcp._ACCEPT_PAUSE_S", 3600.0)
    loop = asyncio.get_running_loop()
    async with messenger(2, Inbox(), policy=STATELESS_SERVER) as server:
        address = await server.bind()
        clients = [socket.socket() for _ in range(20)]
        for sock in clients:
            sock.setblocking(False)
        await loop.sock_connect(clients[0], (address.host, address.port))
        await until(lambda: server.endpoint.link_count)
        with no_descriptors_left():
            for sock in clients[1:]:
                await loop.sock_connect(sock, (address.host, address.port))
            await until(lambda: server.endpoint.counters.created_connections == len(clients))
        assert server.endpoint.counters.faults[FaultReason.CROWDED_OUT] == len(clients) - 1
        assert server.endpoint.link_count == 1
        for sock in clients:
            sock.close()


@on_loop
async def test_a_listener_survives_running_out_of_descriptors() -> None:
    """Dials wait in the backlog and are accepted once there are descriptors again (TH-10)."""
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    inbox = Inbox()
    async with messenger(2, inbox, policy=STATELESS_SERVER) as server:
        address = await server.bind()
        clients = [socket.socket() for _ in range(3)]
        for sock in clients:
            sock.setblocking(False)
        with no_descriptors_left():
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                socket.socket()
            for sock in clients:
                await loop.sock_connect(sock, (address.host, address.port))
            await until(lambda: server.endpoint.counters.accept_failures)
            assert server.endpoint.link_count == 0
        await until(lambda: server.endpoint.link_count == 3)
        async with messenger(1, policy=LOSSY_CLIENT) as client:
            connection = await client.connect(address, EntityType.OSD).ready(10.0)
            connection.send(numbered(1))
            await inbox.get(10.0)
        for sock in clients:
            sock.close()
        await until(lambda: server.endpoint.link_count == 0)
    assert reported == []


@on_loop
async def test_a_reset_by_the_peer_ends_the_link() -> None:
    inbox = Inbox()
    async with messenger(1, policy=LOSSY_CLIENT) as client, messenger(2, inbox, policy=STATELESS_SERVER) as server:
        connection = await connected(client, server)
        (sock,) = sockets(client)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.mark_down()
        await until(lambda: not server.connections)
        assert server.endpoint.sessions == []


@on_loop
async def test_small_writes_are_not_delayed() -> None:
    async with messenger(1) as client, messenger(2) as server:
        await connected(client, server)
        for either in client, server:
            (sock,) = sockets(either)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@on_loop
async def test_descriptors_return_to_where_they_were() -> None:
    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_descriptors()
    for _ in range(5):
        async with messenger(1) as client, messenger(2) as server:
            connection = await connected(client, server)
            assert connection.state is SessionState.READY
            client.connect(f"v2:127.0.0.1:{server.addrs.front.port}/7", EntityType.OSD)
    await until(lambda: open_descriptors() == before)
