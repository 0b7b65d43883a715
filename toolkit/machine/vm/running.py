"""Run a program in a virtual machine: boot, forward its output, return its exit code."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from messenger.errors import LocalError
from toolkit.machine import interpreters
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.private import write_private
from toolkit.machine.vm import guest, qemu
from toolkit.machine.vm.kernels import KERNELS, Kernel, find
from toolkit.machine.vm.places import Place, place
from toolkit.machine.vm.probe import require_programs, with_system_path

MEMORY_MIB = 1024
LEAST_MEMORY_MIB = 256
_BOOT_TIMEOUT_S = 120.0
"""An emulated guest boots in 3 s; more on a busy machine."""
_OFF_TIMEOUT_S = 20.0
"""Seconds from the program's end until QEMU's."""
_POLL_S = 0.02
_CONSOLE_CHARS = 1000
"""Characters of the console's end that errors include."""

Sink = Callable[[bytes], object]
"""Takes a part of the program's output."""


class TimedOut(LocalError):
    """The program has not ended in time; the virtual machine was killed."""


@dataclass(frozen=True, slots=True)
class Result:
    """Exit code and output of a program in a virtual machine."""

    code: int
    """Exit code; 128 plus the signal number if a signal ended the program."""
    stdout: str
    """Standard output; empty if it went to a sink."""
    stderr: str
    """Standard error; empty if it went to a sink."""
    boot_s: float
    """Seconds from the start of QEMU to that of the program."""


def run(
    argv: Sequence[str],
    *,
    kernel: Kernel | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    out: Path | None = None,
    memory_mib: int = MEMORY_MIB,
    timeout_s: float | None = None,
    stdout: Sink | None = None,
    stderr: Sink | None = None,
    booted: Callable[[float], object] = lambda _seconds: None,
) -> Result:
    """Run a program in a virtual machine of its own, as root, with empty input.

    Args:
        argv: the program, found in the host's PATH, and its arguments.
        kernel: kernel to boot; the default one unless given.
        directory: working directory; the current one unless given.
        environment: environment of the program; unless given, this process's, with our packages in PYTHONPATH.
        out: directory of the host that the guest can write to, under the same path; made if missing. All other
            writes of the guest stay in its memory.
        memory_mib: memory of the guest, in MiB.
        timeout_s: time limit of the program; None for no limit.
        stdout: called with each part of its standard output; None to collect it in the result.
        stderr: likewise for its standard error.
        booted: called when the program starts, with the seconds since QEMU's start.

    Raises:
        LocalError: a value is invalid, or the guest has not started; the message has the end of its console.
        TimedOut: the program has not ended in time.
        Unsupported: QEMU or the kernel is missing; the message has the command that adds it.
    """
    if memory_mib < LEAST_MEMORY_MIB:
        raise LocalError(
            f"{memory_mib} MiB is too little memory for a virtual machine: {LEAST_MEMORY_MIB} or more"
        )
    require_programs()
    kernel = kernel or find(KERNELS[0])
    directory = (directory or Path.cwd()).resolve()
    environment = dict(interpreters.environment() if environment is None else environment)
    shares = {} if out is None else {"out": _made(out)}
    printed: dict[str, list[bytes]] = {guest.STDOUT: [], guest.STDERR: []}
    sinks = {
        guest.STDOUT: stdout or printed[guest.STDOUT].append,
        guest.STDERR: stderr or printed[guest.STDERR].append,
    }
    with place() as where:
        share = where.directory / "share"
        share.mkdir(mode=0o700)
        write_private(where.directory / "initramfs", guest.initramfs(kernel))
        _write_program(share, guest.INIT, guest.init(with_system_path(), shares.get("out")))
        environment["PATH"] = environment.get("PATH") or with_system_path()
        _write_program(share, guest.COMMAND, guest.command(argv, directory, environment))
        for name in sinks:
            write_private(share / name, b"")
        line = qemu.command_line(
            kernel,
            where.directory / "initramfs",
            where.directory / "console",
            {"share": share, **shares},
            memory_mib,
        )
        with _machine(line, where) as process:
            boot_s, code = _Watch(process, where, sinks, timeout_s, booted).until_end()
    texts = {name: b"".join(parts).decode(errors="replace") for name, parts in printed.items()}
    return Result(code, texts[guest.STDOUT], texts[guest.STDERR], boot_s)


def _made(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{out}: {error.strerror}") from None
    return out.resolve()


def _write_program(share: Path, name: str, text: str) -> None:
    write_private(share / name, text.encode(errors="surrogateescape"))
    (share / name).chmod(0o700)


@contextlib.contextmanager
def _machine(line: list[str], where: Place) -> Iterator["subprocess.Popen[bytes]"]:
    """Run QEMU for the duration of a ``with`` block, then kill it; Ctrl-C on this terminal does not reach it."""
    with (where.directory / "qemu").open("wb") as messages:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            env={**os.environ, "PATH": with_system_path(), PROCESS_VARIABLE: where.label},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class _Watch:
    """Follows a virtual machine from the start of QEMU to its end.

    Args:
        process: QEMU.
        where: the machine's directory.
        sinks: output sinks, by the name of the file that the guest appends to.
        timeout_s: time limit of the program.
        booted: called when the program starts.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        where: Place,
        sinks: Mapping[str, Sink],
        timeout_s: float | None,
        booted: Callable[[float], object],
    ) -> None:
        self._process = process
        self._where = where
        self._share = where.directory / "share"
        self._sinks = sinks
        self._timeout_s = timeout_s
        self._booted = booted

    def until_end(self) -> tuple[float, int]:
        """Forward all output until the program has ended; returns its start time in seconds and its exit code."""
        with contextlib.ExitStack() as opened:
            files = [
                (opened.enter_context((self._share / name).open("rb")), sink) for name, sink in self._sinks.items()
            ]
            began_s = time.monotonic()
            self._wait(guest.BOOTED, files, began_s + _BOOT_TIMEOUT_S)
            boot_s = time.monotonic() - began_s
            self._booted(boot_s)
            limit_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
            self._wait(guest.CODE, files, limit_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_OFF_TIMEOUT_S)
            return boot_s, int((self._share / guest.CODE).read_text())

    def _wait(self, name: str, files: Sequence[tuple[IO[bytes], Sink]], deadline_s: float | None) -> None:
        """Forward output until the guest has written a file."""
        while True:
            is_over = self._process.poll() is not None
            is_there = (self._share / name).exists()
            for file, sink in files:  # read after the checks above, so that the last output is not missed
                if part := file.read():
                    sink(part)
            if is_there:
                return
            if is_over:
                raise LocalError(f"the virtual machine has ended before the program did: {self._last_lines()}")
            if deadline_s is not None and time.monotonic() > deadline_s:
                if name == guest.BOOTED:
                    what = f"the virtual machine has not started within {_BOOT_TIMEOUT_S:g} s"
                    raise LocalError(f"{what}: {self._last_lines()}")
                raise TimedOut(f"the program has not ended within {self._timeout_s:g} s")
            time.sleep(_POLL_S)

    def _last_lines(self) -> str:
        """Return the end of the output of QEMU and the kernel."""
        texts = []
        for name in ("qemu", "console"):
            with contextlib.suppress(FileNotFoundError):
                texts.append((self._where.directory / name).read_text(errors="replace").strip())
        return "\n".join(filter(None, texts))[-_CONSOLE_CHARS:] or "it has printed nothing"
