"""A virtual machine that runs programs one after another: boot, forward their output, return their exit codes."""

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from messenger.errors import LocalError
from toolkit.machine import interpreters
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.private import write_private
from toolkit.machine.system_path import with_system_path
from toolkit.machine.vm import bytecode, guest
from toolkit.machine.vm.engine import CONSOLE, INITRAMFS, OUT, SHARE, Boot
from toolkit.machine.vm.engines import bootable, engine_of, require_programs
from toolkit.machine.vm.kernels import Kernel
from toolkit.machine.vm.networks import Network
from toolkit.machine.vm.places import Place, place

MEMORY_MIB = 1024
LEAST_MEMORY_MIB = 256
_BOOT_TIMEOUT_S = 120.0
"""An emulated guest boots in 3 s; more on a busy machine."""
_POLL_S = 0.02
_END_S = 5.0
"""Most seconds for the engine to end when it is asked to."""
_MESSAGES = "messages"
"""Name of the file with the output of the engine."""
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
    """Seconds from the start of the engine until the guest was ready; 0 if it ran already."""


class Machine:
    """A virtual machine for several programs; it boots for the first one, and ends with :meth:`close`.

    Programs share the guest: a program finds the files, interfaces and kernel modules that earlier ones have left.
    Processes that a program leaves are killed. If a program times out, is interrupted or ends the guest, the next
    one boots another guest. The guest also ends with the thread that booted it.

    ::

        with vm.Machine() as machine:
            machine.run(["modprobe", "rdma_rxe"])
            print(machine.run(["rdma", "link"]).stdout)

    Args:
        kernel: kernel to boot, or its name; that of :func:`~toolkit.machine.vm.kernels.find` unless given.
        out: directory of the host that the guest can write to, under the same path; made if missing. All other
            writes of the guest stay in its memory.
        memory_mib: memory of the guest, in MiB.
        preload: modules that :meth:`run_module` imports once for all programs.
        has_port: True to connect a port of the guest to :attr:`port`.
        where: existing directory and label of the machine, if their owner undoes what a killed process has left;
            new ones in the state directory unless given.
        network: network of this machine that the guest is attached to; without one it has loopback only.

    Raises:
        LocalError: a value is invalid.
    """

    def __init__(
        self,
        *,
        kernel: Kernel | str = "",
        out: Path | None = None,
        memory_mib: int = MEMORY_MIB,
        preload: Sequence[str] = (),
        has_port: bool = False,
        where: Place | None = None,
        network: Network | None = None,
    ) -> None:
        if memory_mib < LEAST_MEMORY_MIB:
            raise LocalError(
                f"{memory_mib} MiB is too little memory for a virtual machine: {LEAST_MEMORY_MIB} or more"
            )
        self._kernel = kernel
        self.out = out
        """Directory of the host that the guest can write to; None if there is none."""
        self._memory_mib = memory_mib
        self._preload = tuple(preload)
        self._has_port = has_port
        self._where = where
        self.port: socket.socket | None = None
        """Socket to the port :data:`~toolkit.machine.vm.engine.PORT` of the guest that runs, with ``has_port``."""
        self._network = network
        self._guest: _Guest | None = None
        self._undo = contextlib.ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the guest, if it runs, and undo all changes of the host; the machine may boot again."""
        self._guest = self.port = None
        self._undo.close()

    def boot(self) -> float:
        """Boot the guest, if it does not run yet, and return the seconds that it took; raises as :meth:`run`."""
        with self._lock:
            try:
                return self._running()[1]
            except BaseException:
                self.close()
                raise

    def run(
        self,
        argv: Sequence[str],
        *,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdout: Sink | None = None,
        stderr: Sink | None = None,
        booted: Callable[[float], object] = lambda _seconds: None,
    ) -> Result:
        """Run a program in the guest, as root, with empty input; calls from several threads run one by one.

        Args:
            argv: the program, found in the host's PATH, and its arguments.
            directory: working directory; the current one unless given.
            environment: environment of the program; unless given, this process's, with our packages in PYTHONPATH.
            timeout_s: time limit of the program; None for no limit.
            stdout: called with each part of its standard output; None to collect it in the result.
            stderr: likewise for its standard error.
            booted: called once the guest is ready, with the seconds that its boot took.

        Raises:
            LocalError: the guest has not started, or it ended before the program did; the message has the end of
                its console.
            TimedOut: the program has not ended in time.
            Unsupported: the engine or the kernel is missing; the message has the command that adds it.
        """
        directory, environment = _surroundings(directory, environment)
        program = guest.COMMAND, guest.command(argv, directory, environment)
        return self._run(program, timeout_s, stdout, stderr, booted)

    def run_module(
        self,
        module: str,
        *args: str,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdout: Sink | None = None,
        stderr: Sink | None = None,
    ) -> Result:
        """Run a Python module as ``python -P -m MODULE ARGS`` does, without starting an interpreter.

        The program is a fork of an interpreter that has imported the modules to preload: without KVM, that saves
        ten seconds and more. It finds modules where the first such program found them: a later ``PYTHONPATH`` has
        no effect on it.

        Arguments and errors are those of :meth:`run`. The exit code is 125 if a module to preload cannot be
        imported; standard error then has the reason.
        """
        directory, environment = _surroundings(directory, environment)
        program = guest.MODULE, guest.module(module, args, directory, environment)
        return self._run(program, timeout_s, stdout, stderr)

    def _run(
        self,
        program: tuple[str, str],
        timeout_s: float | None,
        stdout: Sink | None,
        stderr: Sink | None,
        booted: Callable[[float], object] = lambda _seconds: None,
    ) -> Result:
        printed: dict[str, list[bytes]] = {guest.STDOUT: [], guest.STDERR: []}
        sinks = {
            guest.STDOUT: stdout or printed[guest.STDOUT].append,
            guest.STDERR: stderr or printed[guest.STDERR].append,
        }
        with self._lock:
            try:
                running, boot_s = self._running()
                booted(boot_s)
                code = running.run(*program, sinks, timeout_s)
            except BaseException:
                self.close()  # what the program left in the guest cannot be known
                raise
        texts = {name: b"".join(parts).decode(errors="replace") for name, parts in printed.items()}
        return Result(code, texts[guest.STDOUT], texts[guest.STDERR], boot_s)

    def _running(self) -> "tuple[_Guest, float]":
        """Return the guest, and the seconds that its boot took; 0 if it runs already."""
        if self._guest is not None and self._guest.is_running:
            return self._guest, 0.0
        self.close()
        if isinstance(kernel := self._kernel, Kernel):
            require_programs(kernel.name)
        else:
            kernel = bootable(kernel)
        engine = engine_of(kernel)
        shares = {} if self.out is None else {OUT: _made(self.out)}
        where = self._where or self._undo.enter_context(place())
        attachment = (
            None
            if self._network is None
            else self._undo.enter_context(self._network.attached(has_headers=engine.takes_headers))
        )
        share = where.directory / SHARE
        share.mkdir(mode=0o700)
        write_private(where.directory / INITRAMFS, guest.initramfs(kernel, engine))
        init = guest.init(engine, with_system_path(), shares.get(OUT), attachment, has_port=self._has_port)
        _write_program(share / guest.INIT, init)
        _write_program(share / guest.FORKS, guest.forks(self._preload, _surroundings(None, None)[1]))
        with contextlib.ExitStack() as theirs:
            port = theirs.enter_context(self._new_port()).fileno() if self._has_port else None
            boot = Boot(
                kernel,
                where.directory,
                {SHARE: share, **shares},
                self._memory_mib,
                bytecode.layer(),
                attachment,
                port,
            )
            tap = None if attachment is None else attachment.descriptor
            inherited = [each for each in (tap, port) if each is not None]
            began_s = time.monotonic()
            process = self._undo.enter_context(_process(engine.command_line(boot), where, inherited))
        started = _Guest(process, where.directory)
        started.wait_booted()
        self._guest = started
        return started, time.monotonic() - began_s

    def _new_port(self) -> socket.socket:
        """Return the engine's end of a new socket pair; the other end is :attr:`port`."""
        self.port, theirs = socket.socketpair()
        self._undo.callback(self.port.close)
        return theirs


def _surroundings(directory: Path | None, environment: Mapping[str, str] | None) -> tuple[Path, dict[str, str]]:
    """Return the working directory and the environment of a program; by default this process's."""
    variables = dict(interpreters.environment() if environment is None else environment)
    variables["PATH"] = variables.get("PATH") or with_system_path()
    return (directory or Path.cwd()).resolve(), variables


def _made(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{out}: {error.strerror}") from None
    return out.resolve()


def _write_program(path: Path, text: str) -> None:
    write_private(path, text.encode(errors="surrogateescape"))
    path.chmod(0o700)


@contextlib.contextmanager
def _process(line: list[str], where: Place, inherited: Sequence[int]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the engine for the duration of a ``with`` block, then end it; Ctrl-C does not reach it."""
    with (where.directory / _MESSAGES).open("wb") as messages:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=messages,
            stderr=messages,
            env={**os.environ, "PATH": with_system_path(), PROCESS_VARIABLE: where.label},
            start_new_session=True,
            pass_fds=inherited,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()


class _Guest:
    """A running guest, and the files through which it reports.

    Args:
        process: the engine; its standard input is the guest's queue of programs.
        directory: the machine's directory.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", directory: Path) -> None:
        self._process = process
        self._directory = directory
        self._share = directory / SHARE
        self._programs = 0

    @property
    def is_running(self) -> bool:
        """True until the engine has ended."""
        return self._process.poll() is None

    def wait_booted(self) -> None:
        """Wait until the guest accepts programs; raises LocalError."""
        if not self._wait(self._share / guest.BOOTED, [], time.monotonic() + _BOOT_TIMEOUT_S):
            what = f"the virtual machine has not started within {_BOOT_TIMEOUT_S:g} s"
            raise LocalError(f"{what}: {self._last_lines()}")

    def run(self, how: str, program: str, sinks: Mapping[str, Sink], timeout_s: float | None) -> int:
        """Run a program and forward all its output; returns its exit code.

        Args:
            how: kind of the program, :data:`guest.COMMAND` or :data:`guest.MODULE`.
            program: its script or description.
            sinks: output sinks, by the name of the file that the guest appends to.
            timeout_s: time limit of the program.
        """
        self._programs += 1
        directory = self._share / str(self._programs)
        directory.mkdir(mode=0o700)
        _write_program(directory / how, program)
        for name in sinks:
            write_private(directory / name, b"")
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # reported below, with the console
            self._process.stdin.write(f"{self._programs} {how}\n".encode())
            self._process.stdin.flush()
        limit_s = None if timeout_s is None else time.monotonic() + timeout_s
        with contextlib.ExitStack() as opened:
            files = [(opened.enter_context((directory / name).open("rb")), sink) for name, sink in sinks.items()]
            if not self._wait(directory / guest.CODE, files, limit_s):
                raise TimedOut(f"the program has not ended within {timeout_s:g} s")
        return int((directory / guest.CODE).read_text())

    def _wait(self, path: Path, files: Sequence[tuple[IO[bytes], Sink]], deadline_s: float | None) -> bool:
        """Forward output until the guest has written a file; returns False at the deadline."""
        while True:
            is_over = not self.is_running
            is_there = path.exists()
            for file, sink in files:  # read after the checks above, so that the last output is not missed
                if part := file.read():
                    sink(part)
            if is_there:
                return True
            if is_over:
                raise LocalError(f"the virtual machine has ended before the program did: {self._last_lines()}")
            if deadline_s is not None and time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)

    def _last_lines(self) -> str:
        """Return the end of the output of the engine and the kernel."""
        texts = []
        for name in (_MESSAGES, CONSOLE):
            with contextlib.suppress(FileNotFoundError):
                texts.append((self._directory / name).read_text(errors="replace").strip())
        return "\n".join(filter(None, texts))[-_CONSOLE_CHARS:] or "it has printed nothing"
