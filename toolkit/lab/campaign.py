"""Many runs, shared by processes or machines: their failures, the rare states that they reached, and their speed.

The result does not depend on the number of processes: runs are handed out in chunks, and results come in order.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolkit.checks.marks import MARKS
from toolkit.machine.workers import by_dask, by_processes

_Unit = TypeVar("_Unit")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a run."""

    id: str
    """Id of the check, such as ``INV-1``, or of another requirement."""
    text: str
    record: int | None = None
    """Index in the history of the record that shows it; None if there is no such record."""


@dataclass(slots=True)
class Tally:
    """The results of some runs; tallies can be added."""

    runs: int = 0
    events: int = 0
    """Events of the simulation; for runs of scenarios, records of their histories."""
    records: int = 0
    cpu_s: float = 0.0
    marks: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Any, list[Failure]]] = field(default_factory=list)
    """The runs that failed, each a seed or the command of a scenario's run, with their failures."""

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        self.runs += other.runs
        self.events += other.events
        self.records += other.records
        self.cpu_s += other.cpu_s
        self.marks += other.marks
        self.failed += other.failed


@dataclass(slots=True)
class Campaign:
    """The results of all runs."""

    tally: Tally
    seconds: float
    """Wall time in seconds."""
    interrupted: bool = False
    """True if Ctrl-C ended it before its last run."""

    @property
    def runs_per_cpu_s(self) -> float:
        """Runs per second of one core, checks included."""
        return self.tally.runs / self.tally.cpu_s if self.tally.cpu_s else 0.0

    @property
    def never(self) -> list[str]:
        """The marks that no run reached."""
        return [mark for mark in MARKS if not self.tally.marks[mark]]


def run(
    units: Sequence[_Unit],
    work: Callable[[Sequence[_Unit]], Tally],
    chunk: int,
    jobs: int | None = None,
    progress: Callable[[Tally], None] = lambda _tally: None,
    dask: str = "",
) -> Campaign:
    """Have processes share units of work; Ctrl-C ends it with the results so far.

    Args:
        units: the units, in order.
        work: runs some units and returns their tally; a module's function, or a partial of one, so that other
            processes can import it.
        chunk: number of units for each call of ``work``.
        jobs: number of processes; one for each core unless given.
        progress: called with the tally of each chunk as it comes in.
        dask: address of a Dask scheduler whose workers run the units instead.

    Raises:
        Unsupported: as :func:`~toolkit.machine.workers.by_dask`.
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
