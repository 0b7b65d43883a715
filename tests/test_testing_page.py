"""The example of docs/testing.md runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters import environment
from tests.support.plugin import run_tests, session

__all__ = ["session"]

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parent.parent / "docs" / "testing.md"


def test_the_example_passes(session: pytest.Pytester) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    result = run_tests(session, example)
    assert result.parseoutcomes().keys() == {"passed"}, str(result.stdout)
    assert result.parseoutcomes()["passed"] >= 3 + 2 * 8


SSH = """\
#!/bin/sh
for command; do :; done
cd / && exec sh -c "$command"
"""
"""In place of a login on another machine: the last word, run by a shell in another folder, as sshd does."""
WHERE = """
import os, pytest

@pytest.mark.parametrize("number", range(8))
def test_there(number, msgrlab_run, record_property):
    record_property("folder", os.getcwd())
    assert msgrlab_run("reconnect", seed=number).passed
"""


def test_workers_on_another_machine_take_tests_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = re.findall(r"^pytest .*--tx.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        (folder / "tests").mkdir(parents=True)
        (folder / "tests" / "test_it.py").write_text(WHERE)
        (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    command = command.replace("/srv/mine/.venv/bin/python", sys.executable).replace("/srv/mine", str(there))
    words = [*command.split()[1:], f"--junit-xml={tmp_path}/results.xml"]
    words = [word.replace("2*", "").replace("4*", "") for word in words]  # one worker in each place will do
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=here,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folders = re.findall(r'name="folder" value="([^"]*)"', (tmp_path / "results.xml").read_text(encoding="utf-8"))
    assert len(folders) == 8
    assert {*folders} == {str(here), str(there)}


def test_the_options_are_those_of_the_plugin(session: pytest.Pytester) -> None:
    text = str(run_tests(session, "", "--help").stdout)
    assert set(re.findall(r"--msgrlab-\w+", PAGE.read_text(encoding="utf-8"))) == set(
        re.findall(r"^ +(--msgrlab-\w+)", text, re.MULTILINE)
    )
