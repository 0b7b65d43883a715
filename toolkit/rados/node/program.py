"""The program of a client node; its control channel is that of :mod:`toolkit.cluster.node`."""

import asyncio
import json
from typing import Any, Protocol

from messenger.errors import LocalError, MsgrError
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.spec import RadosSpec


class Control(Protocol):
    """Writes lines for the controller."""

    def put(self, **values: Any) -> None:  # noqa: ANN401 - as JSON
        """Write one line."""

    def record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        """Write one history record."""


async def run_client(values: dict[str, Any], reader: asyncio.StreamReader, control: Control) -> None:
    """Be a client until the input ends.

    Args:
        values: its spec.
        reader: its commands.
        control: takes answers and records.

    Raises:
        LocalError: the spec is none, or the cluster does not let it in.
    """
    spec = RadosSpec.from_json(values)
    app = RadosApp(spec, control.record)
    await app.open()
    try:
        control.put(ready=spec.rados)
        while line := await reader.readline():
            control.put(**await _carry_out(app, line))
    finally:
        await app.close()


async def _carry_out(app: RadosApp, line: bytes) -> dict[str, Any]:
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
