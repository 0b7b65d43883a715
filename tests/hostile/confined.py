"""Runs ``msgrlab`` as a user would, in a process of its own with a limit for memory, time and output."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.warm import SERVERS

MIB = 1 << 20
TIMED_OUT = -signal.SIGXCPU
_ESCAPED = 70
"""Exit code of a command out of which an exception escaped."""
_MOST_OUTPUT_BYTES = 512 * MIB
_PATIENCE_S = 280.0
"""Real time for a command that waits without computing; machines are shared."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a command: its exit code, its output, and the resources it used."""

    code: int
    """Its exit code; negative: the signal that ended it."""
    out: str
    err: str

    @property
    def is_orderly(self) -> bool:
        """True if it ended by itself with one of its exit codes, and at most one line of complaint."""
        return self.code in {0, 1, 2} and self.err.count("\n") <= 1 and "Traceback" not in self.err


def msgrlab(folder: Path, *arguments: object, memory_mib: int = 512, cpu_s: int = 60) -> Outcome:
    """Run a command line in a folder.

    Args:
        folder: its current directory; its output goes there, too.
        arguments: behind ``msgrlab``.
        memory_mib: how much it may take beyond what the interpreter has with its modules.
        cpu_s: how long it may compute.
    """
    return confined(folder, _command_line, [str(each) for each in arguments], memory_mib=memory_mib, cpu_s=cpu_s)


def confined(
    folder: Path, call: Callable[[Any], int], argument: object, *, memory_mib: int = 512, cpu_s: int = 60
) -> Outcome:
    """Call a function of a module in a process of its own; the rest as for :func:`msgrlab`."""
    process = SERVERS.Process(target=_inside, args=(folder, call, argument, memory_mib, cpu_s), daemon=True)
    process.start()
    process.join(_PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    out, err = ((folder / name).read_text("utf-8", "replace") for name in ("stdout", "stderr"))
    assert process.exitcode is not None
    return Outcome(process.exitcode, out, err)


def _inside(folder: Path, call: Callable[[Any], int], argument: object, memory_mib: int, cpu_s: int) -> None:
    os.chdir(folder)
    os.umask(0)  # nothing but the program itself keeps its files from others
    for number, name in enumerate(("stdout", "stderr"), 1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - for the life of the process
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_AS, taken + memory_mib * MIB),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, _MOST_OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    try:
        code = call(argument)
    except BaseException:  # noqa: BLE001 - shown as the interpreter shows it
        sys.excepthook(*sys.exc_info())
        code = _ESCAPED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _command_line(arguments: Sequence[str]) -> int:
    from toolkit.cli.main import run

    return run(arguments)
