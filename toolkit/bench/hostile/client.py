"""The legitimate client's process: one lossless session per protocol, with requests at a steady pace.

The first line is a :class:`ClientSpec`, answered by ``{"ready": ADDRS}``, the client's addresses, once requests
are being sent. Each ``phase`` begins the next phase. ``finish`` stops sending, waits for the answers and is
answered by a :class:`Seen`.
"""

import asyncio
import math
import os
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Self

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.tickets import ServiceKey
from messenger.config import Config
from messenger.denc.entity import AuthName
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messenger import Messenger
from toolkit.bench.control import answer, questions
from toolkit.bench.hostile.spec import CLIENTS, REQUEST, ClientSpec
from toolkit.bench.identity import RECEIVER, SECRET_ID, SENDER_POLICIES

_CONNECT_TIMEOUT_S = 20.0
_ANSWERS_TIMEOUT_S = 100.0
_DATA_BYTES = 64


@dataclass(slots=True)
class Phase:
    """Latencies of the requests due in one phase, from the time they were due to the answer."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, latencies_ms: Sequence[float]) -> Self:
        """Compute the percentiles of latencies; infinite if there are none."""
        ordered = sorted(latencies_ms) or [math.inf]
        return cls(*(round(ordered[-(-len(ordered) * percent // 100) - 1], 3) for percent in (50, 99)))


@dataclass(slots=True)
class Seen:
    """The client's figures, for both sessions together."""

    phases: list[Phase]
    lost: int
    """Requests whose answer is missing, out of order or wrong."""
    resets: int
    """Number of reset and remote_reset events."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Restore an object from the dict that :func:`dataclasses.asdict` made of it."""
        return cls(**values | {"phases": [Phase(**phase) for phase in values["phases"]]})


class Requests(Dispatcher):
    """The requests of one session, each due ``pace_s`` after the previous one.

    Latency is measured from the time at which a request was due, so that a delay of the client itself counts.
    """

    def __init__(self, pace_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace_s = pace_s
        self._due_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._sent = 0
        self._waiting: deque[tuple[int, bytes, float, list[float]]] = deque()
        self.phases: list[list[float]] = [[]]
        self.wrong = 0
        self.resets = 0
        self.complete = asyncio.Event()
        """Set once sending has stopped and every request has an answer."""

    def start(self, connection: Connection) -> None:
        """Start sending."""
        self._connection = connection
        self._due_s = self._loop.time()
        self._send()

    def stop(self) -> None:
        """Stop sending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            self.complete.set()

    @property
    def missing(self) -> int:
        """Number of requests without an answer."""
        return len(self._waiting)

    def _send(self) -> None:
        assert self._connection is not None
        while self._due_s <= self._loop.time():
            self._sent += 1
            data = self._sent.to_bytes(_DATA_BYTES, "big")
            self._waiting.append((self._sent, data, self._due_s, self.phases[-1]))
            self._connection.send(Message(REQUEST, data=data, tid=self._sent))
            self._due_s += self._pace_s
        self._timer = self._loop.call_at(self._due_s, self._send)

    def ms_dispatch(self, connection: Connection, message: Message) -> None:  # noqa: ARG002 - there is one
        """Match an answer with its request; answers must arrive in the order of the requests."""
        if not self._waiting:
            self.wrong += 1
            return
        tid, data, due_s, latencies_ms = self._waiting.popleft()
        self.wrong += (message.tid, bytes(message.data)) != (tid, data)
        latencies_ms.append((self._loop.time() - due_s) * 1e3)
        if not self._waiting and self._timer is None:
            self.complete.set()

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - counted
        """Count the end of the session."""
        self.resets += 1

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - counted
        """Count a reset of the session by the server."""
        self.resets += 1


async def run_client(spec: ClientSpec) -> None:
    """Run the client until the input ends."""
    os.sched_setaffinity(0, {spec.cpu})
    sessions: list[Requests] = []
    announced: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        for protocol, addr in spec.addrs.items():
            requests = Requests(spec.pace_s)
            messenger = await stack.enter_async_context(_messenger(Protocol(protocol), spec.key, requests))
            connection = await messenger.connect(addr, RECEIVER.type).ready(_CONNECT_TIMEOUT_S)
            announced[protocol] = str(messenger.addrs.front)
            sessions.append(requests)
            requests.start(connection)
        answer(ready=announced)
        async for question in questions():
            if question == "phase":
                for requests in sessions:
                    requests.phases.append([])
                answer(phase=True)
            else:
                answer(**{question: asdict(await _finish(sessions))})


def _messenger(protocol: Protocol, key: str, requests: Requests) -> Messenger:
    name = CLIENTS[protocol]
    service_keys = {RECEIVER.type: ServiceKey(SECRET_ID, CryptoKey.from_base64(key))}
    return Messenger(
        name,
        auth_client=MintingClient(AuthName(name.type, str(name.num)), name.num, service_keys),
        dispatcher=requests,
        policies=SENDER_POLICIES,
        config=Config.only_mode(ConMode.CRC),
    )


async def _finish(sessions: list[Requests]) -> Seen:
    for requests in sessions:
        requests.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(_ANSWERS_TIMEOUT_S):
            for requests in sessions:
                await requests.complete.wait()
    phases = zip(*(requests.phases for requests in sessions), strict=True)
    return Seen(
        phases=[Phase.of([*chain.from_iterable(parts)]) for parts in phases],
        lost=sum(requests.missing + requests.wrong for requests in sessions),
        resets=sum(requests.resets for requests in sessions),
    )


if __name__ == "__main__":
    asyncio.run(run_client(ClientSpec.from_json(sys.stdin.buffer.readline())))
