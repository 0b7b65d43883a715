"""``msgrlab run`` and ``msgrlab list`` as a user types them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.limits import files_limited_to
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.cli.main import run as msgrlab
from toolkit.errors import Unsupported
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.runner import run_scenario


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["list"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in ("reconnect", "standby", "session-reset"))
    assert msgrlab(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["scenarios"]
    assert [row["id"] for row in rows][:3] == ["reconnect", "standby", "session-reset"]
    for row in rows[:3]:
        assert row["backends"] == ["sim", "local", "netns", "docker"]
        assert "v2-secure" in row["ways"]


def test_run_prints_json_and_keeps_its_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "run",
        "reconnect",
        "standby",
        "--mode",
        "secure",
        "--seed",
        "3",
        "--json",
        "--out",
        str(tmp_path),
    ]
    assert msgrlab(arguments) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["scenario"], run["mode"], run["seed"], run["passed"]) for run in runs] == [
        ("reconnect", "secure", 3, True),
        ("standby", "secure", 3, True),
    ]
    history = History.load(runs[0]["artefacts"]["history"])
    assert len(history) == runs[0]["records"]
    assert all(result.ok for result in check(history))
    assert Path(runs[0]["artefacts"]["chart"]).read_text(encoding="utf-8").startswith("<svg")
    assert json.loads(Path(runs[0]["artefacts"]["outcome"]).read_text(encoding="utf-8"))["passed"]


def test_coverage_lists_actions_by_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["run", "GRID-01[a HELLO READ STALL]", "--coverage"]) == 0
    table = capsys.readouterr().out
    row = next(line.split() for line in table.splitlines() if line.startswith("HELLO READ"))
    assert row[-3:] == ["0", "0", "1"]
    assert "of 193 pairs of point and action visited" in table
    assert msgrlab(["run", "GRID-01[a SEQ READ FAULT]", "--proto", "v1", "--coverage", "--json"]) == 0
    coverage = json.loads(capsys.readouterr().out)["coverage"]
    assert list(coverage) == ["v1"]
    assert coverage["v1"]["points"]["SEQ READ"]["FAULT"] == 1
    assert ["CLOSE READ", "STALL"] in coverage["v1"]["missing"]
    assert "BANNER_PAYLOAD_READ" in coverage["v1"]["not_there"]


def test_a_case_about_one_protocol_does_not_run_on_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["run", "HS-03[X005 HELLO WRITE]", "--proto", "v1"]) == 3
    assert "is about v2" in capsys.readouterr().err
    assert msgrlab(["run", "HS-03", "--proto", "v1", "--json"]) == 0
    cases = [run["case"] for run in json.loads(capsys.readouterr().out)["runs"]]
    assert any("CONNECT WRITE" in case for case in cases)
    assert not any("HELLO" in case for case in cases)


def test_replay_command_repeats_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cuts = ["--cut", "a:MESSAGE:3:7", "--cut", "b:HELLO:1"]
    assert msgrlab(["run", "reconnect", *cuts, "--json", "--out", str(tmp_path / "1")]) == 0
    first = json.loads(capsys.readouterr().out)["runs"][0]
    assert first["replay"].startswith("msgrlab run reconnect --backend sim --mode crc --seed 1 --cut a:")
    again = first["replay"].split()[1:]
    assert msgrlab([*again, "--json", "--out", str(tmp_path / "2")]) == 0
    second = json.loads(capsys.readouterr().out)["runs"][0]
    histories = [Path(run["artefacts"]["history"]).read_bytes() for run in (first, second)]
    assert histories[0] == histories[1]


def test_failed_run_exits_with_1_and_names_the_expectation(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["run", "reconnect", "--cut", "a:SESSION_RESET", "--json"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert not run["passed"]
    assert "cut at SESSION_RESET #1 from a" in run["failure"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nope"], "msgrlab list"),
        (["run", "reconnect", "--mode", "rot13"], "crc, secure"),
        (["run", "reconnect", "--backend", "moon"], "sim, local"),
        (["run", "reconnect", "--proto", "v3"], "known: v1, v2"),
        (["run", "reconnect", "--cut", "rubbish"], "SENDER:TAG"),
        (["run", "standby", "--cut", "a:ACK"], "--cut is for others"),
        (["run"], "SCENARIO"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_run_exits_with_3_for_an_unsupported_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["run", "reconnect", "--proto", "v1", "--mode", "secure"]) == 3
    assert capsys.readouterr().err == "msgrlab: msgr v1 has no mode secure; it runs in crc\n"


@pytest.mark.parametrize("backend", ["sim", "local"])
def test_the_same_scenarios_run_on_v1(backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenarios = ["reconnect", "standby", "session-reset"]
    out = ["--out", str(tmp_path)]
    assert msgrlab(["run", *scenarios, "--proto", "v1", "--backend", backend, "--json", *out]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["protocol"], run["passed"]) for run in runs] == [("v1", True)] * 3
    chart = Path(runs[0]["artefacts"]["chart"]).read_text(encoding="utf-8")
    assert "CONNECT_REPLY" in chart


def test_v1_is_cut_by_the_names_of_its_own_frames(capsys: pytest.CaptureFixture[str]) -> None:
    cuts = ["--cut", "b:CONNECT_REPLY:1:5", "--cut", "a:CONNECT:2", "--cut", "a:SEQ:1:3", "--cut", "b:MSG:7:60"]
    assert msgrlab(["run", "reconnect", "--proto", "v1", *cuts, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert "--proto v1" in run["replay"]
    assert msgrlab([*run["replay"].split()[1:], "--json"]) == 0
    assert msgrlab(["run", "reconnect", "--proto", "v1", "--cut", "a:MESSAGE"]) == 2
    assert "no tag 'MESSAGE'; did you mean MSG?" in capsys.readouterr().err


def test_scenario_without_a_backend_is_unsupported_there() -> None:
    elsewhere = replace(find("standby"), backends=("sim",))
    with pytest.raises(Unsupported, match=r"standby cannot run on local.*; it runs on sim"):
        run_scenario(elsewhere, "local")


def test_run_does_not_overwrite_an_existing_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "standby", "--out", str(tmp_path)]
    assert msgrlab(arguments) == 0
    before = (tmp_path / "standby-sim-v2-crc" / "history.ndjson").read_bytes()
    assert msgrlab([*arguments, "--seed", "9"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "standby-sim-v2-crc" / "history.ndjson").read_bytes() == before


def test_list_describes_a_single_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["list", "NF-14"]) == 0
    coverage = capsys.readouterr().out
    assert "partition_matrix" in coverage
    assert "NF-14[bridge c]" in coverage
    assert msgrlab(["list", "NF", "--json"]) == 0
    assert {row["family"] for row in json.loads(capsys.readouterr().out)["scenarios"]} == {"NF"}


def test_chart_on_a_full_disk_is_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(History, "save", lambda _history, path: path.touch())  # it is longer than the chart
    with files_limited_to(1000):
        assert msgrlab(["run", "reconnect", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("/reconnect-sim-v2-crc/chart.svg: File too large\n")
