"""A key log that grows while a capture is taken."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.capture.key_log import GrowingKeyLog

KEY = "AQBSdFhcGtZyNxAAg5gKVhWrFYsA0kIYS1jwYw=="
LINES = [f"v2 {digit * 32} {KEY} -\n" for digit in "0123"]


def test_whole_lines_are_taken_once(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(LINES[0])
    log = GrowingKeyLog(path)
    assert log.new_text() == LINES[0]
    assert log.new_text() == ""
    with path.open("a") as file:
        file.write(LINES[1] + LINES[2][:20])
        file.flush()
        assert log.new_text() == LINES[1]
        file.write(LINES[2][20:])
    assert log.new_text() == LINES[2]
    assert (log.lines, log.problem) == (3, "")


def test_key_log_may_appear_later(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    log = GrowingKeyLog(path)
    path.write_text(LINES[3])
    assert log.new_text() == LINES[3]
    path.unlink()
    assert log.new_text() == ""


@pytest.mark.parametrize("text", ["[client.admin]\n", "v2 abc\n", "\xff\n"])
def test_a_file_that_is_no_key_log_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(LocalError, match="keys"):
        GrowingKeyLog(path)


def test_a_folder_or_no_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "keys"):
        with pytest.raises(LocalError):
            GrowingKeyLog(path)


def test_later_bad_line_is_reported_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(LINES[0])
    log = GrowingKeyLog(path)
    log.new_text()
    with path.open("a") as file:
        file.write("secret!\n")
    assert log.new_text() == ""
    assert "neither" in log.problem
    assert "secret!" not in log.problem
    with path.open("a") as file:
        file.write(LINES[1])
    assert log.new_text() == LINES[1]
