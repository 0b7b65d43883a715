"""``msgrlab matrix``: list, reports, exit codes, bad input."""

import json
from pathlib import Path

import pytest

from toolkit.cli.main import run
from toolkit.matrix import runner, shared_run
from toolkit.matrix.evidence import EvidenceMissing


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Cells run on nothing, and those of these cases fail."""
    from tests.toolkit.matrix.test_runner import Fake, FakeTrial, fine

    failing: set[str] = set()

    def case(trial: FakeTrial) -> None:
        fine(trial)
        if trial.cell.case in failing:
            raise EvidenceMissing("no frame of it")

    def made(cells: object, directory: Path) -> runner.Run:
        return plain(cells, directory, grounds=Fake().open, case=case)  # type: ignore[arg-type]

    plain = runner.Run
    assert issubclass(shared_run.SharedRun, plain)  # imported before the name stands for a function
    monkeypatch.setattr(runner, "Run", made)
    return failing


def test_the_list_has_cells_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "--list", "--only", "reef/v1/none/server"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reef/v1/none/server/handshake"
    assert (
        lines[7]
        == "reef/v1/none/server/rekey  not applicable: protocol: without authentication there are no tickets"
    )
    assert run(["matrix", "--list", "--json", "--only", "reef/v1/none/server"]) == 0
    listed = json.loads(capsys.readouterr().out)["cells"]
    assert (listed[0]["reason"], len(listed)) == (None, len(lines))


def test_matrix_reports_successful_cells(
    fails: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert not fails
    out = tmp_path / "out"
    assert run(["matrix", "--only", "reef/v1/aes/server", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "7 succeeded" in text
    assert "reef/v1/aes/server/handshake: succeeded" in text
    assert (out / "reef-v1-aes-server-loss10" / "outcome.txt").exists()


def test_a_failure_is_explained_reported_and_ends_with_1(
    fails: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fails.add("traffic")
    junit, html, out = tmp_path / "m.xml", tmp_path / "m.html", tmp_path / "out"
    words = [
        "matrix",
        "--only",
        "reef/v1/aes/server",
        "--junit",
        str(junit),
        "--html",
        str(html),
        "--out",
        str(out),
    ]
    assert run(words) == 1
    text = capsys.readouterr().out
    for part in (
        "reef/v1/aes/server/traffic failed: no frame of it",
        "seen      traffic was seen",
        "again     msgrlab matrix --only reef/v1/aes/server/traffic",
    ):
        assert part in text
    assert 'tests="10" failures="1" errors="0" skipped="3"' in junit.read_text()
    assert "no frame of it" in html.read_text()
    out.rename(tmp_path / "before")
    assert run(["matrix", "--only", "reef/v1/aes/server", "--json", "--out", str(out)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"succeeded": 6, "failed": 1, "not applicable": 3}
    assert found["interrupted"] is False


def test_bad_input_is_refused_before_anything_is_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, error in (
        (["--only", "quincy"], "matches no cell"),
        (["--release", "quincy"], "known: nautilus"),
        (["--out", str(tmp_path)], "--out"),
    ):
        assert run(["matrix", *words]) == 2
        assert error in capsys.readouterr().err
