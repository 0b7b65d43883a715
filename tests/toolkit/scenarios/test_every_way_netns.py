"""Scenarios of the catalogue on hosts in namespaces: of each family one on v2, and one on v1.

Which ones they are changes from family to family, not from run to run. ``MSGRLAB_NETNS=all`` runs every scenario.
"""

import os
from random import Random

import pytest

from toolkit.lab.ways import Way
from toolkit.scenarios.batch import Job, run_all
from toolkit.scenarios.catalogue import CATALOGUE, families
from toolkit.scenarios.scenario import Scenario

pytestmark = [pytest.mark.needs("netns"), pytest.mark.needs("nft")]

_EVERYTHING = os.environ.get("MSGRLAB_NETNS") == "all"
_PROCESSES = 2
_WAYS = Way.parse("v2-crc"), Way.parse("v1")


def _jobs(scenarios: list[Scenario], way: Way) -> list[Job]:
    fitting = [s for s in scenarios if "netns" in s.backends and way in s.ways and s.cases_in(way, "netns")]
    rng = Random(f"{way.name} {[s.id for s in fitting]}")
    quick = [s for s in fitting if s.quick and not s.processes]
    chosen = fitting if _EVERYTHING else rng.sample(quick, min(1, len(quick)))
    return [
        Job(scenario, rng.choice(scenario.cases_in(way, "netns")), "netns", way, seed=1) for scenario in chosen
    ]


@pytest.mark.parametrize("way", _WAYS, ids=lambda way: way.name)
def test_scenarios_pass_between_namespaces(way: Way) -> None:
    todo = [job for family in families().values() for job in _jobs(family.scenarios, way)]
    failed = [run for run in run_all(todo, _PROCESSES) if not run.passed]
    assert not failed, "\n".join(f"{run.replay_command}: {run.complaints}" for run in failed)


def test_netns_runs_all_scenarios_of_local() -> None:
    for scenario in CATALOGUE.values():
        assert ("local" in scenario.backends) <= ("netns" in scenario.backends), scenario.id
