from pathlib import Path

import pytest

from toolkit.cli.main import run as msgrlab
from toolkit.dissect.wireshark.dissector import dissector


def test_the_dissector_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["wireshark"]) == 0
    assert capsys.readouterr().out == dissector()


def test_the_dissector_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "msgr2.lua"
    assert msgrlab(["wireshark", "-o", str(path)]) == 0
    assert f"lua_script:{path}" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == dissector()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--install", "-o", "x"], "--install and -o FILE exclude each other"),
        (["some.pcap"], "to export CAPTURE, -o FILE.pcapng is needed"),
        (["some.pcap", "--install", "-o", "x"], "to export CAPTURE, -o FILE.pcapng is needed, without --install"),
        (["--keyring", "k"], "--keyring and --key-log need CAPTURE"),
        (["none.pcap", "-o", "out.pcapng"], "none.pcap: No such file or directory"),
        (["none.pcap", "-o", "out.pcapng", "--keyring", "none.keyring"], "none.keyring"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert msgrlab(["wireshark", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert words in complaint
    assert complaint.count("\n") == 1
    assert not list(tmp_path.iterdir())
