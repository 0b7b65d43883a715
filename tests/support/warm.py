"""The command line in forks of a process that has imported it: most of the time of a short command is imports.

A fork has its own arguments, environment, directory, input and outputs, like a command that a user starts.
"""

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from toolkit.cli.main import main

SERVERS = multiprocessing.get_context("forkserver")
"""Starts processes as forks; all tests of a worker have the same server."""
SERVERS.set_forkserver_preload(
    [
        "pandas",
        "rich.table",
        "toolkit.cluster.spec",
        "toolkit.cluster.supervisor.client",
        "toolkit.dissect.capture",
        "toolkit.dissect.columns",
        *(f"toolkit.cli.{name}" for name in ("main", "down", "exec", "fault", "status", "tell", "up")),
    ]
)


class _Descriptor:
    """A file descriptor, which arrives in the fork as a copy."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[object]]:
        return _detached, (DupFd(self._number),)


def _detached(copy: Any) -> int:
    return int(copy.detach())


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``msgrlab`` with these arguments.

    Raises:
        TimeoutExpired: the command did not end in time, and was killed.
    """
    line = ["msgrlab", *arguments]
    with ExitStack() as closing:
        streams = [closing.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(stdin.encode())
        streams[0].seek(0)
        ends = [_Descriptor(stream.fileno()) for stream in streams]
        command = SERVERS.Process(target=_run, args=(line, dict(environment), Path.cwd(), ends))
        command.start()
        command.join(timeout_s)
        if command.exitcode is None:
            command.kill()
            command.join()
            raise subprocess.TimeoutExpired(line, timeout_s)
        for stream in streams:
            stream.seek(0)
        output, errors = (stream.read().decode() for stream in streams[1:])
        return subprocess.CompletedProcess(line, command.exitcode, output, errors)


def _run(line: list[str], environment: dict[str, str], directory: Path, ends: list[int]) -> None:
    """Become the command."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False)  # noqa: SIM115 - for the life of the process
        for number, mode in enumerate("rww")
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = line
    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which such a process would not do
