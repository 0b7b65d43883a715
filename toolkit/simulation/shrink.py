"""The least of a schedule that still fails: delta debugging over its operations."""

from collections.abc import Sequence
from dataclasses import replace

from toolkit.faults.least import least
from toolkit.simulation.drawing import Size
from toolkit.simulation.swarm import Outcome, live

MOST_RUNS = {Size.SMALL: 200, Size.CLUSTER: 40}
"""Most runs that shrinking may take."""


def shrink(outcome: Outcome) -> Outcome:
    """The same seed with as few operations as still make its first failure, whatever else they make."""
    wanted = outcome.failures[0].id
    best = outcome

    def still_fails(places: Sequence[int]) -> bool:
        nonlocal best
        tried = live(outcome.seed, outcome.options.size, places)
        fails = any(failure.id == wanted for failure in tried.failures)
        if fails:
            best = tried
        return fails

    places = range(len(outcome.plan)) if outcome.keep is None else sorted(outcome.keep)
    kept, _ = least(places, still_fails, MOST_RUNS[outcome.options.size])
    return replace(best, keep=tuple(kept))
