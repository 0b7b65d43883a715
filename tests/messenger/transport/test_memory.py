"""A network in memory under whole messengers, and its handles for faults."""

import asyncio
import re
from pathlib import Path

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, LocalError
from messenger.inbox import Inbox
from messenger.link import Protocol
from messenger.messenger import Connection, Messenger
from messenger.session.policy import LOSSLESS_CLIENT, STATEFUL_SERVER
from messenger.transport.memory import MemoryNetwork
from tests.support.aio import messenger, on_loop, until
from tests.support.node import numbered

PAGE = Path(__file__).parents[3] / "docs" / "services.md"
MIB = 1 << 20


async def connected(client: Messenger, server: Messenger, protocol: Protocol = Protocol.V2) -> Connection:
    address = await server.bind("10.0.0.1", 6800, protocol)
    return await client.connect(address, EntityType.OSD).ready(10.0)


@pytest.mark.parametrize(
    ("protocol", "mode"),
    [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)],
)
@pytest.mark.parametrize("buffer_bytes", [100, MIB])
def test_messages_pass_in_order_both_ways(protocol: Protocol, mode: ConMode, buffer_bytes: int) -> None:
    @on_loop
    async def check() -> None:
        network, inbox, replies = MemoryNetwork(buffer_bytes), Inbox(), Inbox()
        async with (
            messenger(1, replies, mode=mode, transport=network) as client,
            messenger(2, inbox, mode=mode, transport=network) as server,
        ):
            connection = await connected(client, server, protocol)
            for number in range(30):
                message = numbered(number)
                message.data = bytes([number]) * (number * 300)
                connection.send(message)
            for number in range(30):
                sender, received = await inbox.get(10.0)
                assert (received.tid, bytes(received.data)) == (number, bytes([number]) * (number * 300))
                sender.send(numbered(number))
            assert [(await replies.get(10.0))[1].tid for _ in range(30)] == list(range(30))
        assert network.pairs == []

    check()


@pytest.mark.parametrize("fault", ["reset", "end"])
def test_a_lossless_session_survives_a_broken_pair(fault: str) -> None:
    @on_loop
    async def check() -> None:
        network, inbox = MemoryNetwork(), Inbox()
        async with (
            messenger(1, policy=LOSSLESS_CLIENT, transport=network) as client,
            messenger(2, inbox, policy=STATEFUL_SERVER, transport=network) as server,
        ):
            connection = await connected(client, server)
            for number in range(3):
                connection.send(numbered(number))
                assert (await inbox.get(10.0))[1].tid == number
                (pair,) = network.pairs
                getattr(pair, fault)()
                await until(lambda faults=number: sum(client.endpoint.counters.faults.values()) > faults)  # type: ignore[misc]
                await connection.ready(10.0)
            reason = FaultReason.SOCKET if fault == "reset" else FaultReason.EOF
            assert client.endpoint.counters.faults == {reason: 3}

    check()


@on_loop
async def test_dial_to_an_unused_address_is_refused() -> None:
    async with messenger(1, transport=MemoryNetwork()) as client:
        connection = client.connect("v2:10.0.0.9:6800/1", EntityType.OSD)
        await until(lambda: connection.last_fault)
        assert str(connection.last_fault) == "connection refused in START_CONNECT: 10.0.0.9:6800"


@on_loop
async def test_a_taken_address_is_a_clear_error() -> None:
    network = MemoryNetwork()
    async with messenger(1, transport=network) as one, messenger(2, transport=network) as two:
        await one.bind("10.0.0.1", 6800)
        with pytest.raises(LocalError, match=r"cannot listen on 10\.0\.0\.1:6800: Address already in use"):
            await two.bind("10.0.0.1", 6800)
        await two.bind("10.0.0.2", 6800)


@on_loop
async def test_a_pair_holds_no_more_than_its_room() -> None:
    network = MemoryNetwork(buffer_bytes=1000)
    listener = network.listen("10.0.0.1", 0, Config())
    stream = await network.dial("10.0.0.1", listener.addr.port, Config())
    assert stream.write([b"x" * 600, b"y" * 600]) == 1000
    (pair,) = network.pairs
    assert (pair.accepted.unread_bytes, pair.dialled.unread_bytes) == (1000, 0)
    stream.close()
    listener.close()
    assert network.pairs == []


@on_loop
async def test_dials_beyond_the_backlog_wait_and_are_refused_when_the_listener_closes() -> None:
    network, config = MemoryNetwork(), Config(ms_tcp_listen_backlog=2)
    listener = network.listen("10.0.0.1", 6800, config)
    dials = [asyncio.ensure_future(network.dial("10.0.0.1", 6800, config)) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [dial.done() for dial in dials] == [True, True, False, False]
    listener.close()
    results = await asyncio.gather(*dials, return_exceptions=True)
    assert [type(result).__name__ for result in results[2:]] == ["ConnectionRefusedError"] * 2


@on_loop
async def test_streams_stay_on_their_event_loop() -> None:
    with pytest.raises(LocalError, match=r"workers=2: streams of <MemoryNetwork of 0 listeners> stay"):
        Messenger(workers=2, transport=MemoryNetwork())
    with pytest.raises(LocalError, match="buffer_bytes = 0: give 1 or more"):
        MemoryNetwork(buffer_bytes=0)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Transports")[2]
    example = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    exec(compile(example, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "b'before'\nb'after'\n"
