"""Every scenario of the catalogue on the simulator.

All cases are run in the first way of either protocol, and one case in a third of the other ways.
``MSGRLAB_SIM=all`` runs all cases in all ways.
"""

import os
from collections.abc import Iterator
from random import Random
from zlib import crc32

import pytest

from tests.support import frozen
from toolkit.lab.ways import Way
from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.runner import ScenarioRun, run_scenario
from toolkit.scenarios.scenario import Case, Scenario

_EVERYTHING = os.environ.get("MSGRLAB_SIM") == "all"
_SHARE = 3
"""One of so many of the other ways of a scenario is run."""


def _ways(scenario: Scenario) -> list[Way]:
    if not scenario.quick:
        return list(scenario.ways[:1])
    return [
        way
        for way in scenario.ways
        if _EVERYTHING or way == _first(scenario, way) or crc32(f"{scenario.id} {way.name}".encode()) % _SHARE == 0
    ]


def _first(scenario: Scenario, way: Way) -> Way:
    """Return the first way of the same protocol."""
    return next(other for other in scenario.ways if other.protocol == way.protocol)


EVERY_WAY = [
    pytest.param(scenario.id, way, id=f"{scenario.id}-{way.name}")
    for scenario in CATALOGUE.values()
    if "sim" in scenario.backends
    for way in _ways(scenario)
]


def _cases(scenario: Scenario, way: Way) -> list[Case]:
    cases = list(scenario.cases_in(way))
    if _EVERYTHING or way == _first(scenario, way) or not cases:
        return cases
    return [Random(f"{scenario.id} {way.name}").choice(cases)]


def runs_of(scenario_id: str, way: Way) -> Iterator[ScenarioRun]:
    """The runs that stand for a scenario in one way; each must pass."""
    scenario = CATALOGUE[scenario_id]
    for case in _cases(scenario, way):
        run = run_scenario(scenario, "sim", way, case=case)
        assert run.passed, f"{run.replay_command}: {run.complaints}"
        yield run


@pytest.mark.parametrize(("scenario_id", "way"), EVERY_WAY)
def test_scenario_passes_with_the_frozen_history(
    scenario_id: str, way: Way, request: pytest.FixtureRequest
) -> None:
    now = frozen.digest(runs_of(scenario_id, way))
    if not _EVERYTHING:
        changed = frozen.changed(request.node.callspec.id, now)
        assert not changed, changed
