"""The simulator: lives of seeds, none of which may fail."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import toolkit.checks
import toolkit.lab.sim
import toolkit.simulation
from tests.mutations.code import digest_of
from tests.mutations.suites import Watch
from tests.mutations.suites.clock import TooLong, at_most_s
from toolkit.simulation.swarm import live

SEEDS = range(1, 401)
_LIFE_LIMIT_S = 15.0


def parts() -> list[str]:
    """The seeds."""
    return [f"seed {seed}" for seed in SEEDS]


def digest(_part: str) -> str:
    """Return the digest of the simulator's source."""
    return _digest()


@cache
def _digest() -> str:
    folders = [
        Path(path)
        for package in (toolkit.simulation, toolkit.lab.sim, toolkit.checks)
        for path in package.__path__
    ]
    return digest_of(
        path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.py"))
    )


def play(chosen: Iterable[str], watch: Watch) -> None:
    """Run seeds."""
    for part in chosen:
        if not watch.begin(part):
            return
        what = _failure(int(part.split()[1]))
        if what:
            watch.notice(part, f"{part}: {what}")


def _failure(seed: int) -> str:
    try:
        with at_most_s(_LIFE_LIMIT_S):
            outcome = live(seed)
    except (TooLong, MemoryError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if outcome.passed else f"{outcome.failures[0].id}: {outcome.failures[0].text}"
