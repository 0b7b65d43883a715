"""Hosts that share this machine's programs and files; some have their own network namespace."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Host, Program
from toolkit.cluster.forks import COMMAND
from toolkit.cluster.programs import LocalProgram
from toolkit.machine import interpreters
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import Lease
from toolkit.machine.private import DIRECTORY_MODE, write_private
from toolkit.network.namespaces import inside

if TYPE_CHECKING:
    from toolkit.cluster.forks import Forks

T = TypeVar("T")

_END_TIMEOUT_S = 2.0


class LocalHost(Host):
    """This machine, with a directory for one node.

    Args:
        name: name of the node.
        lease: lease of the cluster.
        addresses: addresses by network.
        namespace: network namespace of its programs; None for this process's.
        zygote: process that forks messengers quickly, if there is one.
    """

    def __init__(
        self,
        name: str,
        lease: Lease,
        addresses: Mapping[str, str],
        namespace: Path | None = None,
        zygote: "Forks | None" = None,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.namespace = namespace
        self.directory = lease.directory / name
        try:
            self.directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        except OSError as error:
            raise LocalError(f"{self.directory}: {error.strerror}") from None
        self._label = str(lease.label)
        self._zygote = zygote
        self._programs: list[Program] = []

    @property
    @override
    def lasting(self) -> Sequence[str]:  # type: ignore[override]
        # the thread that starts a program in a namespace ends at once
        return ("setpriv", "--pdeathsig", "KILL") if self.namespace is None else ()

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every program on the host."""
        return {**interpreters.environment(), **self.variables, PROCESS_VARIABLE: self._label}

    @override
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> Program:
        program = self._started(argv, self.directory / log if log else None, piped=piped)
        self._programs = [known for known in self._programs if known.poll() is None]
        self._programs.append(program)
        return program

    def _started(self, argv: Sequence[str], log: Path | None, *, piped: bool) -> Program:
        if self._zygote is not None and piped and tuple(argv) == COMMAND:
            return self._zygote.start(log, self.namespace, self._label)
        environment, directory = self.environment, self.directory
        # A child process inherits the network namespace of the thread that starts it.
        return self.inside(
            lambda: LocalProgram(argv, environment=environment, directory=directory, piped=piped, log=log)
        )

    @override
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        try:
            done = self.inside(
                lambda: subprocess.run(
                    argv,
                    input=stdin,
                    env=self.environment,
                    cwd=self.directory,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=timeout_s,
                    check=False,
                )
            )
        except OSError as error:
            raise LocalError(f"{self.name}: {argv[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise LocalError(f"{self.name}: {argv[0]} did not end within {timeout_s:g} s") from None
        if done.returncode:
            words = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise LocalError(f"{self.name}: {argv[0]}: {words[0]}")
        return done.stdout

    @override
    def interactive(self, argv: Sequence[str]) -> int:
        try:
            return self.inside(lambda: subprocess.call(argv, env=self.environment, cwd=self.directory))
        except OSError as error:
            raise LocalError(f"{self.name}: {argv[0]}: {error.strerror}") from None

    @override
    def write(self, name: str, content: bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, content)
        return path

    @override
    def read(self, name: str) -> bytes:
        try:
            return (self.directory / name).read_bytes()
        except OSError as error:
            raise LocalError(f"{self.name}: {name}: {error.strerror}") from None

    @override
    def inside(self, what: Callable[[], T]) -> T:
        return what() if self.namespace is None else inside(self.namespace, what)

    def close(self) -> None:
        """Kill the programs that were started here and still run."""
        for program in self._programs:
            program.signal(signal.SIGKILL)
        for program in self._programs:
            program.wait(_END_TIMEOUT_S)
        self._programs.clear()
