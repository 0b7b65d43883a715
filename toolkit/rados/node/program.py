"""The program of a client node."""

import asyncio
from typing import Any

from toolkit.node.control import Control, serve
from toolkit.rados.node.app import RadosApp
from toolkit.rados.node.spec import RadosSpec


async def run_client(values: dict[str, Any], reader: asyncio.StreamReader, control: Control) -> None:
    """Run a client node until the input ends.

    Args:
        values: spec of the client.
        reader: its commands.
        control: takes answers and records.

    Raises:
        LocalError: the spec is invalid, or the cluster rejects the client.
    """
    spec = RadosSpec.from_json(values)
    await serve(RadosApp(spec, control.record), spec.rados, reader, control)
