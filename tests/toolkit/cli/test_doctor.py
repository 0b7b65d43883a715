import json
import time
from pathlib import Path

import pytest

from toolkit.cli.main import run
from toolkit.doctor import catalogue
from toolkit.machine.capability import Capability, Finding

FAKES = (
    Capability("here", "this", lambda: Finding(available=True, detail="1.0")),
    Capability(
        "addable", "that", lambda: Finding(available=False, detail="left [red]home", commands=("fetch it",))
    ),
    Capability("impossible", "more", lambda: Finding(available=False, detail="no hardware")),
)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "CAPABILITIES", FAKES)


def test_table_lists_present_and_missing_parts_with_commands(
    fakes: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["doctor"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["capability", "status", "needed", "for", "remedy"]
    assert rows[0].split() == ["here", "yes:", "1.0", "this"]
    assert rows[1].split() == ["addable", "missing:", "left", "[red]home", "that", "fetch", "it"]
    assert rows[2].split() == ["impossible", "not", "on", "this", "machine:", "no", "hardware", "more"]
    assert rows[-2] == "  fetch it"


def test_the_command_is_not_wrapped_for_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = " ".join(["fetch"] * 30)
    fake = Capability("x", "y", lambda: Finding(available=False, detail="", commands=(long,)))
    monkeypatch.setattr(catalogue, "CAPABILITIES", (fake,))
    monkeypatch.setenv("COLUMNS", "40")
    assert run(["doctor"]) == 0
    assert f"  {long}\n" in capsys.readouterr().out


def test_complete_machine_gets_no_advice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "CAPABILITIES", (FAKES[0], FAKES[2]))
    assert run(["doctor"]) == 0
    assert "To install" not in capsys.readouterr().out


def test_json(fakes: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    here, addable, impossible = (answer := json.loads(capsys.readouterr().out))["capabilities"]
    assert answer["install"] == "fetch it"
    assert here == {"name": "here", "available": True, "detail": "1.0", "enables": "this", "remedy": None}
    assert (addable["available"], addable["remedy"]) == (False, "fetch it")
    assert (impossible["available"], impossible["remedy"]) == (False, None)


def test_doctor_is_quick_and_changes_nothing_on_this_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    modules = Path("/proc/modules")
    before = modules.read_text() if modules.exists() else ""
    start = time.monotonic()
    assert run(["doctor", "--json"]) == 0
    assert time.monotonic() - start < 10
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["capabilities"]}
    assert found["python"]["available"]
    assert all(row["detail"] and row["enables"] for row in found.values())
    assert list(tmp_path.iterdir()) == []
    assert (modules.read_text() if modules.exists() else "").count("\n") == before.count("\n")
