"""Every setting of every disputed rule has a case that shows it, and the documentation names the scenario."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from messenger.rules import PROFILES, SETTINGS
from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.runner import run_scenario
from toolkit.scenarios.scenario import Scenario

_DISPUTES = (Path(__file__).parents[3] / "docs" / "disputes.md").read_text(encoding="utf-8")


def _showing(rule: str) -> list[Scenario]:
    return [one for one in CATALOGUE.values() if rule in one.rules and one.id != "IX-06"]


@cache
def _set_in(scenario_id: str) -> dict[str, set[str]]:
    """Settings of each rule at the nodes of a scenario's cases."""
    scenario, seen = CATALOGUE[scenario_id], defaultdict(set)
    for case in scenario.cases_in(scenario.ways[0]):
        run = run_scenario(scenario, case=case)
        assert run.passed, f"{run.replay_command}: {run.complaints}"
        for record in run.history.of("process"):
            for option, setting in record.fields.get("options", {}).items():
                if option in SETTINGS:
                    seen[option].add(setting)
    return seen


@pytest.mark.parametrize("rule", SETTINGS)
def test_every_setting_of_a_rule_has_a_case(rule: str) -> None:
    shown = set().union(*(_set_in(scenario.id)[rule] for scenario in _showing(rule)))
    assert shown == set(SETTINGS[rule])


@pytest.mark.parametrize("rule", SETTINGS)
def test_the_documentation_names_the_scenarios_of_a_rule(rule: str) -> None:
    section = _DISPUTES.partition(f"\n## `{rule}`")[2].partition("\n## ")[0]
    shown_by = section[section.index("Shown by") :]
    named = re.findall(r"[A-Z0-9]{2}-\d\d(?:-rule)?", shown_by)
    assert {scenario.id for scenario in _showing(rule)}.intersection(named)


def test_every_difference_of_every_profile_has_a_case() -> None:
    cases = {case.name for case in CATALOGUE["IX-06"].cases}
    assert cases == {f"{name} {rule}" for name, profile in PROFILES.items() for rule in profile}
