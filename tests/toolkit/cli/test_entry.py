"""The entry point of the command, while it imports."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ENTRY = "from toolkit.cli.entry import main; main()"
TYPER = "import time; print('importing', flush=True); time.sleep({pause_s})\nraise SystemExit('imported')"
TIMEOUT_S = 30.0


def interrupted_import(directory: Path, pause_s: float, *, ignoring: bool = False) -> subprocess.Popen[str]:
    """The command, with SIGINT sent while it imports typer, which takes this long."""
    (directory / "typer.py").write_text(TYPER.format(pause_s=pause_s), encoding="ascii")
    program = [sys.executable, "-c", ENTRY]
    if ignoring:
        program = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *program]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, cwd=directory
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    return process


def test_an_interrupt_during_imports_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    process = interrupted_import(tmp_path, pause_s=TIMEOUT_S)
    assert process.communicate(timeout=TIMEOUT_S) == ("", "")
    assert process.returncode == -signal.SIGINT


def test_an_interrupt_that_the_parent_ignores_stays_ignored(tmp_path: Path) -> None:
    process = interrupted_import(tmp_path, pause_s=0.1, ignoring=True)
    assert process.communicate(timeout=TIMEOUT_S) == ("", "imported\n")
