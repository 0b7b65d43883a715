"""Runs the lives of many seeds on several processes or machines. A life is the run of one seed."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from toolkit.checks.marks import marks_of
from toolkit.lab.campaign import Campaign, Failure, Tally, run
from toolkit.simulation.draws import Size
from toolkit.simulation.swarm import live

REPEAT = "SAME"
"""Id of the failure of a seed whose second run has a different history."""
_CHUNKS = {Size.SMALL: 10, Size.CLUSTER: 1}


def live_seeds(seeds: Sequence[int], size: Size, *, twice: bool = False) -> Tally:
    """Run the lives of some seeds.

    Args:
        seeds: the seeds.
        size: size of each life.
        twice: True to run each a second time and compare the histories byte by byte.
    """
    tally = Tally()
    with _without_collector():
        began_s = time.process_time()
        for seed in seeds:
            outcome = live(seed, size)
            failures = outcome.failures
            if twice and live(seed, size).digest != outcome.digest:
                failures = [*failures, Failure(REPEAT, "the second run of this seed has a different history")]
            tally.runs += 1
            tally.events += outcome.events
            tally.records += len(outcome.history)
            tally.marks += marks_of(outcome.history)
            if failures:
                tally.failed.append((seed, failures))
        tally.cpu_s = time.process_time() - began_s
    return tally


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable garbage collection, which takes a tenth of the time; a life is short, so its garbage stays small."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # older objects need not be examined
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if enabled:
            gc.enable()


def run_seeds(
    seeds: Sequence[int],
    size: Size = Size.SMALL,
    jobs: int | None = None,
    *,
    twice: bool = False,
    progress: Callable[[Tally], None] = lambda _tally: None,
    dask: str = "",
) -> Campaign:
    """Run the lives of seeds in several processes.

    Args:
        seeds: the seeds.
        size: size of each life.
        jobs: number of processes; one for each core unless given.
        twice: see :func:`live_seeds`.
        progress: called with the tally of each finished chunk of seeds.
        dask: address of a Dask scheduler whose workers run the lives instead, or ``local``.

    Raises:
        Unsupported: as :func:`~toolkit.machine.workers.by_dask`.
    """
    return run(seeds, partial(live_seeds, size=size, twice=twice), _CHUNKS[size], jobs, progress, dask)
