"""Programs on the control channel of :mod:`toolkit.cluster.node` whose commands may take their time."""

import asyncio
import json
from typing import Any, Protocol

from messenger.errors import LocalError, MsgrError


class Control(Protocol):
    """Writes lines for the controller."""

    def put(self, **values: Any) -> None:  # noqa: ANN401 - as JSON
        """Write one line."""

    def record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        """Write one history record."""


class Served(Protocol):
    """What runs behind a control channel."""

    async def open(self) -> None:
        """Begin; raises LocalError."""

    async def close(self) -> None:
        """End."""

    async def carry_out(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command; raises MsgrError, or TypeError for other arguments than it takes."""


async def serve(app: Served, ready: str, reader: asyncio.StreamReader, control: Control) -> None:
    """Run a program until its input ends.

    Args:
        app: the program.
        ready: its name, which the controller is sent once it has begun.
        reader: its commands.
        control: takes answers.

    Raises:
        LocalError: it cannot begin.
    """
    await app.open()
    try:
        control.put(ready=ready)
        while line := await reader.readline():
            control.put(**await _carry_out(app, line))
    finally:
        await app.close()


async def _carry_out(app: Served, line: bytes) -> dict[str, Any]:
    """One command; whatever is wrong with it becomes the answer."""
    number = None
    try:
        command = json.loads(line)
        number = command.get("id")
        if not isinstance(command.get("verb"), str):
            raise LocalError("a command needs a verb")
        answer = await app.carry_out(command["verb"], command.get("args", {}))
    except (ValueError, TypeError, KeyError, AttributeError, TimeoutError, MsgrError) as error:
        return {"reply": number, "error": f"{type(error).__name__}: {error}"}
    return {"reply": number, "answer": answer}
