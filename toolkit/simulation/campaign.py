"""Many seeds, shared by processes: what fails, which rare states were reached, and how fast it went.

The result does not depend on how many processes there are: seeds go out in chunks and come back in order.
"""

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from toolkit.interpreters import safe_workers
from toolkit.simulation.drawing import Size
from toolkit.simulation.marks import MARKS, marks_of
from toolkit.simulation.swarm import Failure, live

REPEAT = "SAME"
"""Id of the failure to do the same twice."""
_CHUNKS = {Size.SMALL: 10, Size.CLUSTER: 1}

_Unit = TypeVar("_Unit")


@dataclass(slots=True)
class Tally:
    """What some seeds came to; tallies add up."""

    runs: int = 0
    events: int = 0
    """Of the simulation; of runs of scenarios, records of their histories."""
    records: int = 0
    cpu_s: float = 0.0
    marks: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Any, list[Failure]]] = field(default_factory=list)
    """Which failed (a seed, or what names a run of a scenario), and how."""

    def add(self, other: "Tally") -> None:
        """Take in another."""
        self.runs += other.runs
        self.events += other.events
        self.records += other.records
        self.cpu_s += other.cpu_s
        self.marks += other.marks
        self.failed += other.failed


@dataclass(slots=True)
class Campaign:
    """What many seeds came to."""

    tally: Tally
    seconds: float
    """Wall time."""
    interrupted: bool = False
    """Ended before its last seed."""

    @property
    def runs_per_cpu_s(self) -> float:
        """How many runs a second one core makes, checks included."""
        return self.tally.runs / self.tally.cpu_s if self.tally.cpu_s else 0.0

    @property
    def never(self) -> list[str]:
        """Marks that nothing came to."""
        return [mark for mark in MARKS if not self.tally.marks[mark]]


def live_seeds(seeds: Sequence[int], size: Size, *, twice: bool = False) -> Tally:
    """The lives of some seeds.

    Args:
        seeds: which.
        size: how much there is in each.
        twice: whether to live each a second time and compare the histories byte by byte.
    """
    tally = Tally()
    with _without_collector():
        began_s = time.process_time()
        for seed in seeds:
            outcome = live(seed, size)
            failures = outcome.failures
            if twice and live(seed, size).digest != outcome.digest:
                failures = [*failures, Failure(REPEAT, "the second life of this seed was another one")]
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
    """A life makes cycles and ends soon: looking for garbage again and again meanwhile costs a tenth."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what there was before is no garbage now
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
) -> Campaign:
    """Live the lives of seeds.

    Args:
        seeds: which.
        size: how much there is in each.
        jobs: how many processes share them; one for each core unless given.
        twice: see :func:`live_seeds`.
        progress: called with the tally of each chunk as it comes in.
    """
    return run(seeds, partial(live_seeds, size=size, twice=twice), _CHUNKS[size], jobs, progress)


def run(
    units: Sequence[_Unit],
    work: Callable[[Sequence[_Unit]], Tally],
    chunk: int,
    jobs: int | None = None,
    progress: Callable[[Tally], None] = lambda _tally: None,
) -> Campaign:
    """Have processes share units of work; Ctrl-C ends it with what was done so far.

    Args:
        units: what to do.
        work: does some of them; a function of a module, or a partial one, so that other processes can find it.
        chunk: how many at a time.
        jobs: how many processes; one for each core unless given.
        progress: called with the tally of each chunk as it comes in.
    """
    campaign = Campaign(Tally(), 0.0)
    began_s = time.monotonic()
    chunks = [units[start : start + chunk] for start in range(0, len(units), chunk)]
    jobs = min(jobs or os.cpu_count() or 1, len(chunks))
    try:
        for tally in map(work, chunks) if jobs <= 1 else _shared(chunks, work, jobs):
            campaign.tally.add(tally)
            progress(tally)
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = time.monotonic() - began_s
    return campaign


def _shared(
    chunks: Sequence[Sequence[_Unit]], work: Callable[[Sequence[_Unit]], Tally], jobs: int
) -> Iterator[Tally]:
    with safe_workers():
        pool = ProcessPoolExecutor(jobs, initializer=_begin_worker)
        try:
            yield from pool.map(work, chunks)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Ctrl-C goes to the whole terminal; this process ends when its parent says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
