"""A node's process: the scenario application on a real messenger, controlled over its standard input.

Control is JSON lines. The first line is the node's spec (:class:`toolkit.node.NodeSpec`); the node answers
``{"ready": ADDR}`` once it listens. Then each ``{"id": N, "verb": VERB, "args": {...}}`` is answered by
``{"reply": N, "answer": {...}}`` or ``{"reply": N, "error": "..."}``. History records come in between, as
``{"record": [TIME_S, KIND, {FIELDS}]}``. The node exits at the end of its input.

A client of a Ceph cluster has another spec (:class:`toolkit.rados.node.spec.RadosSpec`) and is ready when it is
connected; an embedded daemon has :class:`toolkit.embedded.node.spec.EmbeddedSpec`.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from messenger.denc.address import EntityAddr
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.messenger import Messenger
from toolkit.node import NodeApp, NodeSpec
from toolkit.node.control import MISTAKES, MOST_LINE_BYTES
from toolkit.node.live_random import LiveRandom

VERBS = frozenset(NodeApp.VERBS)
"""The commands that a node accepts."""


class ControlChannel:
    """Writes JSON lines to the controller."""

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
    """Run a node until ``lines`` ends.

    Raises:
        LocalError: the first line is no spec, or the address cannot be bound.
    """
    control = ControlChannel(out)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), lines)
    try:
        values = json.loads(await reader.readline())
    except ValueError as error:
        raise LocalError(f"node: the first line of input must be a node spec in JSON: {error}") from None
    if isinstance(values, dict) and "rados" in values:
        from toolkit.rados.node.program import run_client  # noqa: PLC0415 - only for clients of real clusters

        await run_client(values, reader, control)
        return
    if isinstance(values, dict) and "embedded" in values:
        from toolkit.embedded.node.program import run_embedded  # noqa: PLC0415 - only for embedded daemons

        await run_embedded(values, reader, control)
        return
    spec = NodeSpec.from_json(values)
    app = NodeApp(spec, control.record)
    async with await open_node(spec, app) as messenger:
        control.put(ready=str(messenger.addrs))
        while line := await reader.readline():
            control.put(**_carry_out(app, line))


async def open_node(spec: NodeSpec, app: NodeApp) -> Messenger:
    """Return a node's messenger with ``app`` on it; it listens if the spec says so.

    Raises:
        LocalError: the address cannot be bound.
    """
    messenger = _messenger(spec, app)
    app.attach(messenger, partial(_stop, messenger), asyncio.get_running_loop().call_later)
    if spec.listens:
        for own in spec.addrs:
            await messenger.bind(own.host, own.port, Protocol.of(own))
    return messenger


def _messenger(spec: NodeSpec, app: NodeApp) -> Messenger:
    def route(addr: EntityAddr) -> tuple[str, int]:
        direct = f"{addr.host}:{addr.port}"
        host, _, port = spec.routes.get(direct, direct).rpartition(":")
        return host, int(port)

    return Messenger(
        spec.entity_name,
        auth_client=app.logins.credentials.client,
        auth_server=app.logins.credentials.server,
        dispatcher=app,
        policies=spec.policies(),
        config=spec.config(),
        rng=LiveRandom(f"{spec.seed} {spec.name} {spec.incarnation}"),
        nonce=spec.addrs.front.nonce,
        workers=spec.workers,
        route=route,
        trace=app.trace,
        interceptor=app.points,
        key_log=spec.key_log or None,
    )


def _stop(messenger: Messenger, graceful: bool, stopped: Callable[[], None]) -> None:  # noqa: FBT001 - see Stop
    """Shut a messenger down, then call ``stopped``; the process goes on."""

    def done(shutdown: asyncio.Task[None]) -> None:
        shutdown.result()
        stopped()

    asyncio.get_running_loop().create_task(messenger.shutdown(graceful=graceful)).add_done_callback(done)


def _carry_out(app: NodeApp, line: bytes) -> dict[str, Any]:
    """Run one command and return the reply; any error in it becomes an error reply."""
    number = None
    try:
        command = json.loads(line)
        number, verb = command.get("id"), command.get("verb")
        if verb not in VERBS:
            raise LocalError(f"unknown verb {verb!r}; known: {', '.join(sorted(VERBS))}")
        answer = getattr(app, verb)(**command.get("args", {}))
    except MISTAKES as error:
        words = str(error) if isinstance(error, LocalError) else f"{type(error).__name__}: {error}"
        return {"reply": number, "error": words}
    return {"reply": number, "answer": answer or {}}


def main() -> None:
    """Run a node on standard input and output; bad input ends it with one line on standard error."""
    try:
        asyncio.run(run_node(sys.stdin.buffer, sys.stdout.buffer))
    except LocalError as error:
        sys.exit(f"msgrlab node: {error}")


if __name__ == "__main__":
    main()
