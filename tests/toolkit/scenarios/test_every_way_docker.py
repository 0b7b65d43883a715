"""Scenarios of the catalogue in containers: one of every second family, in v2 crc, v2 secure and v1 in turn.

Which ones they are changes from family to family, not from run to run. ``MSGRLAB_DOCKER=all`` runs every scenario.
"""

import os
from random import Random

import pytest

from toolkit.cluster.images import node
from toolkit.lab.ways import Way
from toolkit.scenarios.batch import Job, run_all
from toolkit.scenarios.catalogue import CATALOGUE, families
from toolkit.scenarios.scenario import Scenario

_EVERYTHING = os.environ.get("MSGRLAB_DOCKER") == "all"
_PROCESSES = 2
_WAYS = [Way.parse(name) for name in ("v2-crc", "v2-secure", "v1")]


def _jobs(number: int, scenarios: list[Scenario]) -> list[Job]:
    ways = [_WAYS[(number + step) % len(_WAYS)] for step in range(len(_WAYS))]
    fitting = [s for s in scenarios if "docker" in s.backends and any(_fits(s, way) for way in ways)]
    rng = Random(f"docker {[s.id for s in fitting]}")
    quick = [s for s in fitting if s.quick]
    made = []
    for scenario in fitting if _EVERYTHING else rng.sample(quick, min(1, len(quick))):
        way = next(way for way in ways if _fits(scenario, way))
        made.append(Job(scenario, rng.choice(scenario.cases_in(way, "docker")), "docker", way, seed=1))
    return made


def _fits(scenario: Scenario, way: Way) -> bool:
    return way in scenario.ways and bool(scenario.cases_in(way, "docker"))


@pytest.mark.needs("docker", "netns", "nft")
@pytest.mark.xdist_group("containers")
@pytest.mark.parametrize("turn", range(len(_WAYS)), ids=lambda turn: _WAYS[turn].name)
def test_scenarios_pass_between_containers(turn: int) -> None:
    """Each scenario runs in that way if it can."""
    node.build(announce=lambda _: None)
    mine = list(families().values())[turn :: len(_WAYS)]
    chosen = mine if _EVERYTHING else mine[::2]
    todo = [job for family in chosen for job in _jobs(turn, family.scenarios)]
    failed = [run for run in run_all(todo, _PROCESSES) if not run.passed]
    assert not failed, "\n".join(f"{run.replay_command}: {run.complaints}" for run in failed)


def test_docker_and_netns_run_the_same_scenarios() -> None:
    for scenario in CATALOGUE.values():
        assert ("netns" in scenario.backends) == ("docker" in scenario.backends), scenario.id
