"""The captures that commands read: several files, patterns, compressed ones, standard input; and which ports."""

import io
import sys
from pathlib import Path

import pytest
import zstandard

from tests.support.crafted import Connection, Peers, Tape, exchange
from toolkit.cli.main import run as msgrlab


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    tape = Tape()
    Connection(tape).open().play([*Peers().begin(), *exchange(2)]).close()
    return tape.write(tmp_path / "whole.pcap")


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert msgrlab([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def split(whole: Path) -> list[Path]:
    """The packets of a capture in two files, the later one first by name."""
    raw, at, cuts = whole.read_bytes(), 24, []
    while at < len(raw):
        cuts.append(at)
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    middle = cuts[len(cuts) // 2]
    files = [whole.with_name("ring.pcap1"), whole.with_name("ring.pcap")]
    files[0].write_bytes(raw[:middle])
    files[1].write_bytes(raw[:24] + raw[middle:])
    return files


@pytest.mark.parametrize(
    "command", [["decode"], ["explain"], ["requests", "--json"], ["analyze", "--json"], ["chart"]]
)
def test_every_command_reads_a_ring_a_pattern_and_standard_input(
    command: list[str], whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = output(capsys, *command, whole)
    assert "osd_op" in expected
    files = split(whole)
    assert output(capsys, *command, *reversed(files)) == expected
    assert output(capsys, *command, whole.parent / "ring.pcap*") == expected
    packed = io.TextIOWrapper(io.BytesIO(zstandard.compress(whole.read_bytes())))
    monkeypatch.setattr(sys, "stdin", packed)
    assert output(capsys, *command, "-") == expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-", "a.pcap"], "- (standard input) cannot be combined with other files"),
        (["nothing*.pcap"], "nothing*.pcap: no file matches"),
        (["a.pcap", "--ports", "many"], "ports 'many': 'many' is no port or range"),
    ],
)
def test_explain_refuses_files_that_form_no_capture(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["explain", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("command", ["decode", "requests", "analyze", "chart"])
def test_links_of_other_ports_are_left_out(command: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "osd_op" in output(capsys, command, whole, "--ports", "3300,6800-7568")
    msgrlab([command, str(whole), "--ports", "3300"])
    assert "osd_op" not in capsys.readouterr().out
