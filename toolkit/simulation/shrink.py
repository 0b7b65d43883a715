"""The least of a schedule that still fails: delta debugging over its operations."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from toolkit.simulation.drawing import Size
from toolkit.simulation.swarm import Outcome, live

MOST_RUNS = {Size.SMALL: 200, Size.CLUSTER: 40}
"""How many lives finding the least may cost."""


def least(
    candidates: Sequence[int], still_fails: Callable[[Sequence[int]], bool], most_runs: int
) -> tuple[list[int], int]:
    """A subset that still fails, and none of whose parts that were tried does (Zeller's ddmin).

    Args:
        candidates: what fails as a whole.
        still_fails: whether a part of it fails.
        most_runs: after so many questions the least so far is the answer.

    Returns:
        The subset, in order, and how many questions it took.
    """
    kept, parts, runs = list(candidates), 2, 0
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if runs == most_runs:
                return kept, runs
            runs += 1
            if still_fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept, runs


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
