"""The controller's side of a benchmark process: JSON lines on its standard input and output."""

import asyncio
import json
import subprocess
from typing import Any, Self

from messenger.errors import LocalError
from toolkit.machine.interpreters import PYTHON, environment

_ANSWER_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 5.0


class BenchProcess:
    """A module that runs in its own process; it imports all it needs before it reads its first line.

    Args:
        module: name of the module for ``python -m``; it uses ``toolkit.bench.control``.
        role: name of the process in error messages.
    """

    def __init__(self, module: str, role: str) -> None:
        self._module = module
        self.role = role

    async def __aenter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *PYTHON, "-m", self._module, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
        )
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self._process.communicate()
        except TimeoutError:
            self._process.kill()
            await self._process.communicate()

    def write(self, line: str) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def ask(self, question: str) -> Any:  # noqa: ANN401 - as JSON
        """Send ``{QUESTION: true}`` and return the value of the answer.

        Raises:
            LocalError: the process exited, or sent no answer in time.
        """
        self.write(json.dumps({question: True}))
        return await self.answer(question)

    async def answer(self, key: str) -> Any:  # noqa: ANN401 - as JSON
        """Return the value of the next line, which must have the key ``key``.

        Raises:
            LocalError: the process exited, or sent no line in time.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise LocalError(f"{self}: no answer within {_ANSWER_TIMEOUT_S:g} s") from None
        if not line:
            assert self._process.stderr is not None
            last_words = (await self._process.stderr.read()).decode(errors="replace").strip()
            raise LocalError(f"{self} ended: {last_words.rpartition(chr(10))[2]}")
        return json.loads(line)[key]

    def __str__(self) -> str:
        return f"benchmark's {self.role} process"
