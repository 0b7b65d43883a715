"""The least of a timeline that still fails."""

from collections.abc import Callable, Sequence

from toolkit.cluster.nemesis.timeline import Timeline
from toolkit.faults.least import least

MOST_RUNS = 30
"""Real time passes in each."""


def shrink(fails: Callable[[Timeline], bool], timeline: Timeline, most_runs: int = MOST_RUNS) -> Timeline:
    """A part of a timeline that still fails, though none of its parts that were tried does.

    A fault that lasts and what undoes it stay or go together.

    Args:
        fails: does a timeline to a cluster, best to a fresh one, and says whether the same is wrong again.
        timeline: fails.
        most_runs: how often that may be asked.
    """
    units = timeline.units()

    def still_fails(kept: Sequence[int]) -> bool:
        return fails(timeline.only([units[number] for number in kept]))

    kept, _ = least(range(len(units)), still_fails, most_runs)
    return timeline.only([units[number] for number in kept])
