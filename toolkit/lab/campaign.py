"""Many runs, shared by processes or machines: what fails, which rare states were reached, and how fast it went.

The result does not depend on how many there are: runs go out in chunks and come back in order.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolkit.checks.marks import MARKS
from toolkit.machine.sharing import by_dask, by_processes

_Unit = TypeVar("_Unit")


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong with a run."""

    id: str
    """Of the check: ``INV-1`` and so on, or what else was required."""
    text: str
    record: int | None = None
    """Place in the history of the record that shows it."""


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
        """Runs per second of one core, checks included."""
        return self.tally.runs / self.tally.cpu_s if self.tally.cpu_s else 0.0

    @property
    def never(self) -> list[str]:
        """Marks that nothing came to."""
        return [mark for mark in MARKS if not self.tally.marks[mark]]


def run(
    units: Sequence[_Unit],
    work: Callable[[Sequence[_Unit]], Tally],
    chunk: int,
    jobs: int | None = None,
    progress: Callable[[Tally], None] = lambda _tally: None,
    dask: str = "",
) -> Campaign:
    """Have processes share units of work; Ctrl-C ends it with what was done so far.

    Args:
        units: what to do.
        work: does some of them; a function of a module, or a partial one, so that other processes can find it.
        chunk: number of runs at a time.
        jobs: number of processes; one for each core unless given.
        progress: called with the tally of each chunk as it comes in.
        dask: address of a Dask scheduler whose workers share them instead.

    Raises:
        Unsupported: as :func:`~toolkit.machine.sharing.by_dask`.
    """
    campaign = Campaign(Tally(), 0.0)
    began_s = time.monotonic()
    chunks = [units[start : start + chunk] for start in range(0, len(units), chunk)]
    jobs = min(jobs or os.cpu_count() or 1, len(chunks))
    try:
        for tally in _shared(chunks, work, jobs, dask):
            campaign.tally.add(tally)
            progress(tally)
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = time.monotonic() - began_s
    return campaign


def _shared(
    chunks: Sequence[Sequence[_Unit]], work: Callable[[Sequence[_Unit]], Tally], jobs: int, dask: str
) -> Iterator[Tally]:
    if dask:
        return by_dask(work, chunks, dask)
    return map(work, chunks) if jobs <= 1 else by_processes(work, chunks, jobs)
