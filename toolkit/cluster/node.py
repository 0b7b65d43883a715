"""A node as a process: the scenario application on a real messenger, told what to do over its standard input.

Control is JSON lines. The first line is the node's spec (:class:`toolkit.scenarios.nodes.NodeSpec`); the node
answers ``{"ready": ADDR}`` once it listens. Then each ``{"id": N, "verb": VERB, "args": {...}}`` is answered by
``{"reply": N, "answer": {...}}`` or ``{"reply": N, "error": "..."}``. In between come history records,
``{"record": [TIME_S, KIND, {FIELDS}]}``. The end of the input ends the node.
"""

import asyncio
import json
import sys
from random import Random
from typing import Any, BinaryIO

from messenger.denc.address import EntityAddr
from messenger.errors import LocalError, MsgrError
from messenger.link import Protocol
from messenger.messenger import Messenger
from toolkit.scenarios.nodes import NodeApp, NodeSpec

_VERBS = frozenset({"connect", "send", "keepalive", "mark_down", "snapshot"})
_MAX_LINE_BYTES = 1 << 20


class ControlChannel:
    """Writes JSON lines for the controller."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def put(self, **values: Any) -> None:  # noqa: ANN401 - as JSON
        """Write one line."""
        self._out.write(json.dumps(values, separators=(",", ":")).encode() + b"\n")
        self._out.flush()

    def record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        """Write one history record."""
        self.put(record=[time_s, kind, fields])


async def run_node(lines: BinaryIO, out: BinaryIO) -> None:
    """Be a node until ``lines`` ends.

    Raises:
        LocalError: the first line is no spec, or the address cannot be bound.
    """
    control = ControlChannel(out)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), lines)
    try:
        spec = NodeSpec.from_json(json.loads(await reader.readline()))
    except ValueError as error:
        raise LocalError(f"node: the first line of input must be a node spec in JSON: {error}") from None
    app = NodeApp(spec, control.record)
    async with _messenger(spec, app) as messenger:
        app.attach(messenger)
        if spec.listens:
            own = spec.addrs.front
            await messenger.bind(own.host, own.port, Protocol.of(own))
        control.put(ready=str(messenger.addrs))
        while line := await reader.readline():
            control.put(**_carry_out(app, line))


def _messenger(spec: NodeSpec, app: NodeApp) -> Messenger:
    routes = {spec.peers[name]: route for name, route in spec.routes.items()}

    def route(addr: EntityAddr) -> tuple[str, int]:
        host, _, port = routes.get(str(addr), f"{addr.host}:{addr.port}").rpartition(":")
        return host, int(port)

    return Messenger(
        spec.entity_name,
        auth_client=spec.auth_client(),
        auth_server=spec.auth_server(),
        dispatcher=app,
        policies=spec.policies(),
        config=spec.config(),
        rng=Random(f"{spec.seed} {spec.name} {spec.incarnation}"),
        nonce=spec.addrs.front.nonce,
        workers=spec.workers,
        route=route,
        trace=app.trace,
    )


def _carry_out(app: NodeApp, line: bytes) -> dict[str, Any]:
    """One command; whatever is wrong with it becomes the answer."""
    number = None
    try:
        command = json.loads(line)
        number, verb = command.get("id"), command.get("verb")
        if verb not in _VERBS:
            raise LocalError(f"unknown verb {verb!r}; known: {', '.join(sorted(_VERBS))}")
        answer = getattr(app, verb)(**command.get("args", {}))
    except (ValueError, TypeError, KeyError, AttributeError, MsgrError) as error:
        return {"reply": number, "error": f"{type(error).__name__}: {error}"}
    return {"reply": number, "answer": answer or {}}


def main() -> None:
    """Be a node on standard input and output; what is wrong with the input is one line on standard error."""
    try:
        asyncio.run(run_node(sys.stdin.buffer, sys.stdout.buffer))
    except LocalError as error:
        sys.exit(f"msgrlab node: {error}")


if __name__ == "__main__":
    main()
