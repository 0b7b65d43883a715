"""Shrink a failing timeline."""

from collections.abc import Callable, Sequence

from toolkit.cluster.nemesis.timeline import Timeline
from toolkit.faults.least import least

MOST_RUNS = 30
"""Each run takes real time."""


def shrink(fails: Callable[[Timeline], bool], timeline: Timeline, most_runs: int = MOST_RUNS) -> Timeline:
    """Return a part of a timeline that still fails and could not be shrunk further.

    A fault that lasts and the step that reverts it are kept or dropped together.

    Args:
        fails: runs a timeline, preferably on a fresh cluster, and returns True if it fails in the same way.
        timeline: a failing timeline.
        most_runs: most calls of ``fails``.
    """
    units = timeline.units()

    def still_fails(kept: Sequence[int]) -> bool:
        return fails(timeline.only([units[number] for number in kept]))

    kept, _ = least(range(len(units)), still_fails, most_runs)
    return timeline.only([units[number] for number in kept])
