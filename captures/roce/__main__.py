"""Makes the captures over RDMA anew, in a micro-VM.

``msgrlab vm run --out captures/roce -- python -m captures.roce [NAME...]``
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from captures.expected import CAPTURE, write_expected
from captures.roce.recipes import RECIPES, RoceRecipe
from captures.trim import compress
from messenger.denc.entity import EntityType
from messenger.messenger import Connection, Messenger
from tests.messenger.transport.rdma import devices, sessions
from tests.support import aio
from tests.support.aio import until
from tests.support.node import numbered
from toolkit.capture import capturing

HERE = Path(__file__).parent
INTERFACE = "va"
_PATIENCE_S = 100.0


def main() -> int:
    """Make the captures named on the command line; all if none is."""
    names = sys.argv[1:] or list(RECIPES)
    if unknown := [name for name in names if name not in RECIPES]:
        print(f"no capture {', '.join(unknown)}: there are {', '.join(RECIPES)}", file=sys.stderr)
        return 2
    aio.CONDITION_TIMEOUT_S = _PATIENCE_S
    with devices.made():
        for name in names:
            make(HERE / name, RECIPES[name])
            print(name, flush=True)
    return 0


def make(directory: Path, recipe: RoceRecipe) -> None:
    """Make one capture anew, with what both ends have received."""
    directory.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch:
        raw, key_log = Path(scratch) / "capture.pcapng", Path(scratch) / "keys.log"
        key_log.touch(0o600)
        with capturing(INTERFACE, raw, key_log=key_log, notes=[recipe.shows]):
            ends = asyncio.run(_talk(recipe, key_log))
        compress(raw.read_bytes(), directory / CAPTURE)
    write_expected(directory)
    (directory / "ends.json").write_text(json.dumps(ends, indent=1) + "\n", "utf-8")


async def _talk(recipe: RoceRecipe, key_log: Path) -> dict[str, list[list[object]]]:
    """Both ends send messages to each other; returns what each has received, in that order."""
    mine, theirs = sessions.Recorder(), sessions.Recorder()
    options: dict[str, Any] = {"key_log": key_log, **recipe.options}
    server_options: dict[str, Any] = dict(recipe.server_options)
    async with (
        sessions.node(sessions.CLIENT, mine, mode=recipe.mode, **options) as client,
        sessions.node(sessions.SERVER, theirs, mode=recipe.mode, **options, **server_options) as server,
    ):
        await client.bind(devices.HOSTS[sessions.CLIENT], 0, recipe.protocol)
        address = await server.bind(devices.HOSTS[sessions.SERVER], 0, recipe.protocol)
        connection = client.connect(address, EntityType.OSD)
        await connection.ready(_PATIENCE_S)
        try:
            _lose_packets(recipe.loss_percent)
            await _exchange(recipe, server, connection, mine, theirs)
        finally:
            if recipe.loss_percent:
                for interface in ("va", "vb"):
                    devices.tc("del", "dev", interface, "root")
    return {"client": _seen(mine), "server": _seen(theirs)}


async def _exchange(
    recipe: RoceRecipe,
    server: Messenger,
    connection: Connection,
    mine: sessions.Recorder,
    theirs: sessions.Recorder,
) -> None:
    for number, size_bytes in enumerate(recipe.sizes_bytes):
        connection.send(numbered(number, size_bytes))
    await until(lambda: len(theirs.received) == len(recipe.sizes_bytes))
    (back,) = server.connections.values()
    for number, size_bytes in enumerate(recipe.sizes_bytes):
        back.send(numbered(number, size_bytes))
    await until(lambda: len(mine.received) == len(recipe.sizes_bytes))


def _lose_packets(percent: int) -> None:
    if percent:
        for interface in ("va", "vb"):
            devices.tc("add", "dev", interface, "root", "netem", "loss", f"{percent}%")


def _seen(recorder: sessions.Recorder) -> list[list[object]]:
    return [[tid, len(data), hashlib.sha256(data).hexdigest()[:16]] for tid, data in recorder.received]


if __name__ == "__main__":
    sys.exit(main())
