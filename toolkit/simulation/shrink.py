"""Shrinks a schedule that fails to the fewest operations that still fail, by delta debugging."""

from collections.abc import Sequence
from dataclasses import replace

from toolkit.faults.least import least
from toolkit.simulation.draws import Size
from toolkit.simulation.swarm import Outcome, live

MOST_RUNS = {Size.SMALL: 200, Size.CLUSTER: 40}
"""Maximum number of runs for shrinking."""


def shrink(outcome: Outcome) -> Outcome:
    """Return the run of the same seed with the fewest operations that still causes its first failure.

    That run may have other failures too.
    """
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
