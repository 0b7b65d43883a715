"""Every scenario of the catalogue in every way it runs in, on the simulator."""

import pytest

from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.runner import run_scenario
from toolkit.scenarios.ways import Way

EVERY_WAY = [
    pytest.param(scenario.id, way, id=f"{scenario.id}-{way.name}")
    for scenario in CATALOGUE.values()
    if "sim" in scenario.backends
    for way in (scenario.ways if scenario.quick else scenario.ways[:1])
]


@pytest.mark.parametrize(("scenario_id", "way"), EVERY_WAY)
def test_scenario_passes(scenario_id: str, way: Way) -> None:
    scenario = CATALOGUE[scenario_id]
    for case in scenario.cases_in(way):
        run = run_scenario(scenario, "sim", way, case=case)
        assert run.passed, f"{run.replay_command}: {run.complaints}"
