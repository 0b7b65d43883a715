"""The program of an embedded daemon."""

import asyncio
from typing import Any

from toolkit.embedded.node.app import EmbeddedApp
from toolkit.embedded.node.spec import EmbeddedSpec
from toolkit.node.control import Control, serve


async def run_embedded(values: dict[str, Any], reader: asyncio.StreamReader, control: Control) -> None:
    """Run a monitor or an OSD until the input ends.

    Args:
        values: the daemon's spec.
        reader: source of commands.
        control: channel for answers and history records.

    Raises:
        LocalError: the spec is invalid, an address cannot be bound, or the monitor does not mark the OSD up.
    """
    spec = EmbeddedSpec.from_json(values)
    await serve(EmbeddedApp(spec, control.record), f"{spec.embedded}.{spec.id}", reader, control)
