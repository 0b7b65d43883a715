"""Strict mode and the ``needs`` marker, seen from outside: pytest on a small suite with conftest and plugin."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from toolkit.doctor.catalogue import CAPABILITIES
from toolkit.machine.capability import install_command

pytestmark = pytest.mark.xdist_group("conftest")  # its runs are made once

HERE = Path(__file__).parent

FAKES = """
from toolkit.doctor import catalogue
from toolkit.machine.capability import Capability, Finding

catalogue.CAPABILITIES += (
    Capability("present", "", lambda: Finding(available=True, detail="1.0")),
    Capability("addable", "", lambda: Finding(available=False, detail="left at home", commands=("fetch it",))),
    Capability("impossible", "", lambda: Finding(available=False, detail="no such hardware")),
)
"""

SUITE = """
import pytest

@pytest.mark.needs("present")
def test_present(): pass

@pytest.mark.needs("present", "addable")
def test_addable(): raise AssertionError("ran without what it needs")

@pytest.mark.needs("impossible")
def test_impossible(): raise AssertionError("ran without what it needs")

@pytest.mark.needs("misspelt")
def test_misspelt(): pass

def test_skips_itself(): pytest.skip("not today")

@pytest.mark.skipif(True, reason="by mark")
def test_skipped_by_mark(): pass

@pytest.mark.xfail(reason="known")
def test_xfail(): raise AssertionError

@pytest.fixture
def skipping(): pytest.skip("from a fixture")

def test_fixture_skips(skipping): pass
"""


@dataclass
class Run:
    output: str
    code: int
    outcomes: dict[str, tuple[str, str]]
    """Test name to its outcome, and the message that comes with it."""


def run_suite(directory: Path, strict: str, suite: str = SUITE, *arguments: str) -> Run:
    (directory / "conftest.py").write_text((HERE / "conftest.py").read_text() + FAKES)
    (directory / "test_suite.py").write_text(suite)
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    # the inner run must not take itself for a worker of the outer one, and starts quicker without all plugins
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTHONPATH": str(HERE.parent),
        "MSGRLAB_STRICT": strict,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    plugins = ["-p", "_hypothesis_pytestplugin", "-p", "toolkit.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--junit-xml=result.xml", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    outcomes = {}
    for case in ET.parse(directory / "result.xml").iter("testcase"):
        child = next(iter(case), None)
        outcome = ("passed", "") if child is None else (child.tag, f"{child.get('message')} {child.text}")
        outcomes[case.get("name", "")] = outcome
    return Run(done.stdout + done.stderr, done.returncode, outcomes)


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_suite(tmp_path_factory.mktemp("lenient"), "0")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_suite(tmp_path_factory.mktemp("strict"), "1")


def test_a_test_with_its_capability_runs(lenient: Run, strict: Run) -> None:
    assert lenient.outcomes["test_present"][0] == strict.outcomes["test_present"][0] == "passed"


def test_a_missing_capability_skips_with_the_doctors_words(lenient: Run) -> None:
    outcome, message = lenient.outcomes["test_addable"]
    assert outcome == "skipped"
    assert "addable: left at home; to add it: fetch it" in message
    outcome, message = lenient.outcomes["test_impossible"]
    assert outcome == "skipped"
    assert "impossible: no such hardware" in message


@pytest.mark.parametrize("name", ["test_skips_itself", "test_skipped_by_mark", "test_fixture_skips"])
def test_other_skips_are_skips_unless_strict(name: str, lenient: Run, strict: Run) -> None:
    assert lenient.outcomes[name][0] == "skipped"
    assert strict.outcomes[name][0] in ("failure", "error")


def test_strict_fails_for_a_capability_that_could_be_added(strict: Run) -> None:
    outcome, message = strict.outcomes["test_addable"]
    assert outcome in ("failure", "error")
    assert "addable: left at home; to add it: fetch it" in message
    assert "A skip is a failure with MSGRLAB_STRICT=1" in message
    assert strict.code == 1


def test_strict_skips_for_an_impossible_capability(strict: Run) -> None:
    outcome, message = strict.outcomes["test_impossible"]
    assert outcome == "skipped"
    assert "no such hardware" in message


def test_end_of_a_run_lists_tests_not_run_and_the_command_for_them(
    lenient: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = lenient.output.partition(" not run ")[2]
    for count, reason in ((1, "addable: left at home"), (1, "impossible: no such hardware"), (1, "not today")):
        assert f"{count:6}  {reason}\n" in summary
    assert "  known\n" not in summary  # an expected failure has run
    (command,) = [line for line in summary.splitlines() if "fetch it" in line]
    monkeypatch.chdir(tmp_path)  # commands are named from where one is
    ours = install_command([each.examine() for each in CAPABILITIES])
    assert command.strip() == " && ".join(filter(None, (ours, "fetch it")))


def test_long_texts_are_shortened_in_the_names_of_tests(tmp_path: Path) -> None:
    suite = """
import pytest

@pytest.mark.parametrize("text", ["-" * 1500, "-" * 1501, b"\\xff\\n" * 100, "as it is"])
def test_one(text): pass
"""
    assert list(run_suite(tmp_path, "0", suite).outcomes) == [
        f"test_one[{'-' * 30}..1500]",
        f"test_one[{'-' * 30}..1501]",
        "test_one[" + r"\xff\n" * 15 + "..200]",
        "test_one[as it is]",
    ]


def test_reasons_are_counted_over_all_workers(tmp_path: Path) -> None:
    suite = """
import pytest

@pytest.mark.needs("addable")
@pytest.mark.parametrize("number", range(8))
def test_addable(number): pass

@pytest.mark.needs("impossible")
def test_impossible(): pass
"""
    output = run_suite(tmp_path, "0", suite, "-p", "xdist", "-n2").output
    assert "     8  addable: left at home\n     1  impossible: no such hardware\n" in output


def test_impossible_capability_has_no_install_command(tmp_path: Path) -> None:
    suite = "import pytest\n\n@pytest.mark.needs('impossible')\ndef test_impossible(): pass\n"
    output = run_suite(tmp_path, "1", suite).output
    assert "     1  impossible: no such hardware\n" in output
    assert "To install" not in output


def test_an_unknown_capability_is_an_error_and_names_the_known_ones(lenient: Run) -> None:
    outcome, message = lenient.outcomes["test_misspelt"]
    assert outcome == "error"
    assert "no capability 'misspelt'; known: python, " in message


def test_an_expected_failure_is_no_skip(strict: Run) -> None:
    assert strict.outcomes["test_xfail"][0] == "skipped"


def test_strict_fails_for_a_module_that_skips_itself(tmp_path: Path) -> None:
    suite = "import pytest\npytest.importorskip('no_such_module')\n"
    run = run_suite(tmp_path, "1", suite, "--hypothesis-seed=7")
    assert "to repeat this run: --hypothesis-seed=7\n" in run.output
    assert run.code == pytest.ExitCode.INTERRUPTED
    assert "A skip is a failure with MSGRLAB_STRICT=1" in run.output


def test_the_seed_is_shown_and_in_strict_runs_fixed(lenient: Run, strict: Run) -> None:
    assert "to repeat this run: --hypothesis-seed=20060701\n" in strict.output
    assert "to repeat this run: --hypothesis-seed=" in lenient.output
    assert "--hypothesis-seed=20060701" not in lenient.output


def test_hanging_test_is_ended_and_named_and_the_others_run(tmp_path: Path) -> None:
    suite = """
import threading

import pytest

@pytest.fixture
def stuck():
    yield
    threading.Event().wait()

def test_hangs_as_it_ends(stuck): pass

def test_next(): pass
"""
    options = ["-p", "xdist", "-n1", "-o", "ended_after_s=2"]
    run = run_suite(tmp_path, "0", suite, *options)
    assert run.code == pytest.ExitCode.TESTS_FAILED
    assert "test_suite.py::test_hangs_as_it_ends has not ended after 2 s:" in run.output
    assert "in stuck" in run.output
    assert run.outcomes["test_next"][0] == "passed"
    assert "crashed while running" in run.output


def test_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """They share a cluster, or would get into each other's way; of xdist and pytest not all releases agree."""
    suite = """
import os

import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(8))
def test_one(number): raise AssertionError(os.environ["PYTEST_XDIST_WORKER"])

@pytest.mark.parametrize("number", range(8))
def test_other(number): pass
"""
    run = run_suite(tmp_path, "0", suite, "-p", "xdist", "-n2", "--dist", "loadgroup")
    failures = {message.split()[1] for outcome, message in run.outcomes.values() if outcome == "failure"}
    assert len(failures) == 1, failures


def test_few_parameter_sets_of_each_function_run_spread_over_all(tmp_path: Path) -> None:
    suite = """
import pytest

def test_alone(): pass

@pytest.mark.parametrize("number", range(12))
def test_many(number): pass

@pytest.mark.parametrize("number", range(2))
def test_few(number): pass
"""
    run = run_suite(tmp_path, "0", suite, "--parameter-sets=3")
    assert [*run.outcomes] == [
        "test_alone",
        *(f"test_many[{number}]" for number in (0, 4, 8)),
        "test_few[0]",
        "test_few[1]",
    ]
    refused = run_suite(tmp_path, "0", suite, "--parameter-sets=0")
    assert "--parameter-sets takes a number from 1 on, not 0" in refused.output
    assert refused.code == pytest.ExitCode.USAGE_ERROR
