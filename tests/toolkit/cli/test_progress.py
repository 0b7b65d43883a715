"""Progress where there is no terminal."""

import pytest

from toolkit.cli import progress as module
from toolkit.cli.progress import progress


def test_short_work_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("running", 3) as steps:
        for _ in range(3):
            steps.show("one")
            steps.advance()
    assert capsys.readouterr().err == ""


def test_long_work_shows_progress_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s)
    with progress("running", 100) as steps:
        for _ in range(100):
            now_s += 1
            steps.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "msgrlab: running, 10 of 100, about 90 s left"
    assert [int(line.split()[2]) for line in lines] == [10, 15, 25, 45, 85]


def test_work_of_unknown_length_shows_how_long_it_has_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s)
    with progress("node") as steps:
        now_s = 14.0
        steps.show("unpacking \x1b[2J")
    assert capsys.readouterr().err == "msgrlab: node, unpacking \\x1b[2J, 14 s so far\n"


def test_quiet_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("running", 1, quiet=True) as steps:
        steps.show("one")
        steps.advance()
    assert capsys.readouterr().err == ""
