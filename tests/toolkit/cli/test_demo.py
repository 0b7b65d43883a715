"""``msgrlab demo`` from the command to the report."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from toolkit.checks.history import History
from toolkit.cli.main import run as msgrlab

RUNS = [
    f"{scenario}-local-v2-{mode}"
    for scenario in ("reconnect", "standby", "session-reset")
    for mode in ("crc", "secure")
]


def _opener(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an xdg-open and a display for it; returns where it writes what it opens."""
    opened, programs = folder / "opened", folder / "bin"
    programs.mkdir()
    (programs / "xdg-open").write_text(f'#!/bin/sh\necho "$1" >{opened}.part && mv {opened}.part {opened}\n')
    (programs / "xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":99")
    return opened


def test_demo_runs_everything_and_opens_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo"
    opened = _opener(tmp_path, monkeypatch)
    assert msgrlab(["demo", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("passed") == len(RUNS)
    assert (out / "report.html").as_uri() in printed
    eventually(opened.exists)
    assert opened.read_text() == f"{out / 'report.html'}\n"
    report = (out / "report.html").read_text(encoding="utf-8")
    for name in RUNS:
        assert f"{name}/history.ndjson" in report
        history = History.load(out / name / "history.ndjson")
        assert history.of("frame"), "the chart is of real frames"
    assert report.count('id="s') >= len(RUNS)
    assert report.count("msgrlab run ") >= len(RUNS), "each scenario shows the command that repeats it"
    assert not re.search(r"""(?:src|href)=["']https?://""", report), "the report is self-contained"


def test_two_demos_at_once_have_a_folder_each(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from toolkit.cli.main import main; main()", "demo"]
    demos = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [demo.wait(60) for demo in demos] == [0, 0]
    assert sorted(path.parent.name for path in tmp_path.rglob("report.html")) == ["demo-1", "demo-2"]


def test_folder_of_a_demo_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "msgrlab-out").write_text("mine")
    assert msgrlab(["demo"]) == 2
    assert capsys.readouterr().err == "msgrlab: msgrlab-out: File exists; --out names another folder\n"


def test_demo_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "reconnect-local-v2-crc"
    kept.mkdir()
    (kept / "mine.txt").write_text("mine")
    assert msgrlab(["demo", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (kept / "mine.txt").read_text() == "mine"
