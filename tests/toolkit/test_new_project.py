"""A new project of tests runs green as it is made, and fails usefully when it is broken."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.plugin import run_in, session
from toolkit.cli.main import run as msgrlab

__all__ = ["session"]

pytest_plugins = ["pytester"]


@pytest.fixture
def project(session: pytest.Pytester) -> Path:
    directory = session.path / "my tests"
    assert msgrlab(["init", "tests", str(directory)]) == 0
    return directory


def test_new_project_passes_and_explains_failures(session: pytest.Pytester, project: Path) -> None:
    result = run_in(session, project, "-p", "xdist", "-n2", "--dist", "loadgroup")
    passed = result.parseoutcomes()
    assert passed.pop("passed") > 30, str(result.stdout)
    assert passed.keys() <= {"skipped"}, str(result.stdout)

    scenario = project / "scenarios" / "frozen_server.py"
    scenario.write_text(
        scenario.read_text().replace('expect_delivered("a", "b", 5)', 'expect_delivered("a", "b", 6)')
    )
    result = run_in(session, project, "-k", "frozen_server-briefly-sim-v2-crc-0", "--msgrlab-out=kept")
    assert result.parseoutcomes()["failed"] == 1
    text = str(result.stdout)
    line = next(number for number, one in enumerate(scenario.read_text().splitlines(), 1) if '"b", 6)' in one)
    assert (
        f"scenarios/frozen_server.py:{line}: expected within 20 s: 6 messages from a delivered at b; 5 were"
        in text
    )
    assert re.search(r" a → b +MESSAGE ping · seq 5 · tid 5", text)
    assert "\npytest 'tests/test_scenarios.py::test_own_scenarios[frozen_server-briefly-sim-v2-crc-0]' " in text
    (replay,) = re.findall(r"the same without pytest:\n  (msgrlab run .*)", text)
    assert replay.startswith("msgrlab run 'scenarios/frozen_server.py::frozen_server[briefly]' --backend sim")
    assert len(list((project / "kept").rglob("history.ndjson"))) == 1


def test_new_project_has_its_name_and_a_workflow(project: Path) -> None:
    assert 'name = "my-tests"' in (project / "pyproject.toml").read_text()
    assert (project / "README.md").read_text().startswith("# my-tests\n")
    assert "--msgrlab-strict" in (project / ".github" / "workflows" / "tests.yml").read_text()
    assert (project / ".gitignore").is_file()


def test_init_does_not_overwrite_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "README.md").read_text()
    assert msgrlab(["init", "tests", str(project)]) == 2
    assert "something is in it already, and nothing is overwritten" in capsys.readouterr().err
    assert (project / "README.md").read_text() == before
    assert msgrlab(["init", "test", str(project)]) == 2
    assert "init: unknown KIND 'test'; known: tests" in capsys.readouterr().err
    assert msgrlab(["init", "tests", f"{sys.executable}/x"]) == 2
    assert "name a directory that can be made" in capsys.readouterr().err
