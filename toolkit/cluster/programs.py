"""Programs that run as processes of this machine."""

import contextlib
import os
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from messenger.errors import LocalError

_TAIL_BYTES = 4096


class LocalProgram:
    """A program of this machine, in its own session.

    Args:
        argv: the program, found in PATH, and its arguments.
        environment: its environment; ours unless given.
        directory: its working directory; ours unless given.
        piped: True to connect its input and output to pipes; otherwise its input is empty.
        log: file for its output, or with ``piped`` for its standard error; in memory unless given.

    Raises:
        LocalError: there is no such program, or the log cannot be written.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        piped: bool = False,
        log: Path | None = None,
    ) -> None:
        self._log = os.memfd_create("log") if log is None else _opened(log)
        weakref.finalize(self, os.close, self._log)
        try:
            self._process = subprocess.Popen(
                argv,
                env=environment,
                cwd=directory,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else self._log,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            raise LocalError(f"{argv[0]}: {error.strerror}") from None

    @property
    def stdin(self) -> BinaryIO | None:
        """Pipe to its standard input, with ``piped``."""
        return self._process.stdin  # type: ignore[return-value]

    @property
    def stdout(self) -> BinaryIO | None:
        """Pipe from its standard output, with ``piped``."""
        return self._process.stdout  # type: ignore[return-value]

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code; raises TimeoutError."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._process.args!r} still runs") from None

    def signal(self, number: int) -> None:
        """Send a signal to it and to its children in the same session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def errors(self) -> str:
        """Return the last lines of its standard error."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")


def _opened(log: Path) -> int:
    try:
        return os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LocalError(f"{log}: {error.strerror}") from None
