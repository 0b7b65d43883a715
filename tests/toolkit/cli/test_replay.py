"""``msgrlab replay``."""

import json

import pytest

from messenger.v2 import data
from tests.support.clusters import ROOT
from toolkit.cli.main import run

NONE = str(ROOT / "captures" / "tentacle-none" / "capture.pcapng.gz")
SECURE = str(ROOT / "captures" / "tentacle-secure" / "capture.pcapng.gz")


def test_a_line_for_each_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", NONE, "--as", "server"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "session 0, client.4112 → mon.0, v2.1 crc: 9 frames compared, 9 equal"
    assert lines[-1] == (
        "3 of 3 sessions replayed as server: 55 frames compared, 55 equal, 0 differ as allowed, 0 differ"
    )


def test_one_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", NONE, "--as", "client", "--session", "2"]) == 0
    assert capsys.readouterr().out.startswith("session 2, client.4113 → osd.0, ")


def test_differences_by_kind(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FLAGS", 1)
    assert run(["replay", NONE, "--as", "client", "--session", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("8 frames compared, 6 equal, 2 DIFFER")
    assert lines[1] == "    frame 12 on link 0: MESSAGE: flags=3 ours=1 (and 1 more like this)"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", NONE, "--as", "client", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["as"] == "client"
    assert found["problem"] is None
    first = found["sessions"][0]
    assert (first["session"], first["links"], first["not_replayed"]) == (0, [0], None)
    assert (first["compared"], first["equal"], first["allowed"], first["differences"]) == (8, 8, {}, [])


def test_replay_states_why_a_link_is_not_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SECURE, "--as", "client"]) == 1
    output = capsys.readouterr()
    assert "not replayed: link 0: sealed; missing: key of client.admin" in output.out
    assert "nothing was replayed" in output.err


def test_a_side_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", NONE]) == 2
    assert "--as" in capsys.readouterr().err
