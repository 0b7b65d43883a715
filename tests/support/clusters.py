"""Clusters for tests: a state directory of their own, and the command line as a user has it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from toolkit.cluster.spec import ClusterSpec
from toolkit.machine.changes import labelled_processes
from toolkit.machine.leases import STATE_VARIABLE

ROOT = Path(__file__).parents[2]
COMMAND_TIMEOUT_S = 60.0


def peers(name: str = "pair", **changes: Any) -> ClusterSpec:
    """Return the spec of two peers without traffic."""
    nodes = {"a": {"entity": "osd.1"}, "b": {"entity": "osd.2"}}
    return ClusterSpec.model_validate({"name": name, "nodes": nodes, **changes})


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own, with kept logs beside it; what is left in it fails the test."""
    directory = tmp_path / "state"
    monkeypatch.setenv(STATE_VARIABLE, str(directory))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield directory
    assert remains(directory) == []


def remains(state: Path) -> list[str]:
    """Return the files that clusters have left in a state directory."""
    return sorted(path.name for path in state.iterdir() if path.name != ".lock") if state.is_dir() else []


def msgrlab(
    *arguments: str, stdin: str = "", timeout_s: float = COMMAND_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return warm.run_command(arguments, environment(), stdin, timeout_s)


def done(*arguments: str, stdin: str = "") -> str:
    """Run the command, which must succeed, and return its output."""
    finished = msgrlab(*arguments, stdin=stdin)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def answer_of(*arguments: str) -> Any:
    """Run the command, which must succeed, and return its output as JSON."""
    return json.loads(done(*arguments))


def command_line(*arguments: str) -> list[str]:
    """Return the command line that runs the command."""
    return [sys.executable, "-c", "from toolkit.cli.main import main; main()", *arguments]


def impatient_command_line(*arguments: str) -> list[str]:
    """Return the command line that runs the command, with lines about progress from 0.1 s on instead of 10 s."""
    interpreter, option, program, *_ = command_line()
    soon = "import toolkit.cli.progress as lines; lines._PATIENCE_S = lines._FIRST_PAUSE_S = 0.1; "
    return [interpreter, option, soon + program, *arguments]


def environment() -> dict[str, str]:
    """Return the environment of the command."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def processes_of(label: str) -> list[int]:
    """Return the processes of a cluster that still run."""
    return list(labelled_processes(label))


def parent_of(pid: int) -> int:
    """The process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_processes_of(label: str) -> None:
    """Kill the processes of a cluster; some end by themselves when another one is killed."""
    for pid in processes_of(label):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
