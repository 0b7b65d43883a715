"""A conversation in a zygote before its first fork, so that forks share what the first messages leave in memory.

The first run of a function fills caches of the interpreter and of the modules. Each messenger would have its own
copy of these pages, a quarter of its memory.
"""

import asyncio
import contextlib
import json
from random import SystemRandom
from typing import Any

from messenger.cephx.keys import CryptoKey
from messenger.errors import LocalError
from toolkit.cluster.node import open_node
from toolkit.node import NodeApp, NodeSpec

_TIMEOUT_S = 2.0
_PEERS = {"a": "osd.1", "b": "osd.2"}


def rehearse() -> None:
    """Have two messengers of this process exchange messages over loopback; without loopback nothing happens."""
    with contextlib.suppress(LocalError, OSError, TimeoutError):
        asyncio.run(_conversation())


async def _conversation() -> None:
    key = CryptoKey.generate(SystemRandom(), 0.0).to_base64()
    arrived = asyncio.Event()
    waiting = set(_PEERS)

    def app_of(name: str, nonce: int) -> NodeApp:
        def write(time_s: float, kind: str, fields: dict[str, Any]) -> None:
            json.dumps([time_s, kind, fields])
            if kind == "deliver":
                waiting.discard(name)
                if not waiting:
                    arrived.set()

        addrs = {peer: f"v2:127.0.0.1:0/{number}" for number, peer in enumerate(_PEERS, 1)}
        spec = NodeSpec(
            name=name,
            entity=_PEERS[name],
            addr=f"v2:127.0.0.1:0/{nonce}",
            policy="lossless_peer",
            mode="crc",
            service_key=key,
            peers=addrs,
            peer_entities=dict(_PEERS),
        )
        return NodeApp(spec, write)

    apps = {name: app_of(name, number) for number, name in enumerate(_PEERS, 1)}
    async with contextlib.AsyncExitStack() as open_ones:
        for name, app in apps.items():
            messenger = await open_ones.enter_async_context(await open_node(app.spec, app))
            await messenger.bind("127.0.0.1")
            for other in apps.values():
                other.learn(name, str(messenger.addrs))
        apps["a"].send("b")
        apps["b"].send("a")
        await asyncio.wait_for(arrived.wait(), _TIMEOUT_S)
