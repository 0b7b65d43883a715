"""Batches of runs: their list, and how processes or machines share them."""

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from toolkit.lab.ways import Way
from toolkit.machine.interpreters import safe_workers
from toolkit.machine.workers import by_dask
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.runner import ScenarioRun, run_scenario
from toolkit.scenarios.scenario import IN_GUEST, OVER_RDMA, Case, Scenario

_Call = tuple[str, str, str, Way, int, tuple[str, ...]]
"""The names by which another process finds a job."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make."""

    scenario: Scenario
    case: Case
    backend: str
    way: Way
    seed: int
    cuts: tuple[str, ...] = ()

    def run(self) -> ScenarioRun:
        """Run it; raises as :func:`run_scenario`."""
        return run_scenario(self.scenario, self.backend, self.way, self.seed, self.cuts, case=self.case)


def jobs(
    scenarios: Iterable[Scenario],
    backend: str = "sim",
    ways: Sequence[Way] | None = None,
    seed: int = 1,
    cuts: Sequence[str] = (),
) -> list[Job]:
    """One run for each case of each scenario in each way.

    Args:
        scenarios: the scenarios.
        backend: the backend of every run.
        ways: the ways to run them in; each scenario's first alone unless given. Of several ways a scenario runs in
            those that it supports, and a slow one in the first of these.
        seed: the seed of every run.
        cuts: as for :func:`run_scenario`.
    """
    made = []
    for scenario in scenarios:
        wanted = scenario.ways[:1] if ways is None else tuple(ways)
        if len(wanted) > 1:
            wanted = tuple(way for way in wanted if scenario.runs_in(way))
            wanted = wanted if scenario.quick else wanted[:1]
        made += [
            Job(scenario, case, backend, way, seed, tuple(cuts))
            for way in wanted
            for case in _cases(scenario, way, backend, alone=len(wanted) == 1)
        ]
    return made


def _cases(scenario: Scenario, way: Way, backend: str, *, alone: bool) -> tuple[Case, ...]:
    """The cases to run in a way; all of them if it is the only way, so that each reports why it cannot run."""
    return scenario.cases_in(way, backend) or (scenario.cases if alone else ())


def run_all(todo: Sequence[Job], processes: int | None = None, dask: str = "") -> Iterator[ScenarioRun]:
    """Run the jobs; yields the runs in the order of the jobs.

    Args:
        todo: the jobs.
        processes: number of processes that share them; one for each core unless given.
        dask: address of a Dask scheduler whose workers run them instead, or ``local``.

    Raises:
        Unsupported: as :func:`~toolkit.machine.workers.by_dask`.
    """
    if dask:
        yield from by_dask(_run_prepared, [_call(job) for job in todo], dask)
        return
    processes = min(processes or os.cpu_count() or 1, len(todo))
    backends = {job.backend for job in todo}
    if processes <= 1:
        with _prepared(backends):
            yield from map(Job.run, todo)
        return
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - one run needs no processes

    with safe_workers():
        pool = ProcessPoolExecutor(processes, initializer=_prepare, initargs=(backends,))
        try:
            calls = [_call(job) for job in todo]
            yield from pool.map(_run_by_name, calls, chunksize=max(1, min(8, len(todo) // (4 * processes))))
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _prepared(backends: AbstractSet[str]) -> Iterator[None]:
    """Keep the resources that runs on these backends share, inside this context."""
    with ExitStack() as shared:
        if "docker" in backends:
            from toolkit.cluster.containers import kept  # noqa: PLC0415 - others do not pay for it

            shared.enter_context(kept())
        if OVER_RDMA in backends:
            shared.enter_context(_zygote())
        if IN_GUEST in backends:
            from toolkit.scenarios import guests  # noqa: PLC0415 - as above

            shared.enter_context(guests.kept())
        yield


@contextmanager
def _zygote() -> Iterator[None]:
    """Fork messengers inside this context from a process that has imported their modules."""
    from toolkit.cluster.backends.base import Backend  # noqa: PLC0415 - only processes take it
    from toolkit.cluster.zygote import Zygote  # noqa: PLC0415 - as above

    with closing(Zygote()) as zygote:
        Backend.zygote, before = zygote, Backend.zygote
        try:
            yield
        finally:
            Backend.zygote = before


def _prepare(backends: AbstractSet[str]) -> None:
    """Keep those resources in a process of a pool until it ends; Ctrl-C ends the parent, which ends it."""
    from multiprocessing.util import Finalize  # noqa: PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shared = ExitStack()
    shared.enter_context(_prepared(backends))
    Finalize(None, shared.close, exitpriority=1)


def _call(job: Job) -> _Call:
    return job.scenario.id, job.case.name, job.backend, job.way, job.seed, job.cuts


def _run_prepared(call: _Call) -> ScenarioRun:
    """Run a job on a worker of Dask, whose start and end are not ours."""
    with _prepared({call[2]}):
        return _run_by_name(call)


def _run_by_name(call: _Call) -> ScenarioRun:
    """Run a job in another process, which finds its scenario by id."""
    scenario_id, case_name, backend, way, seed, cuts = call
    scenario = find(scenario_id)
    case = next(case for case in scenario.cases_in(way) or scenario.cases if case.name == case_name)
    return run_scenario(scenario, backend, way, seed, cuts, case=case)
