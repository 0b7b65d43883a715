"""The process of our client: writes objects as ``rados bench`` does, and prints the time that it took, as JSON.

It reads its :class:`Load` from the standard input. The times exclude its start, its login and the removal of the
objects.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.errors import MsgrError
from toolkit.rados.client import Rados

LONGEST_S = 120
"""Time limit of a turn in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The objects to write, and their cluster."""

    addr: str
    """Address of the monitor."""
    keyring: str
    """File with the key of ``client.admin``."""
    mode: str
    """crc or secure."""
    pool: str
    size: int
    """Bytes of each object."""
    in_flight: int
    """Number of writes in flight."""
    count: int
    """Number of objects."""

    def as_json(self) -> str:
        """Return the JSON object, which the process reads."""
        return json.dumps(asdict(self))


async def write(load: Load) -> dict[str, float]:
    """Write the objects, and remove them.

    Returns:
        Seconds from the first write to the last reply, and CPU seconds of this process in that time.

    Raises:
        LocalError: the keyring has no key for ``client.admin``.
        RadosError: the cluster refuses the client or a write.
        TimeoutError: the writes take longer than LONGEST_S.
    """
    config = Config.only_mode(ConMode[load.mode.upper()])
    async with Rados.connect(load.addr, keyring=load.keyring, config=config) as rados:
        pool, data = rados.pool(load.pool), os.urandom(load.size)
        began_s, cpu_s = time.monotonic(), time.process_time()
        async with asyncio.timeout(LONGEST_S):
            await _each(load, lambda oid: pool.write(oid, data))
        took = {"elapsed_s": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
        await _each(load, pool.remove)
    return took


async def _each(load: Load, do: Callable[[str], Awaitable[None]]) -> None:
    """Call ``do`` with the name of each object, in as many tasks as requests may be in flight."""
    numbers = iter(range(load.count))

    async def work() -> None:
        for number in numbers:
            await do(f"msgrlab-bench-{number}")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(load.in_flight, load.count)):
            tasks.create_task(work())


def main() -> None:
    """Run the load on the standard input; print an error as one line, and exit with code 1."""
    took = None
    try:
        took = asyncio.run(write(Load(**json.load(sys.stdin))))
    except* TimeoutError:
        print(f"the writes were not done within {LONGEST_S} s", file=sys.stderr)
    except* MsgrError as errors:  # the login raises a single error, the writes raise a group
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(error, file=sys.stderr)
    if took is None:
        sys.exit(1)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
