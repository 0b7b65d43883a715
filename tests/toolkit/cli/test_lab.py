"""``msgrlab lab``: a real JupyterLab, and what is refused before it starts."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.support.ports import low_port
from tests.support.waiting import eventually
from toolkit.cli.main import run as msgrlab

STARTS_IN_S = 60.0


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines that the process would have become."""
    lines: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, line: lines.append(line))
    return lines


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_it_serves_copies_of_the_notebooks_on_loopback_to_the_token_alone(tmp_path: Path) -> None:
    port, log = low_port(), tmp_path / "log"
    with log.open("w") as output:
        lab = subprocess.Popen(
            [Path(sys.executable).with_name("msgrlab"), "lab", "--port", str(port), "--no-browser"],
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")},
            stdout=output,
            stderr=output,
        )
    try:
        address = re.compile(rf"http://127\.0\.0\.1:{port}/lab/tree/00-tour\.ipynb\?(token=\w+)")
        eventually(lambda: address.search(log.read_text()), STARTS_IN_S, log.read_text)
        token = address.search(log.read_text()).group(1)
        eventually(lambda: _listens(port), STARTS_IN_S, log.read_text)  # the address is printed before that
        with urlopen(f"http://127.0.0.1:{port}/api/contents?{token}") as answer:
            listed = {entry["name"] for entry in json.load(answer)["content"]}
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"http://127.0.0.1:{port}/api/contents")
    finally:
        lab.terminate()
        lab.wait(20)
    assert {"00-tour.ipynb", "30-clusters.ipynb"} <= listed
    assert listed == {path.name for path in (tmp_path / "msgrlab-notebooks").iterdir()}


def test_copies_are_made_once_and_never_overwritten(
    tmp_path: Path, replaced: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lab" / "mine"
    assert msgrlab(["lab", str(folder)]) == 0
    assert f"notebooks are now in {folder}." in capsys.readouterr().out
    (folder / "00-tour.ipynb").write_text("mine")
    assert msgrlab(["lab", str(folder)]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "00-tour.ipynb").read_text() == "mine"
    assert all(f"--ServerApp.root_dir={folder}" in line for line in replaced)


def test_options_after_two_dashes_are_passed_to_jupyterlab(tmp_path: Path, replaced: list[list[str]]) -> None:
    assert msgrlab(["lab", str(tmp_path), "--port", "9000", "--", "--log-level", "ERROR"]) == 0
    assert msgrlab(["lab", "--no-browser", str(tmp_path), "--", "--ServerApp.ip=::1"]) == 0
    first, second = replaced
    assert first[-2:] == ["--log-level", "ERROR"]
    assert "--ServerApp.port=9000" in first
    assert "--no-browser" not in first
    assert second[-1] == "--ServerApp.ip=::1", "behind ours, so it counts"
    assert "--no-browser" in second


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_is_allowed_only_where_the_user_is_root(
    tmp_path: Path, replaced: list[list[str]], monkeypatch: pytest.MonkeyPatch, user: int, *, allowed: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert msgrlab(["lab", str(tmp_path)]) == 0
    assert ("--allow-root" in replaced[0]) == allowed


def test_a_missing_jupyterlab_is_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(find: Callable[..., object]) -> Callable[..., object]:
        return lambda name, *rest: None if name == "jupyterlab" else find(name, *rest)

    monkeypatch.setattr("toolkit.notebook.jupyter.find_spec", nowhere(importlib.util.find_spec))
    assert msgrlab(["lab", str(tmp_path / "new")]) == 3
    assert capsys.readouterr().err == "msgrlab: jupyterlab is not installed: pip install 'msgrlab[notebooks]'\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["lab", "/dev/null"], "/dev/null: File exists; give a folder that exists or can be created"),
        (["lab", "/dev/null/x"], "/dev/null/x: Not a directory; give a folder that exists or can be created"),
        (["lab", "one", "two"], "lab opens one folder, but two follows it; options for JupyterLab come after --"),
        (["lab", "--port", "0"], "Input should be greater than or equal to 1"),
    ],
)
def test_lab_refuses_paths_that_are_no_folder(
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert msgrlab(arguments) == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
