"""The controller's side of a program that runs another messenger in the same cells.

docs/speed.md describes the options and answers of such a program.
"""

import asyncio
import json
import math
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from messenger.errors import LocalError
from toolkit.bench.cell import Cell
from toolkit.bench.measure import Turn, cpus
from toolkit.report.terminal import shown_line

_ANSWER_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 5.0
_MOST_QUOTED = 80
_LONGEST_COMPLAINT = 1000


def options(cell: Cell) -> list[str]:
    """Return the command-line options of a program for a cell."""
    sender_cpu, receiver_cpu = cpus(cell.cores)
    values = {
        "proto": cell.protocol.value,
        "mode": cell.mode,
        "pattern": cell.pattern.value,
        "size": cell.size,
        "in-flight": cell.in_flight,
        "cpus": f"{sender_cpu},{receiver_cpu}",
        "control": "yes",
    }
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


class Program:
    """The program: a context manager that starts it for one cell, and ends it with the block.

    Args:
        path: path of the program.
        cell: the cell to measure.

    Raises:
        LocalError: on entry, if the program cannot be started.
    """

    def __init__(self, path: Path, cell: Cell) -> None:
        self._path = path
        self._options = options(cell)

    async def __aenter__(self) -> Self:
        pipe = subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(self._path.absolute()), *self._options, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise LocalError(f"{self._path} cannot be run: {error.strerror}") from None
        assert self._process.stderr is not None
        self._complaints = asyncio.create_task(_last_line(self._process.stderr))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        finally:
            self._complaints.cancel()

    async def run(self, count: int) -> Turn:
        """Have the program send ``count`` messages; return its figures.

        Raises:
            LocalError: the program exited, sent nothing for two minutes, or sent an invalid answer.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % count)
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                with suppress(ConnectionError):  # the program exited; its last output says more
                    await self._process.stdin.drain()
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise LocalError(f"{self._path}: no answer within {_ANSWER_TIMEOUT_S:g} s") from None
        except ValueError:
            raise LocalError(f"{self._path}: the answer is longer than a line may be") from None
        if not line.endswith(b"\n"):
            raise await self._ended()
        return self._turn(line, count)

    def _turn(self, line: bytes, count: int) -> Turn:
        try:
            values = json.loads(line)
            elapsed_s, cpu_us = (_positive(values[name]) for name in ("elapsed_s", "cpu_us_per_op"))
            if values["count"] != count:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            quoted = shown_line(line.decode(errors="replace").strip()[:_MOST_QUOTED])
            raise LocalError(
                f"{self._path}: answered {quoted!r} to {count} messages, which is not a JSON object with this"
                " count, elapsed_s and cpu_us_per_op"
            ) from None
        return Turn(elapsed_s, cpu_us * count / 1e6)

    async def _ended(self) -> LocalError:
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                code = await self._process.wait()
                complaint = await self._complaints
        except TimeoutError:
            return LocalError(f"{self._path}: closed its output")
        return LocalError(f"{self._path}: ended with exit code {code}" + (f": {complaint}" if complaint else ""))


async def _last_line(errors: asyncio.StreamReader) -> str:
    """Read to the end and return the last line that is not empty."""
    last = b""
    while piece := await errors.read(1 << 16):
        last = (last + piece)[-_LONGEST_COMPLAINT:]
    return shown_line(last.decode(errors="replace").strip().rpartition("\n")[2])


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError
    return float(value)
