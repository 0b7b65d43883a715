"""One of the two processes of a benchmark, controlled over its standard input.

Control is by JSON lines. The first line is the :class:`PeerSpec`; the process answers ``{"ready": ADDR}`` once it
listens or is connected. Each ``{"run": COUNT}`` is answered by ``{"began": COUNT}`` and, after the last message,
by ``{"ended": {...}}``, a :class:`PeerRun`. The end of the input ends the process.

Nothing is tuned: the garbage collector runs with Python's default thresholds.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict

from toolkit.bench.control import answer
from toolkit.bench.floor import FloorPort
from toolkit.bench.memory import peak_rss_mib
from toolkit.bench.port import MessengerPort
from toolkit.bench.spec import PeerRun, PeerSpec
from toolkit.bench.traffic import Traffic


class Control(asyncio.Protocol):
    """Starts a run for each line of the input, and reports its end."""

    def __init__(self, traffic: Traffic, ended: asyncio.Future[None]) -> None:
        self._traffic = traffic
        self._ended = ended
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        """Run each complete command line."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._run(json.loads(line)["run"])

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """End the process, because the controller closed the input."""
        if not self._ended.done():
            self._ended.set_result(None)

    def _run(self, count: int) -> None:
        started_s, cpu_s = time.monotonic(), time.process_time()

        def done() -> None:
            run = PeerRun(
                started_s=started_s,
                ended_s=time.monotonic(),
                cpu_s=time.process_time() - cpu_s,
                peak_rss_mib=peak_rss_mib(),
            )
            answer(ended=asdict(run))

        answer(began=count)
        self._traffic.start(count, done)


async def run_peer(spec: PeerSpec) -> None:
    """Run one side until the input ends."""
    os.sched_setaffinity(0, {spec.cpu})
    port = FloorPort(spec) if spec.floor else MessengerPort(spec)
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    async with AsyncExitStack() as stack:
        addr = await port.open(stack)
        await loop.connect_read_pipe(lambda: Control(port.traffic, ended), sys.stdin.buffer)
        answer(ready=addr)
        await ended


if __name__ == "__main__":
    asyncio.run(run_peer(PeerSpec.from_json(sys.stdin.buffer.readline())))
