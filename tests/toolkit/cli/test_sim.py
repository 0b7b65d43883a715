"""``msgrlab sim`` as a user types it."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from messenger.session.session import Session
from tests.support.clusters import environment, impatient_command_line
from toolkit.checks.history import History
from toolkit.cli.main import run as msgrlab
from toolkit.simulation.swarm import live


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A messenger that drops instead of sending again."""
    monkeypatch.setattr(Session, "requeue_sent", lambda session: session.queue.sent.clear())


def _json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert msgrlab(["sim", *arguments, "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_json_counts_seeds_events_and_marks(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "--seeds", "30", "--first", "10", "--jobs", "1")
    assert (answer["seeds"], answer["first"], answer["failures"], answer["failed"]) == (30, 10, 0, [])
    assert answer["seconds"] > 0
    assert answer["seeds_per_second_per_core"] > 0
    assert answer["events"] > 1000
    assert answer["marks"]["replay"] > 0
    assert {mark for mark, times in answer["marks"].items() if not times} == set(answer["never"])


def test_processes_change_nothing_but_time(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [_json(capsys, "--seeds", "40", "--jobs", jobs) for jobs in ("1", "2")]
    for answer in answers:
        del answer["seconds"], answer["seeds_per_second_per_core"]
    assert answers[0] == answers[1]


def test_table_lists_points_never_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["sim", "--seeds", "5", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("5 seeds in ")
    assert "rare states reached" in shown
    assert "  not reached: " in shown


def test_replay_describes_a_life(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["sim", "--replay", "7"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("seed 7: passed\ndrew: ")
    assert f"schedule, {len(live(7).plan)} of {len(live(7).plan)} operations:" in shown
    assert "the last 40 frames:" in shown
    assert shown.endswith("again: msgrlab sim --replay 7\n")


def test_replay_of_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "--replay", "7", "--keep", "0,2")
    assert (answer["keep"], len(answer["schedule"])) == ([0, 2], 2)
    assert answer["digest"] == live(7, keep=[0, 2]).digest
    assert answer["replay"] == "msgrlab sim --replay 7 --keep 0,2"
    assert _json(capsys, "--replay", "7", "--keep", "none")["schedule"] == []


def _seeds_from_a_failing_one() -> list[str]:
    """Options for a few seeds, of which the first one fails and has a short plan, which is shrunk in a second."""
    lives = map(live, range(200))
    failing = next(outcome for outcome in lives if outcome.failures and len(outcome.plan) < 16)
    return ["--first", str(failing.seed), "--seeds", "3", "--jobs", "1"]


@pytest.mark.usefixtures("forgetful")
def test_failure_is_shrunk_reported_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, *_seeds_from_a_failing_one(), "--out", str(tmp_path), code=1)
    failed = answer["failed"][0]
    assert answer["failures"] == len(answer["failed"])
    shrunk = failed["shrunk"]
    assert shrunk["failures"][0]["id"] in {failure["id"] for failure in failed["failures"]}
    assert len(shrunk["schedule"]) == len(shrunk["keep"]) <= shrunk["operations"]
    kept = tmp_path / f"seed-{failed['seed']}"
    assert sorted(path.name for path in kept.iterdir()) == [
        "chart.svg",
        "history.ndjson",
        "outcome.json",
        "report.html",
    ]
    assert len(History.load(kept / "history.ndjson")) == shrunk["records"]
    assert shrunk["replay"] in (kept / "report.html").read_text(encoding="utf-8")
    keep = shrunk["replay"].rpartition(" ")[2]
    again = _json(capsys, "--replay", str(failed["seed"]), "--keep", keep, code=1)
    assert again["digest"] == shrunk["digest"]
    assert msgrlab(["sim", "--replay", str(failed["seed"]), "--out", str(tmp_path)]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


@pytest.mark.usefixtures("forgetful")
def test_sim_describes_failures(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["sim", *_seeds_from_a_failing_one()]) == 1
    shown = capsys.readouterr().out
    assert ": failed\n  INV-" in shown
    assert "again: msgrlab sim --replay " in shown
    assert "\nfailed: " in shown


def test_scenarios_over_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "reconnect", "standby", "--seeds", "4", "--jobs", "1")
    assert (answer["seeds"], answer["runs"], answer["failures"]) == (4, 8, 0)
    assert msgrlab(["sim", "reconnect", "--replay", "3"]) == 0
    assert capsys.readouterr().out.startswith("1 runs in ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--size", "huge"], "--size: unknown size 'huge'; known: small, cluster"),
        (["--keep", "1"], "--keep needs --replay"),
        (["--replay", "1", "--keep", "x"], "'x' is neither a list of numbers, as in 1,4,7, nor none"),
        (["reconnect", "--check-determinism"], "--check-determinism and --size cannot be combined with scenarios"),
        (["--replay", "1", "--check-determinism"], "cannot be combined with --replay: give --first SEED"),
        (
            ["--replay", "1", "--seeds", "5"],
            "--first and --seeds cannot be combined with --replay, which runs one seed",
        ),
        (["reconnect", "--replay", "1", "--first", "0"], "--first and --seeds cannot be combined with --replay"),
        (["nope"], "no scenario 'nope'"),
        (["--seeds", "0"], "--seeds"),
        (["--replay", "-4"], "--replay"),
        (["--seeds", "1", "--out", "/dev/null/x"], "--out /dev/null/x: Not a directory"),
    ],
)
def test_impossible_input_is_one_error_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["sim", *arguments]) == 2
    shown = capsys.readouterr().err
    assert complaint in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("is_sent_twice", [False, True])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_sim_shows_the_results_so_far_after_sigterm(jobs: str, is_sent_twice: bool) -> None:  # noqa: FBT001
    words = impatient_command_line("sim", "--seeds", "1000000", "--jobs", jobs)
    with subprocess.Popen(
        words, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as command:
        assert command.stderr is not None
        next(line for line in command.stderr if b"simulating" in line)
        command.send_signal(signal.SIGTERM)
        if is_sent_twice:  # as timeout does
            os.killpg(command.pid, signal.SIGTERM)
        stdout, stderr = command.communicate(timeout=60)
    assert command.returncode == 130
    assert b"Traceback" not in stderr
    assert re.search(rb"interrupted: [1-9][0-9]* of 1000000 seeds were run", stdout), stdout
