"""Scenarios as tests, and the options of a run."""

import re

import pytest

from tests.support.plugin import run_tests, session

__all__ = ["session"]

pytest_plugins = ["pytester"]

SCENARIOS = """
from toolkit import scenario

@scenario(cases={"few": {"count": 2}, "many": {"count": 20}}, backends=["sim", "local"])
def pair(lab, count):
    lab.two()
    lab.exchange(count=count)

@scenario(backends=["sim"], ways=["v2-crc", "v1"])
def idle(lab):
    lab.two()
    lab.wait(1)
"""


@pytest.fixture
def project(session: pytest.Pytester) -> pytest.Pytester:
    (session.path / "scenarios").mkdir()
    (session.path / "scenarios" / "mine.py").write_text(SCENARIOS)
    (session.path / "pyproject.toml").write_text('[tool.msgrlab]\nscenarios = ["scenarios"]\n')
    return session


def names(result: pytest.RunResult) -> list[str]:
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


ONE_LINE = "def test_mine(msgrlab_scenario): msgrlab_scenario()\n"


def test_one_line_tests_all_scenarios_of_the_project(project: pytest.Pytester) -> None:
    result = run_tests(project, ONE_LINE, "-v", "--msgrlab-seed=5")
    result.assert_outcomes(passed=3)
    assert "msgrlab: --msgrlab-seed=5" in str(result.stdout)
    run = ("pair-few-sim-v2-crc-5", "pair-many-sim-v2-crc-5", "idle-sim-v2-crc-5")
    assert [name.partition("]")[0] for name in names(result)] == [f"test_mine[{name}" for name in run]


def test_a_marker_chooses_scenarios_ways_backends_and_seeds(project: pytest.Pytester) -> None:
    marked = (
        "import pytest\n"
        "@pytest.mark.scenarios('scenarios/mine.py', 'standby', ways=['v2-secure', 'v1'], seeds=[1, 2])\n"
    )
    result = run_tests(project, marked + ONE_LINE, "--collect-only", "-q")
    found = [name.removeprefix("test_mine[").rstrip("]") for name in names(result)]
    pair = [f"pair-{case}-sim-{way}" for way in ("v2-secure", "v1") for case in ("few", "many")]
    once = [*pair, "idle-sim-v1", "standby-sim-v2-secure", "standby-sim-v1"]
    assert found == [f"{name}-{seed}" for seed in (1, 2) for name in once]
    result = run_tests(project, ONE_LINE, "--collect-only", "-q", "--msgrlab-backend=process")
    assert names(result) == ["test_mine[pair-few-local-v2-crc-1]", "test_mine[pair-many-local-v2-crc-1]"]


def test_scenarios_in_a_test_module_are_tests(project: pytest.Pytester) -> None:
    (project.path / "helper.py").write_text(SCENARIOS)
    imported = "from helper import pair\n"
    result = run_tests(project, imported + SCENARIOS.replace("def pair", "def own"), "-v")
    result.assert_outcomes(passed=3)
    assert [name.partition("]")[0] for name in names(result)] == [
        "own[own-few-sim-v2-crc-1",
        "own[own-many-sim-v2-crc-1",
        "idle[idle-sim-v2-crc-1",
    ]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("'awya.py'", "scenarios of test_mine: awya.py: there is no such file"),
        ("ways=['v3']", "scenarios of test_mine: 'v3' is no way to run a scenario"),
        (
            "backends=['simm']",
            "scenarios of test_mine: unknown backend simm; known: sim, local, netns, docker, rdma, vm",
        ),
        ("colour=1", "scenarios of test_mine: .* unexpected keyword argument 'colour'"),
    ],
)
def test_a_mistake_is_one_line_of_the_collection(project: pytest.Pytester, head: str, message: str) -> None:
    result = run_tests(project, f"import pytest\n@pytest.mark.scenarios({head})\n{ONE_LINE}")
    result.assert_outcomes(errors=1)
    assert re.search(f"^(E +)?{message}", str(result.stdout), re.MULTILINE)


def test_help_lists_the_options_and_markers(session: pytest.Pytester) -> None:
    text = str(run_tests(session, "", "--help").stdout)
    for option in ("seed", "backend", "keep", "out", "strict"):
        assert f"--msgrlab-{option}" in text
    text = str(run_tests(session, "", "--markers").stdout)
    assert "@pytest.mark.needs(" in text
    assert "@pytest.mark.scenarios(" in text
    assert "@pytest.mark.msgrlab" not in text


def test_a_seed_is_a_number_or_drawn_once_for_all_workers(session: pytest.Pytester) -> None:
    result = run_tests(session, "", "--msgrlab-seed=x")
    assert "--msgrlab-seed x: give a whole number, or random" in str(result.stderr)
    test = """
import pytest
@pytest.mark.parametrize("number", range(4))
def test_seed(msgrlab_sim, number):
    print("seed", msgrlab_sim().seed)
"""
    result = run_tests(session, test, "--msgrlab-seed=random", "-p", "xdist", "-n2", "-rP")
    (head,) = {line for line in result.outlines if line.startswith("msgrlab: ")}
    assert {line for line in result.outlines if line.startswith("seed ")} == {f"seed {head.rpartition('=')[2]}"}
