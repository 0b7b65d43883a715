"""The report of a failed test, and the files that are kept of it."""

import re
import shlex
from xml.etree import ElementTree as ET

import pytest

from tests.support.plugin import run_tests, session
from toolkit.checks.history import History

__all__ = ["session"]

pytest_plugins = ["pytester"]

FAILING = """
def test_lab(msgrlab_sim):
    lab = msgrlab_sim("secure")
    lab.two()
    lab.exchange(count=2)
    lab.cut("a", "b")
    lab.exchange(count=2)
    assert lab.delivered("a", "b") == 5
"""

VIOLATED = """
def test_violation(msgrlab_sim):
    lab = msgrlab_sim()
    lab.two()
    lab.exchange(count=2)
    lab.settle()
    lab.history.records[:] = [one for one in lab.history if one.kind != "deliver" or one["tid"] != 2]

def test_unchecked(msgrlab_sim):
    lab = msgrlab_sim(check=False)
    lab.two()
    lab.exchange(count=2)
    lab.settle()
    lab.history.records[:] = [one for one in lab.history if one.kind != "deliver" or one["tid"] != 2]
"""


def test_place_for_kept_files_that_is_no_directory_is_refused_before_the_tests(session: pytest.Pytester) -> None:
    result = run_tests(session, FAILING, "--msgrlab-out=test_it.py/kept")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --msgrlab-out */test_it.py is no directory that can be written to"])


def test_files_that_cannot_be_kept_are_a_note_and_later_tests_run(session: pytest.Pytester) -> None:
    tests = (
        f"{FAILING}\nimport pathlib\npathlib.Path('kept').write_text('in the way')\n\ndef test_last():\n    pass\n"
    )
    result = run_tests(session, tests, "--msgrlab-out=kept")
    result.assert_outcomes(failed=1, passed=1)
    assert re.search(r"^not kept: .*File exists: '.*/kept'$", str(result.stdout), re.MULTILINE)


def test_failure_report_shows_events_and_frames_and_keeps_files(session: pytest.Pytester) -> None:
    result = run_tests(session, FAILING, "--msgrlab-seed=7", "--msgrlab-out=kept", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    text = str(result.stdout)
    assert re.search(r"last events:\n(.*\n)*.* scenario +step +expect_delivered b, a, 4\n", text)
    assert re.search(r"last frames of \d+ records:\n(.*\n)*.* a → b +MESSAGE ping · seq 4 · tid 4\n", text)
    kept = session.path / "kept" / "test_it.py_test_lab" / "lab_in_simulation_v2-secure"
    assert f"  history: {kept}/history.ndjson\n  chart: {kept}/chart.svg\n" in text
    assert len(History.load(kept / "history.ndjson")) > 50
    assert (kept / "chart.svg").read_text().startswith("<svg")
    (again,) = (line for line in text.splitlines() if line.startswith("pytest "))
    assert shlex.split(again)[1:] == ["test_it.py::test_lab", "--msgrlab-seed=7"]
    found = {one.get("name"): one.get("value") for one in ET.parse(session.path / "junit.xml").iter("property")}
    assert found == {
        "msgrlab_seed": "7",
        "msgrlab_again": again,
        "msgrlab_of": "lab in simulation, v2-secure",
        "msgrlab_kept": str(kept),
    }


def test_a_violation_fails_the_test_and_shows_its_frames(session: pytest.Pytester) -> None:
    result = run_tests(session, VIOLATED)
    result.assert_outcomes(failed=1, passed=1)
    text = str(result.stdout)
    assert "invariants are violated\nlab in simulation, v2-crc: INV-" in text
    shown = r"violated invariants:\n  INV-1 .* tid 2 to b never arrived.*\n.*  a  send .*\n.*  a  frame .*tid 2"
    assert re.search(shown, text)


@pytest.mark.parametrize(("keep", "kept"), [("all", 3), ("failed", 1), ("none", 0)])
def test_keep_option_selects_kept_runs_without_overwriting(session: pytest.Pytester, keep: str, kept: int) -> None:
    tests = """
def test_run(msgrlab_run):
    msgrlab_run("standby")
    msgrlab_run("standby")

def test_broken(msgrlab_sim):
    msgrlab_sim().two()
    raise AssertionError
"""
    for runs in (1, 2):
        run_tests(session, tests, f"--msgrlab-keep={keep}", "--msgrlab-out=kept")
        assert len(list((session.path / "kept").rglob("history.ndjson"))) == runs * kept


def test_a_run_that_does_not_pass_names_its_command(session: pytest.Pytester) -> None:
    result = run_tests(
        session,
        """
from toolkit import scenario

@scenario(ways=["v2-secure"])
def too_few(lab):
    lab.two()
    lab.exchange(count=2)
    lab.expect_delivered("a", "b", 3, within_s=1)

def test_it(msgrlab_run):
    msgrlab_run("standby")
    assert not msgrlab_run(too_few, mode="secure", check=False).passed
    msgrlab_run(too_few, mode="secure", seed=3)
""",
    )
    result.assert_outcomes(failed=2)
    text = str(result.stdout)
    assert "test_it.py:7: expected within 1 s: 3 messages from a delivered at b; 2 were" in text
    assert "msgrlab run test_it.py::too_few --backend sim --mode secure --seed 3" in text
    assert "toolkit/" not in text.partition("last events")[0], "the traceback ends in the test"


def test_pytest_html_gets_chart_and_text(session: pytest.Pytester) -> None:
    session.makeconftest("""
class Html:
    def pytest_runtest_logreport(self, report):
        for extra in getattr(report, "extras", ()):
            print("EXTRA", extra["format_type"], extra["name"], extra["content"][:12].replace(chr(10), " "))

def pytest_configure(config):
    config.pluginmanager.register(Html(), "html")
""")
    result = run_tests(session, FAILING, "-s")
    lines = [line for line in result.outlines if "EXTRA" in line]
    assert [line.partition("EXTRA ")[2] for line in lines] == [
        "text msgrlab: lab in simulation, v2-secure last events:",
        "html None <div><svg cl",
    ]


def test_unsupported_run_skips_the_test_unless_strict(session: pytest.Pytester) -> None:
    tests = """
def test_mode(msgrlab_run):
    msgrlab_run("standby", mode="secure", protocol="v1")

def test_without_our_fixtures():
    import toolkit
    toolkit.run("standby", mode="secure", protocol="v1")
"""
    result = run_tests(session, tests, "-rs")
    result.assert_outcomes(skipped=1, failed=1)
    assert "msgr v1 has no mode secure; it runs in crc; `msgrlab doctor` lists" in str(result.stdout)
    result = run_tests(session, tests, "--msgrlab-strict")
    result.assert_outcomes(failed=2)
    assert "With --msgrlab-strict this is a failure." in str(result.stdout)
