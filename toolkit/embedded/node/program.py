"""The program of an embedded daemon."""

import asyncio
from typing import Any

from toolkit.embedded.node.app import EmbeddedApp
from toolkit.embedded.node.spec import EmbeddedSpec
from toolkit.node.control import Control, serve


async def run_embedded(values: dict[str, Any], reader: asyncio.StreamReader, control: Control) -> None:
    """Be a monitor or an OSD until the input ends.

    Args:
        values: its spec.
        reader: its commands.
        control: takes answers and records.

    Raises:
        LocalError: the spec is none, an address cannot be bound, or the monitor does not let an OSD in.
    """
    spec = EmbeddedSpec.from_json(values)
    await serve(EmbeddedApp(spec, control.record), f"{spec.embedded}.{spec.id}", reader, control)
