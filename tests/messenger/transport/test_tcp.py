"""Sockets under endpoints: partial writes, errors, exhaustion of descriptors."""

import asyncio
import contextlib
import errno
import os
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason
from messenger.messenger import Inbox
from messenger.session.policy import LOSSY_CLIENT, STATELESS_SERVER
from messenger.session.session import SessionState
from messenger.transport.tcp import Listener, TcpLink, dial, listening_socket, socket_addr
from tests.support.aio import connected, messenger, on_loop, until
from tests.support.node import Node, new_node, numbered
from tests.support.raw_peer import RawPeer


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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@on_loop
async def test_a_dial_reaches_a_listener(host: str) -> None:
    loop = asyncio.get_running_loop()
    accepted: list[tuple[socket.socket, EntityAddr]] = []
    listener = Listener(loop, listening_socket(host, 0), lambda sock, addr: accepted.append((sock, addr)))
    with await dial(loop, host, listener.addr.port) as sock:
        await until(lambda: accepted)
        ((other, remote),) = accepted
        with other:
            assert remote == socket_addr(sock.getsockname())
            assert not other.getblocking()
            assert not sock.getblocking()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await dial(loop, host, listener.addr.port)


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
    """Nothing can be opened any more; what is open stays."""
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
    """Dials wait in the backlog and are accepted once there are descriptors again (B45, TH-10)."""
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


# ---- links


class Carried:
    """A node's accepted link on one end of a socket pair; the test holds the other end."""

    def __init__(self) -> None:
        self.node: Node = new_node()
        mine, self.other = socket.socketpair()
        self._mine = mine
        mine.setblocking(False)
        self.other.setblocking(False)
        self.link_id = self.node.endpoint.link_accepted(RawPeer.SOCKET_ADDR, self.node.now)
        self.link = TcpLink(asyncio.get_running_loop(), self.node.endpoint, self.link_id, mine, self.pump)
        self.link.start()
        self.node.pump()

    def pump(self) -> None:
        self.node.pump()

    def is_readable(self) -> bool:
        return bool(select.select([self._mine], [], [], 0)[0])

    def close(self) -> None:
        self.link.close()
        self.other.close()


@contextmanager
def carried() -> Iterator[Carried]:
    link = Carried()
    try:
        yield link
    finally:
        link.close()


class Slow(Carried):
    """Handling what was read takes 50 us a byte, or nothing; the clock is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock_s = 0.0
        self.us_per_byte = 50.0
        self.reads: list[int] = []
        monkeypatch.setattr("messenger.transport.tcp.monotonic", lambda: self.clock_s)
        super().__init__()
        endpoint = self.node.endpoint
        monkeypatch.setattr(endpoint, "receive_buffer", lambda _link: memoryview(bytearray(1 << 18)))
        monkeypatch.setattr(endpoint, "link_received", self.received)

    def received(self, _link: int, count: int, _now: float) -> None:
        self.reads.append(count)
        self.clock_s += count * self.us_per_byte / 1e6

    def turn(self) -> list[int]:
        """The reads of one turn of the loop, with as much waiting as the socket holds."""
        self.reads.clear()
        with contextlib.suppress(BlockingIOError):
            while True:
                self.other.send(bytes(65536))
        self.link._on_readable()
        return list(self.reads)


@on_loop
async def test_a_link_reads_as_much_at_a_time_as_is_handled_in_time() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        link = Slow(monkeypatch)
        try:
            first = link.turn()
            assert len(first) == 1
            for _ in range(10):
                slow = link.turn()
            assert slow == [4096] < first
            link.us_per_byte = 0.001
            for _ in range(10):
                quick = link.turn()
            assert max(quick) > 60_000
        finally:
            link.close()


async def read_all(sock: socket.socket, size: int) -> bytes:
    loop, raw = asyncio.get_running_loop(), bytearray()
    while len(raw) < size:
        raw += await loop.sock_recv(sock, 1 << 16)
    return bytes(raw)


@on_loop
async def test_what_the_socket_does_not_take_at_once_follows_in_order() -> None:
    with carried() as link:
        buffers = [bytes([number % 251]) * (number * 997 % 70_000) for number in range(300)]
        for start in range(0, 300, 3):
            link.link.write(list(buffers[start : start + 3]))
        expected = b"".join(buffers)
        assert await read_all(link.other, len(expected)) == expected


@on_loop
async def test_what_has_left_is_reported() -> None:
    with carried() as link:
        (taken,) = link.node.endpoint._links.values()
        before = taken.unwritten_bytes
        link.link.write([b"x" * 10_000])
        assert taken.unwritten_bytes == before - 10_000
        link.link.write([b"y" * (8 << 20)])
        assert taken.unwritten_bytes > before - 10_000 - (8 << 20)
        await read_all(link.other, 10_000 + (8 << 20))
        assert taken.unwritten_bytes == before - 10_000 - (8 << 20)


@on_loop
async def test_the_peers_end_of_file_ends_the_link() -> None:
    with carried() as link:
        link.other.shutdown(socket.SHUT_WR)
        await until(lambda: link.node.faults)
        assert link.node.faults == [FaultReason.EOF]


@on_loop
async def test_a_link_that_there_is_no_memory_for_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive_buffer(_link_id: int) -> memoryview:
        raise MemoryError

    with carried() as link:
        monkeypatch.setattr(link.node.endpoint, "receive_buffer", receive_buffer)
        link.other.send(b"ceph v2\n")
        await until(lambda: link.node.faults)
        assert link.node.faults == [FaultReason.MEMORY]
        assert link.node.endpoint.link_count == 0


@on_loop
async def test_a_write_to_a_closed_socket_is_one_fault_and_comes_after_the_call() -> None:
    with carried() as link:
        link.link.pause(paused=True)
        link.other.close()
        for _ in range(3):
            link.link.write([b"x" * 100])
        assert link.node.faults == []
        await until(lambda: link.node.faults)
        assert link.node.faults == [FaultReason.SOCKET]
        assert "roken pipe" in link.node.fault_texts[0]


@on_loop
async def test_a_paused_link_reads_nothing_until_it_goes_on() -> None:
    with carried() as link:
        link.link.pause(paused=True)
        link.link.pause(paused=True)
        link.other.send(b"GET / HTTP/1.1\r\n")
        await until(link.is_readable)
        await asyncio.sleep(0)  # a turn of the loop, in which what is readable would be read
        assert link.node.faults == []
        link.link.pause(paused=False)
        await until(lambda: link.node.faults)
        assert link.node.faults == [FaultReason.NOT_MSGR]


@on_loop
async def test_a_reset_by_the_peer_ends_the_link() -> None:
    inbox = Inbox()
    async with messenger(1, policy=LOSSY_CLIENT) as client, messenger(2, inbox, policy=STATELESS_SERVER) as server:
        connection = await connected(client, server)
        (link,) = client._links.values()
        link._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.mark_down()
        await until(lambda: not server.connections)
        assert server.endpoint.sessions == []


@on_loop
async def test_small_writes_are_not_delayed() -> None:
    async with messenger(1) as client, messenger(2) as server:
        await connected(client, server)
        for either in client, server:
            (link,) = either._links.values()
            assert link._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


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
