"""Scenarios of the catalogue on real sockets: of each one a case, in one way of either protocol.

What they cost is waiting, so two processes run them at once; more would make a small machine late for everything.
``MSGRLAB_LOCAL=all`` runs every case in every way.
"""

import os
from collections.abc import Iterator
from zlib import crc32

import pytest

from toolkit.lab.ways import Way
from toolkit.scenarios.batch import Job, run_all
from toolkit.scenarios.catalogue import CATALOGUE, families
from toolkit.scenarios.scenario import BACKENDS, Case, Scenario

_EVERYTHING = os.environ.get("MSGRLAB_LOCAL") == "all"
_PROCESSES = 2
_V2, _V1 = Way.parse("v2-crc"), Way.parse("v1")
_V1_SHARE = 4
"""One scenario in so many that run on v1 is run there too."""


def _ways(scenario: Scenario) -> Iterator[Way]:
    if _EVERYTHING:
        yield from scenario.ways
        return
    first = _V2 if _V2 in scenario.ways else scenario.ways[0]
    yield first
    if _V1 in scenario.ways and first != _V1 and crc32(scenario.id.encode()) % _V1_SHARE == 0:
        yield _V1


def _cases(scenario: Scenario, way: Way) -> list[Case]:
    cases = list(scenario.cases_in(way, "local"))
    return cases if _EVERYTHING else cases[:1]


@pytest.mark.parametrize("family", families())
def test_scenarios_pass_on_sockets(family: str) -> None:
    todo = [
        Job(scenario, case, "local", way, seed=1)
        for scenario in families()[family].scenarios
        if "local" in scenario.backends
        for way in _ways(scenario)
        for case in _cases(scenario, way)
    ]
    failed = [run for run in run_all(todo, _PROCESSES) if not run.passed]
    assert not failed, "\n".join(f"{run.replay_command}: {run.complaints}" for run in failed)


def test_restricted_scenario_gives_a_reason() -> None:
    for scenario in CATALOGUE.values():
        everywhere = set(scenario.backends) == set(BACKENDS)
        assert everywhere != bool(scenario.only), f"{scenario.id}: {scenario.backends}, {scenario.only!r}"
