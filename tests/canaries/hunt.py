"""Looking for a canary: lives of seeds until one shows it."""

from dataclasses import dataclass

from tests.canaries.bugs import CANARIES, MOST_SEEDS
from tests.canaries.canary import Canary
from toolkit.lab.campaign import Failure
from toolkit.simulation.swarm import live


@dataclass(frozen=True, slots=True)
class Catch:
    """A canary that was found."""

    seed: int
    failures: list[Failure]

    def __str__(self) -> str:
        first = self.failures[0]
        return f"seed {self.seed}: {first.id}: {first.text}"


def hunt(canary: Canary, seeds: range = range(1, MOST_SEEDS + 1)) -> Catch | None:
    """The first of these seeds that shows the canary; None if none does."""
    with canary.alive():
        for seed in seeds:
            outcome = live(seed)
            if not outcome.passed:
                return Catch(seed, outcome.failures)
    return None


def named(words: str) -> list[Canary]:
    """The canaries in whose names these words stand."""
    return [canary for canary in CANARIES if words in canary.name]
