import asyncio
import socket

import pytest

from toolkit.bench.floor import FloorSocket


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    left.setblocking(False)
    right.setblocking(False)
    return left, right


@pytest.mark.parametrize("size", [1, 64, 4096, 60_000, 300_000])
@pytest.mark.parametrize("batches", [[1], [3, 1, 7], [40]])
def test_floor_socket_delivers_every_message(size: int, batches: list[int]) -> None:
    async def converse() -> tuple[int, int]:
        left, right = connected_pair()
        arrived = {"left": 0, "right": 0}
        everything = asyncio.Event()

        def at_left(count: int) -> None:
            arrived["left"] += count
            if arrived["left"] == sum(batches):
                everything.set()

        def at_right(count: int) -> None:
            arrived["right"] += count
            receiver.send(count)

        sender = FloorSocket(left, bytes(size), 64, at_left)
        receiver = FloorSocket(right, bytes(64), size, at_right)
        for batch in batches:
            sender.send(batch)
        async with asyncio.timeout(10):
            await everything.wait()
        sender.close()
        receiver.close()
        return arrived["left"], arrived["right"]

    assert asyncio.run(converse()) == (sum(batches), sum(batches))


def test_floor_socket_closes_when_its_peer_closes() -> None:
    async def leave() -> bytes:
        left, right = connected_pair()
        floor = FloorSocket(right, b"", 1, lambda _: None)
        with left:
            left.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(10):
                answer = await asyncio.get_running_loop().sock_recv(left, 1)
        floor.close()
        return answer

    assert asyncio.run(leave()) == b""
