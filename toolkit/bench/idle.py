"""Measures the memory of an idle connection.

A messenger accepts connections over loopback. The other ends are cores without a messenger, which are discarded
once their connection is open and has carried messages, so that only the accepting side's memory remains.
"""

import asyncio
import gc
import socket
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from random import SystemRandom
from time import time
from typing import Any

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.messages.message import Message
from messenger.messenger import Messenger
from messenger.transport.tcp import dial
from toolkit.bench.cell import KIB
from toolkit.bench.core import sender_side
from toolkit.bench.identity import MESSAGE_TYPE, RECEIVER, RECEIVER_POLICIES, auth_server
from toolkit.bench.spec import HOST

CONNECTIONS = 200
_WARM_UP_CONNECTIONS = 10
_MESSAGE_SIZES = (64, 4 * KIB, 64 * KIB)
_READ_BYTES = 64 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleResult:
    """Memory per connection as Python's tracemalloc counts it, without that of the kernel and OpenSSL."""

    mode: str
    connections: int
    python_bytes_per_connection: int

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return asdict(self)


def measure_idle(
    modes: Sequence[str], connections: int, finished: Callable[[IdleResult], None]
) -> list[IdleResult]:
    """Measure in this process with ``connections`` connections; ``finished`` is called with each result."""
    results = []
    for mode in modes:
        size = asyncio.run(_bytes_per_connection(mode, connections))
        results.append(IdleResult(mode=mode, connections=connections, python_bytes_per_connection=size))
        finished(results[-1])
    return results


async def _bytes_per_connection(mode: str, connections: int) -> int:
    key = CryptoKey.generate(SystemRandom(), time())
    config = Config.only_mode(ConMode[mode.upper()])
    with ExitStack() as stack:
        async with Messenger(
            RECEIVER, auth_server=auth_server(key), policies=RECEIVER_POLICIES, config=config
        ) as messenger:
            address = await messenger.bind(HOST)

            async def open_some(first: int, count: int) -> None:
                for nonce in range(first, first + count):
                    stack.enter_context(await _connection(mode, key, address, nonce))

            await open_some(1, _WARM_UP_CONNECTIONS)
            gc.collect()
            tracemalloc.start()
            try:
                await open_some(1 + _WARM_UP_CONNECTIONS, connections)
                gc.collect()
                used, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    return used // connections


async def _connection(mode: str, key: CryptoKey, address: EntityAddr, nonce: int) -> socket.socket:
    """Open a connection and send messages over it; return its socket, now idle."""
    loop = asyncio.get_running_loop()
    side = sender_side(mode, key, nonce)
    session = side.connect(AddrVec((address,)))
    for size in _MESSAGE_SIZES:
        side.endpoint.send(session, Message(MESSAGE_TYPE, data=bytes(size)), 0.0)
    side.pump(0.0)
    sock = await dial(loop, HOST, address.port)
    while session.acked_seq < len(_MESSAGE_SIZES):
        if side.has_written:
            await loop.sock_sendall(sock, side.written())
        side.receive(memoryview(await loop.sock_recv(sock, _READ_BYTES)))
    return sock
