"""The commands of a page run one after the other as it prints them, against clusters that the page brings up."""

import re
import shlex
from pathlib import Path

import pytest

from toolkit.cli.main import run as msgrlab

ROOT = Path(__file__).parent.parent
PAGES = {
    "start": r"^(msgrlab .*)$",
    "reports": r"^(msgrlab .*)$",
    "faults": r"^    (msgrlab .*)$",
    "decode": r"^(msgrlab .*)$",
}
"""Each page with what its commands look like; those of other pages are tested beside what they are about."""


def _commands(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [shlex.split(line)[1:] for line in re.findall(PAGES[page], text, re.MULTILINE)]


@pytest.mark.parametrize(
    "page", ["start", "reports", "faults", pytest.param("decode", marks=pytest.mark.needs("capture"))]
)
def test_commands_run_as_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    commands = _commands(page)
    assert len(commands) > 2
    for words in commands:
        assert msgrlab(words) == 0, words
    state = tmp_path / "state"
    assert not state.exists() or not [path for path in state.iterdir() if path.is_dir()]
