"""Runs scenarios of the catalogue with many seeds: the same scripts with other latencies."""

import time
from collections.abc import Callable, Sequence

from toolkit.checks.marks import marks_of
from toolkit.lab.campaign import Campaign, Failure, Tally, run
from toolkit.scenarios.batch import Job, jobs
from toolkit.scenarios.catalogue import find, select
from toolkit.scenarios.runner import ScenarioRun

EXPECTED = "EXPECTED"
"""Id of the failure of a scenario's own expectation."""
_CHUNK = 10

Unit = tuple[str, str, int]
"""A scenario's id, the name of its case, and a seed, by which another process finds the run."""


def units_of(names: Sequence[str], seeds: Sequence[int]) -> list[Unit]:
    """Every case of the named scenarios that run in simulation, with every seed; ordered by seed.

    Raises:
        LocalError: there is no such scenario.
    """
    wanted = [scenario for name in names for scenario in select(name) if "sim" in scenario.backends]
    return [
        (scenario.id, case.name, seed)
        for seed in seeds
        for scenario in wanted
        for case in scenario.cases_in(scenario.ways[0])
    ]


def run_scenario_seeds(
    units: Sequence[Unit],
    processes: int | None = None,
    progress: Callable[[Tally], None] = lambda _tally: None,
    dask: str = "",
) -> Campaign:
    """Run the units, each in its scenario's first way; arguments and errors as of :func:`run_seeds` for lives."""
    return run(units, run_units, _CHUNK, processes, progress, dask)


def run_units(units: Sequence[Unit]) -> Tally:
    """Run some units; returns their tally."""
    tally = Tally()
    began_s = time.process_time()
    for scenario_id, case_name, seed in units:
        done = _job(scenario_id, case_name, seed).run()
        tally.runs += 1
        tally.events += len(done.history)
        tally.records += len(done.history)
        tally.marks += marks_of(done.history)
        if not done.passed:
            tally.failed.append((done.replay_command, _failures(done)))
    tally.cpu_s = time.process_time() - began_s
    return tally


def _job(scenario_id: str, case_name: str, seed: int) -> Job:
    made = jobs([find(scenario_id)], "sim", seed=seed)
    return next(job for job in made if job.case.name == case_name)


def _failures(done: ScenarioRun) -> list[Failure]:
    failures = [Failure(EXPECTED, done.failure)] if done.failure else []
    return failures + [
        Failure(result.id, violation.text, violation.record)
        for result in done.checks
        for violation in result.violations
    ]
