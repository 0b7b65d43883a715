"""Programs on the control channel of :mod:`toolkit.cluster.node` with asynchronous commands."""

import asyncio
import json
from typing import Any, Protocol

from messenger.errors import LocalError, MsgrError

MOST_LINE_BYTES = 1 << 20
"""Longest line to a program."""
MISTAKES = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    TimeoutError,
    MsgrError,
)
"""What arguments of a wrong type or size raise; the program goes on."""


class Control(Protocol):
    """Writes lines to the controller."""

    def put(self, **values: Any) -> None:  # noqa: ANN401 - as JSON
        """Write one line."""

    def record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        """Write one history record."""


class Served(Protocol):
    """A program behind a control channel."""

    async def open(self) -> None:
        """Start the program; raises LocalError."""

    async def close(self) -> None:
        """Stop the program."""

    async def carry_out(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a command and return its answer; raises MsgrError, or TypeError for wrong arguments."""


async def serve(app: Served, ready: str, reader: asyncio.StreamReader, control: Control) -> None:
    """Run a program until its input ends.

    Args:
        app: the program.
        ready: name that is sent to the controller once the program has started.
        reader: its commands.
        control: takes replies.

    Raises:
        LocalError: it cannot start.
    """
    await app.open()
    try:
        control.put(ready=ready)
        while line := await reader.readline():
            control.put(**await _carry_out(app, line))
    finally:
        await app.close()


async def _carry_out(app: Served, line: bytes) -> dict[str, Any]:
    """Run one command and return the reply; any error in it becomes an error reply."""
    number = None
    try:
        command = json.loads(line)
        number = command.get("id")
        if not isinstance(command.get("verb"), str):
            raise LocalError("a command needs a verb")
        answer = await app.carry_out(command["verb"], command.get("args", {}))
    except MISTAKES as error:
        return {"reply": number, "error": f"{type(error).__name__}: {error}"}
    return {"reply": number, "answer": answer}
