"""The rules of messenger/transport/base.py, for every transport there is."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps

import pytest

from messenger.config import Config
from messenger.denc.address import AddressType
from messenger.transport.base import Stream, Transport
from messenger.transport.memory import MemoryNetwork
from messenger.transport.tcp import TcpTransport
from tests.support.aio import on_loop, until

TRANSPORTS: dict[str, Callable[[], Transport]] = {
    "tcp": TcpTransport,
    "memory": MemoryNetwork,
    "memory-7-bytes": lambda: MemoryNetwork(buffer_bytes=7),
}
SETTLE_S = 0.01
"""After this, what is on its way has arrived."""
Test = Callable[[Transport], Coroutine[None, None, None]]


def on_each(test: Test) -> Callable[[str], None]:
    """Run a coroutine as a test with every transport."""

    @pytest.mark.parametrize("name", TRANSPORTS)
    @wraps(test)
    def run(name: str) -> None:
        on_loop(lambda: test(TRANSPORTS[name]()))()

    del run.__wrapped__  # type: ignore[attr-defined] - pytest would ask for the transport
    return run


@asynccontextmanager
async def pair(transport: Transport, host: str = "127.0.0.1") -> AsyncIterator[tuple[Stream, Stream]]:
    """The stream of a dial, and the one that was accepted."""
    accepted: list[Stream] = []
    listener = transport.listen(host, 0, Config())
    listener.start(accepted.append, lambda _detail: False)
    dialled = await transport.dial(host, listener.addr.port, Config())
    try:
        await until(lambda: accepted)
        yield dialled, accepted[0]
    finally:
        listener.close()
        for stream in (dialled, *accepted):
            stream.close()


async def readable(stream: Stream) -> None:
    """Wait until there is something to read."""
    arrived = asyncio.get_running_loop().create_future()
    stream.watch_reads(lambda: arrived.done() or arrived.set_result(None))
    try:
        await arrived
    finally:
        stream.watch_reads(None)


async def read(stream: Stream, most_bytes: int = 1 << 16) -> bytes:
    """Return the next bytes; empty at the end of file."""
    await readable(stream)
    buffer = memoryview(bytearray(most_bytes))
    return bytes(buffer[: stream.read_into(buffer)])


async def read_all(stream: Stream) -> bytes:
    """Everything up to the end of file."""
    received = b""
    while part := await read(stream):
        received += part
    return received


async def write_all(stream: Stream, raw: bytes) -> None:
    """Write everything, waiting for room."""
    while raw:
        writable = asyncio.get_running_loop().create_future()
        stream.watch_writes(lambda done=writable: done.done() or done.set_result(None))  # type: ignore[misc]
        try:
            await writable
        finally:
            stream.watch_writes(None)
        raw = raw[stream.write([raw]) :]


def fill(stream: Stream) -> int:
    """Write until there is no room; returns the number of bytes accepted."""
    accepted = 0
    while True:
        try:
            accepted += stream.write([bytes(1 << 16)] * 4)
        except BlockingIOError:
            return accepted


async def fill_the_way(stream: Stream) -> int:
    """Write until there is no room at the peer either; returns the number of bytes accepted."""
    accepted = 0
    while count := fill(stream):
        accepted += count
        await asyncio.sleep(SETTLE_S)
    return accepted


async def until_it_breaks(stream: Stream) -> OSError:
    """Write and read until a call raises an error; returns that."""
    while True:
        try:
            stream.write([b"x"])
        except BlockingIOError:
            pass
        except OSError as error:
            return error
        await asyncio.sleep(0)


# ---- listeners and dials


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_dial_reaches_a_listener_and_both_ends_know_both_addresses(host: str) -> None:
    @on_each
    async def check(transport: Transport) -> None:
        async with pair(transport, host) as (dialled, accepted):
            assert dialled.peer_addr == accepted.local_addr
            assert dialled.local_addr == accepted.peer_addr
            assert dialled.local_addr != dialled.peer_addr
            for addr in dialled.local_addr, dialled.peer_addr:
                assert (addr.host, addr.type, addr.nonce) == (host, AddressType.MSGR2, 0)
                assert addr.port

    for name in TRANSPORTS:
        check(name)


@on_each
async def test_dial_to_a_closed_port_is_refused(transport: Transport) -> None:
    listener = transport.listen("127.0.0.1", 0, Config())
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await transport.dial("127.0.0.1", listener.addr.port, Config())


@on_each
async def test_a_port_is_taken_until_its_listener_is_closed(transport: Transport) -> None:
    listener = transport.listen("127.0.0.1", 0, Config())
    port = listener.addr.port
    for host in "127.0.0.1", "0.0.0.0":
        with pytest.raises(OSError, match="in use"):
            transport.listen(host, port, Config())
    listener.close()
    transport.listen("127.0.0.1", port, Config()).close()


@on_each
async def test_a_listener_on_all_addresses_of_a_family_accepts_on_each(transport: Transport) -> None:
    accepted: list[Stream] = []
    listener = transport.listen("0.0.0.0", 0, Config())
    listener.start(accepted.append, lambda _detail: False)
    dialled = [await transport.dial(host, listener.addr.port, Config()) for host in ("127.0.0.1", "127.0.0.9")]
    await until(lambda: len(accepted) == 2)
    assert {stream.local_addr.host for stream in accepted} == {"127.0.0.1", "127.0.0.9"}
    with pytest.raises(ConnectionRefusedError):
        await transport.dial("::1", listener.addr.port, Config())
    listener.close()
    for stream in (*dialled, *accepted):
        stream.close()


@on_each
async def test_a_dial_comes_from_the_source_that_was_asked_for(transport: Transport) -> None:
    accepted: list[Stream] = []
    listener = transport.listen("127.0.0.1", 0, Config())
    listener.start(accepted.append, lambda _detail: False)
    dialled = await transport.dial("127.0.0.1", listener.addr.port, Config(), source="127.0.0.7")
    await until(lambda: accepted)
    assert accepted[0].peer_addr.host == dialled.local_addr.host == "127.0.0.7"
    listener.close()
    for stream in (dialled, *accepted):
        stream.close()


@on_each
async def test_dial_before_the_listener_starts_is_accepted_later(transport: Transport) -> None:
    listener = transport.listen("127.0.0.1", 0, Config())
    dialled = await transport.dial("127.0.0.1", listener.addr.port, Config())
    dialled.write([b"early"])
    accepted: list[Stream] = []
    listener.start(accepted.append, lambda _detail: False)
    await until(lambda: accepted)
    assert await read(accepted[0]) == b"early"
    listener.close()
    for stream in (dialled, *accepted):
        stream.close()


@on_each
async def test_closing_a_listener_resets_the_peers_that_wait_and_no_other(transport: Transport) -> None:
    async with pair(transport) as (dialled, accepted):
        listener = transport.listen("127.0.0.1", 0, Config())
        waiting = await transport.dial("127.0.0.1", listener.addr.port, Config())
        listener.close()
        with pytest.raises(ConnectionResetError):
            await read(waiting)
        waiting.close()
        dialled.write([b"fine"])
        assert await read(accepted) == b"fine"


# ---- bytes


@on_each
async def test_bytes_arrive_in_order_both_ways_at_once(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        forth = bytes(range(251)) * 40
        back = forth[::-1]

        async def receive(stream: Stream, size: int) -> bytes:
            received = b""
            while len(received) < size:
                received += await read(stream, 100)
            return received

        results = await asyncio.gather(
            write_all(one, forth), write_all(two, back), receive(two, len(forth)), receive(one, len(back))
        )
        assert results[2:] == [forth, back]


@on_each
async def test_a_write_takes_several_buffers_in_order_as_far_as_there_is_room(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        buffers = [b"ab", bytearray(b"cd"), memoryview(b"efghij"), b"k" * 10]
        count = one.write(buffers)
        expected = b"".join(buffers)[:count]
        assert count
        received = b""
        while len(received) < count:
            received += await read(two)
        assert received == expected


@on_each
async def test_an_accepted_buffer_may_be_changed(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        buffer = bytearray(b"before")
        assert one.write([buffer]) == 6
        buffer[:] = b"after!"
        assert await read(two) == b"before"


@on_each
async def test_reading_without_bytes_raises_and_fills_no_more_than_the_buffer(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        buffer = memoryview(bytearray(4))
        with pytest.raises(BlockingIOError):
            two.read_into(buffer)
        one.write([b"123456"])
        assert await read(two, 4) == b"1234"
        assert await read(two, 4) == b"56"
        with pytest.raises(BlockingIOError):
            two.read_into(buffer)


@on_each
async def test_a_peer_that_does_not_read_stops_the_writer(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        calls: list[None] = []
        accepted = await fill_the_way(one)
        one.watch_writes(lambda: calls.append(None))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not calls
        one.watch_writes(None)
        received = 0
        while received < accepted:
            received += len(await read(two))
        await write_all(one, b"more")
        assert await read(two) == b"more"


# ---- watching


@on_each
async def test_a_watch_calls_back_in_each_turn_while_something_is_unread(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        calls: list[None] = []
        two.watch_reads(lambda: calls.append(None))
        one.write([b"unread"])
        assert not calls  # not from within a call
        await until(lambda: len(calls) >= 3)
        two.watch_reads(None)
        before = len(calls)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(calls) == before
        two.watch_reads(lambda: calls.append(None))
        await until(lambda: len(calls) > before)
        two.watch_reads(None)
        assert await read(two) == b"unread"


@on_each
async def test_a_callback_that_raises_is_reported_and_called_again(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(str(context)))

        def fail() -> None:
            raise RuntimeError("of the application")

        two.watch_reads(fail)
        one.write([b"x"])
        await until(lambda: len(reported) >= 2)
        two.watch_reads(None)
        assert "of the application" in reported[0]


@on_each
async def test_a_callback_may_close_its_stream(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        calls: list[None] = []

        def close() -> None:
            calls.append(None)
            two.close()

        two.watch_reads(close)
        one.write([b"x"])
        await until(lambda: calls)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(calls) == 1


# ---- ends


@on_each
async def test_end_of_file_follows_all_written_bytes_and_stays(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        one.write([b"last"])
        one.close()
        assert await read_all(two) == b"last"
        assert await read_all(two) == b""


@on_each
async def test_a_shutdown_ends_both_directions_in_order(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        one.write([b"last"])
        one.shutdown()
        assert await read_all(one) == b""
        with pytest.raises(OSError, match="roken pipe"):
            one.write([b"more"])
        assert await read_all(two) == b"last"
        assert isinstance(await until_it_breaks(two), ConnectionError)
        one.shutdown()
        two.shutdown()


@on_each
async def test_closing_with_unread_bytes_resets_the_peer(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        one.write([b"unread"])
        await readable(two)
        two.close()
        with pytest.raises(ConnectionResetError):
            await read_all(one)


@on_each
async def test_an_abort_is_a_reset_and_no_end_of_file(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        one.abort()
        with pytest.raises(ConnectionResetError):
            await read_all(two)
        assert isinstance(await until_it_breaks(two), ConnectionError)


@on_each
async def test_an_abort_wakes_a_writer_that_waits_for_room(transport: Transport) -> None:
    async with pair(transport) as (one, two):
        await fill_the_way(one)
        two.abort()
        with pytest.raises(ConnectionError):
            await write_all(one, b"more")


@on_each
async def test_a_closed_stream_does_nothing_more(transport: Transport) -> None:
    async with pair(transport) as (one, _):
        for end in one.close, one.close, one.abort, one.shutdown:
            end()
        one.watch_reads(None)
        one.watch_writes(None)
        with pytest.raises(OSError, match="ad file descriptor"):
            one.read_into(memoryview(bytearray(1)))
        with pytest.raises(OSError, match="ad file descriptor"):
            one.write([b"x"])


@on_each
async def test_an_abandoned_dial_leaves_nothing_behind(transport: Transport) -> None:
    """A leaked socket would be a ResourceWarning, which is an error here."""
    listener = transport.listen("127.0.0.1", 0, Config(ms_tcp_listen_backlog=1))
    dials = [asyncio.ensure_future(transport.dial("127.0.0.1", listener.addr.port, Config())) for _ in range(4)]
    await asyncio.sleep(0)
    for dial in dials:
        dial.cancel()
    results = await asyncio.gather(*dials, return_exceptions=True)
    for stream in results:
        if isinstance(stream, Stream):
            stream.close()
        else:
            assert isinstance(stream, asyncio.CancelledError)
    listener.close()
    gc.collect()
