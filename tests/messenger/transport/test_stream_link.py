"""Links on byte streams: partial writes, pauses, errors."""

import asyncio
import contextlib
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from messenger.errors import FaultReason
from messenger.transport.stream_link import StreamLink
from messenger.transport.tcp import TcpStream
from tests.support.aio import on_loop, until
from tests.support.node import Node, new_node
from tests.support.raw_peer import RawPeer


class Carried:
    """A node's accepted link on one end of a socket pair; the test holds the other end."""

    def __init__(self) -> None:
        self.node: Node = new_node()
        mine, self.other = socket.socketpair()
        self._mine = mine
        mine.setblocking(False)
        self.other.setblocking(False)
        self.link_id = self.node.endpoint.link_accepted(RawPeer.SOCKET_ADDR, self.node.now)
        stream = TcpStream(asyncio.get_running_loop(), mine, RawPeer.SOCKET_ADDR)
        self.link = StreamLink(stream, self.node.endpoint, self.link_id, self.pump)
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
        monkeypatch.setattr("messenger.transport.stream_link.monotonic", lambda: self.clock_s)
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
async def test_bytes_that_the_socket_does_not_take_at_once_follow_in_order() -> None:
    with carried() as link:
        buffers = [bytes([number % 251]) * (number * 997 % 70_000) for number in range(300)]
        for start in range(0, 300, 3):
            link.link.write(list(buffers[start : start + 3]))
        expected = b"".join(buffers)
        assert await read_all(link.other, len(expected)) == expected


@on_loop
async def test_written_bytes_are_reported() -> None:
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
async def test_paused_link_reads_no_bytes_until_it_resumes() -> None:
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
