"""--html and --junit of every command that judges, and what Ctrl-C leaves of them."""

import os
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.clusters import environment, impatient_command_line, state
from toolkit.cli.main import run as msgrlab

__all__ = ["state"]


def _cases(file: Path) -> list[str]:
    return [case.get("name", "") for case in ET.parse(file).iter("testcase")]


@pytest.mark.parametrize(
    ("command", "case"),
    [
        ("run reconnect", "reconnect seed 1"),
        ("sim --seeds 3 --jobs 1", "small 0-2"),
        ("sim --replay 4", "small 4 seed 4"),
        ("sim reconnect --seeds 2 --jobs 1", "reconnect"),
        ("explore --policy lossy_client --faults 0", "v2 lossy_client"),
    ],
)
def test_reports_are_written_and_written_again(command: str, case: str, tmp_path: Path) -> None:
    html, junit = tmp_path / "x.html", tmp_path / "x.xml"
    words = [*command.split(), "--html", str(html), "--junit", str(junit)]
    for _ in range(2):
        assert msgrlab(words) == 0
        assert _cases(junit) == [case]
        assert f"msgrlab {command} --html" in html.read_text(encoding="utf-8"), "the footer has the command"


@pytest.mark.usefixtures("state")
def test_a_cluster_has_a_report_while_it_is_up_and_when_it_ends(tmp_path: Path) -> None:
    html, junit, kept = tmp_path / "x.html", tmp_path / "x.xml", tmp_path / "kept"
    assert msgrlab(["up", "two-peers"]) == 0
    try:
        assert msgrlab(["status", "--html", str(html), "--junit", str(junit)]) == 0
        assert _cases(junit) == ["two-peers"]
        assert "two-peers/history.ndjson" in html.read_text(encoding="utf-8")
    finally:
        assert msgrlab(["down", "--html", str(html), "--keep", str(kept)]) == 0
    assert 'href="./kept/two-peers/history.ndjson"' in html.read_text(encoding="utf-8")
    assert (kept / "two-peers/history.ndjson").is_file()


def test_reports_do_not_replace_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("<html>mine</html>")
    for option in ("--html", "--junit"):
        assert msgrlab(["run", "reconnect", option, str(mine)]) == 2
        assert f"{option} {mine} exists already and is not a report" in capsys.readouterr().err
        assert msgrlab(["run", "reconnect", option, str(tmp_path / "none/x")]) == 2
        assert "there is no folder" in capsys.readouterr().err
    assert mine.read_text() == "<html>mine</html>"


def test_unsupported_scenarios_are_in_the_report(tmp_path: Path) -> None:
    junit = tmp_path / "x.xml"
    assert msgrlab(["run", "reconnect", "SH-10", "--junit", str(junit)]) == 0
    skipped = [case.get("name") for case in ET.parse(junit).iter("testcase") if case.find("skipped") is not None]
    assert skipped == ["SH-10"]


@pytest.mark.parametrize(("jobs", "number"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)])
def test_interrupted_run_reports_the_finished_cases(jobs: str, number: signal.Signals, tmp_path: Path) -> None:
    junit = tmp_path / "x.xml"
    words = impatient_command_line("run", "HS-0*", "all", "--jobs", jobs, "--junit", str(junit))
    with subprocess.Popen(
        words, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as command:
        assert command.stderr is not None
        first = next(line for line in map(bytes.decode, command.stderr) if "s left" in line)
        assert first.startswith("msgrlab: running, ")
        os.killpg(command.pid, number)
        *_, last = command.stderr.read().decode().splitlines()
    assert command.returncode == 130
    done = int(last.removeprefix("msgrlab: interrupted: ").partition(" of ")[0])
    assert done > 0
    root = ET.parse(junit).getroot()
    assert sum(case.find("skipped") is None for case in root.iter("testcase")) == done
