"""The attacked server's process: an asyncio Messenger that answers requests.

The first line is a :class:`ServerSpec`, answered by ``{"ready": ADDRS}``. Each ``held`` is answered by a
:class:`Held`.
"""

import asyncio
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import CDLL
from dataclasses import asdict
from pathlib import Path

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messenger import Messenger
from toolkit.bench.control import answer, questions
from toolkit.bench.hostile.spec import (
    BIG_REPLY_BYTES,
    BIG_REQUEST,
    HOST,
    REQUEST,
    Held,
    ServerSpec,
)
from toolkit.bench.identity import RECEIVER, RECEIVER_POLICIES, auth_server
from toolkit.bench.memory import peak_rss_mib, rss_mib

_SPARE_DESCRIPTORS = 8
_FAULT, _SESSIONS = "fault_", "sessions_"


class Answering(Dispatcher):
    """Answers requests and counts messages by type."""

    def __init__(self) -> None:
        self.received: Counter[int] = Counter()

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        """Answer a request with the same tid."""
        self.received[message.type] += 1
        if message.type == REQUEST:
            connection.send(Message(REQUEST, data=bytes(message.data), tid=message.tid))
        elif message.type == BIG_REQUEST:
            connection.send(Message(BIG_REQUEST, data=b"\1" * BIG_REPLY_BYTES, tid=message.tid))


def _trim() -> None:
    """Return glibc's free memory to the kernel; other C libraries have no such call."""
    with suppress(AttributeError):
        CDLL(None).malloc_trim(0)


def held(messenger: Messenger, application: Answering) -> Held:
    """Return the resources that the server holds now."""
    dump = messenger.perf_dump()
    gauges, counters = _numbers(dump["msgr-now"]), _numbers(dump["msgr"])
    throttles = [_numbers(group) for name, group in dump.items() if name.startswith("throttle-")]
    with _spare_descriptors():
        _trim()  # memory that only the allocator keeps does not count
        memory_mib, peak_mib = rss_mib(), peak_rss_mib()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Held(
        rss_mib=memory_mib,
        peak_rss_mib=peak_mib,
        cpu_s=time.process_time(),
        descriptors=descriptors,
        sessions=sum(count for name, count in gauges.items() if name.startswith(_SESSIONS)),
        half_open_links=gauges["half_open_links"],
        queued_bytes=sum(gauges[f"{what}_bytes"] for what in ("queued", "unwritten", "unacknowledged")),
        throttled=sum(group["val"] for group in throttles),
        received={str(type_): count for type_, count in application.received.items()},
        faults={name.removeprefix(_FAULT): count for name, count in counters.items() if name.startswith(_FAULT)},
    )


@contextmanager
def _spare_descriptors() -> Iterator[None]:
    """Raise the descriptor limit during the block, to read /proc although attackers use all descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + _SPARE_DESCRIPTORS, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _numbers(group: Mapping[str, object]) -> dict[str, int]:
    """Return the integer counters of a group, without the times."""
    return {name: int(value) for name, value in group.items() if isinstance(value, int | float)}


async def serve(spec: ServerSpec) -> None:
    """Run the server until the input ends."""
    os.sched_setaffinity(0, {spec.cpu})
    if spec.open_files:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spec.open_files, hard))
    application = Answering()
    async with Messenger(
        RECEIVER,
        auth_server=auth_server(CryptoKey.from_base64(spec.key)),
        dispatcher=application,
        policies=RECEIVER_POLICIES,
        config=Config.only_mode(ConMode.CRC, **spec.options),
    ) as messenger:
        answer(ready={str(protocol): str(await messenger.bind(HOST, protocol=protocol)) for protocol in Protocol})
        async for question in questions():
            answer(**{question: asdict(held(messenger, application))})


if __name__ == "__main__":
    asyncio.run(serve(ServerSpec.from_json(sys.stdin.buffer.readline())))
