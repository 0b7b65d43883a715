"""Scenarios of the catalogue over many seeds: the same script, other latencies."""

import time
from collections.abc import Callable, Sequence

from toolkit.checks.marks import marks_of
from toolkit.lab.campaign import Campaign, Failure, Tally, run
from toolkit.scenarios.batch import Job, jobs
from toolkit.scenarios.catalogue import find, select
from toolkit.scenarios.runner import ScenarioRun

EXPECTED = "EXPECTED"
"""Id of the failure of what a scenario itself expects."""
_CHUNK = 10

Unit = tuple[str, str, int]
"""A scenario's id, the name of its case, a seed: what another process finds the run by."""


def units_of(names: Sequence[str], seeds: Sequence[int]) -> list[Unit]:
    """Every case of the named scenarios that run in simulation, with every seed; seed by seed.

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
    """Make the runs, each in its scenario's first way; arguments and errors as for :func:`run_seeds` of lives."""
    return run(units, run_units, _CHUNK, processes, progress, dask)


def run_units(units: Sequence[Unit]) -> Tally:
    """Make some runs."""
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
