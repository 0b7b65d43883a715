"""A hash over every byte of the catalogue's histories on the simulator, so that a change of shape proves itself.

``python -m tests.support.frozen`` freezes them again, where a change of behaviour is meant: its diff names the
scenarios and ways that changed. They are compared where Python and what compresses have the same versions.
"""

import json
import os
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from toolkit.lab.ways import Way
from toolkit.scenarios.runner import ScenarioRun

FROZEN = Path(__file__).parents[1] / "toolkit/scenarios/frozen.json"
_LIBRARIES = ("cramjam", "lz4", "zstandard", "cryptography")
_DIGITS = 12
_CHANGED = "{} no longer has the history that is frozen; if that is meant: python -m tests.support.frozen"


def digest(runs: Iterable[ScenarioRun]) -> str:
    """A hash over the histories of some runs."""
    histories = sha256()
    for run in runs:
        histories.update(run.history.dump().encode())
    return histories.hexdigest()[:_DIGITS]


def changed(name: str, now: str) -> str:
    """Return how a history differs from the frozen one; empty if it does not, or if it cannot be compared."""
    frozen = _frozen()
    if frozen["versions"] != _versions() or frozen["histories"].get(name) == now:
        return ""
    return _CHANGED.format(name)


@cache
def _frozen() -> dict[str, dict[str, str]]:
    return json.loads(FROZEN.read_text())


@cache
def _versions() -> dict[str, str]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python, "zlib": zlib.ZLIB_RUNTIME_VERSION, **{name: version(name) for name in _LIBRARIES}}


def _digest_of(values: tuple[str, Way]) -> str:
    from tests.toolkit.scenarios.test_every_way import runs_of

    return digest(runs_of(*values))


def main() -> None:
    """Freeze the histories as they are now."""
    from tests.toolkit.scenarios.test_every_way import EVERY_WAY

    with ProcessPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(_digest_of, [param.values for param in EVERY_WAY], chunksize=8)
        histories = {param.id: found for param, found in zip(EVERY_WAY, digests, strict=True)}
    before = _frozen()["histories"] if FROZEN.exists() else {}
    FROZEN.write_text(json.dumps({"versions": _versions(), "histories": histories}, indent=0) + "\n")
    others = sum(before.get(name) != found for name, found in histories.items())
    sys.stderr.write(f"{len(histories)} histories, {others} not as before\n")


if __name__ == "__main__":
    main()
