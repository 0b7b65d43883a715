"""The benchmark process's end of the JSON lines that it exchanges with :mod:`toolkit.bench.process`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any


def answer(**values: Any) -> None:  # noqa: ANN401 - as JSON
    """Write one line to the controller."""
    print(json.dumps(values), flush=True)


async def questions() -> AsyncIterator[str]:
    """Yield the key of each line that the controller sends, until it closes its end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        (question,) = json.loads(line)
        yield question
