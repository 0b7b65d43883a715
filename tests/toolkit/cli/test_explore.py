"""``msgrlab explore``: figures, exit codes, replays."""

import json
from pathlib import Path

import pytest

from toolkit.checks.history import History
from toolkit.cli.explore import replay_command
from toolkit.cli.main import run
from toolkit.exploration import node
from toolkit.exploration.replay import parse_choices
from toolkit.exploration.scope import Grain, Scope

QUICK = ("explore", "--policy", "lossless_client")


def test_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUICK, "--proto", "v1,v2", "--jobs", "2", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["proto"] for result in results] == ["v1", "v2"]
    assert all(result["complete"] and result["states"] > 300 and not result["violations"] for result in results)


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUICK, "--max-states", "100"]) == 0
    assert "cut off" in " ".join(capsys.readouterr().out.split())


def test_a_schedule_is_run_again_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run([*QUICK, "--replay", "a:connect arrive0 forth0 break0 notice0@a", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "b receives CLIENT_IDENT" in text
    assert text.endswith("no violation\n")
    assert len(History.load(out / "history.ndjson")) > 50
    assert "CLIENT_IDENT" in (out / "chart.svg").read_text(encoding="utf-8")


def test_explore_shows_the_finding_and_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node.Node, "unsettled", ["nothing is good enough"])
    out = tmp_path / "found"
    assert run([*QUICK, "--faults", "0", "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert "nothing moves any more, but a's nothing is good enough" in text
    assert "again: msgrlab explore --proto v2 --policy lossless_client --messages 1+1 --faults 0" in text
    assert (out / "1" / "chart.svg").exists()


def test_the_command_for_a_replay_names_the_whole_scope() -> None:
    words = replay_command(Scope(faults=2, grain=Grain.FRAME, messages=(0, 2)), "a:connect arrive0")
    assert words[words.index("--messages") + 1] == "0+2"
    assert words[words.index("--grain") + 1] == "frame"
    assert parse_choices(words[-1])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--policy", "best_effort"], "unknown policy 'best_effort'; known: lossless_peer"),
        (["--proto", "v3"], "--proto: unknown value 'v3'; known: v1, v2"),
        (["--kinds", "fire"], "--kinds: unknown value 'fire'; known: break, refuse, half-open, crash, mark-down"),
        (["--messages", "1+2+3"], "--messages: '1+2+3' is not N or N+M"),
        (["--grain", "byte"], "--grain: unknown value 'byte'; known: frame, session"),
        (["--replay", "jump"], "'jump' is not a step"),
        (["--proto", "v1,v2", "--replay", "a:connect"], "--replay needs exactly one --proto and one --policy"),
        (["--out", "."], ". exists already"),
    ],
)
def test_explore_refuses_invalid_arguments(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explore", *arguments]) == 2
    assert complaint in capsys.readouterr().err
