"""Messengers that a zygote forks (:mod:`toolkit.cluster.zygote`), and the requests to it."""

import contextlib
import json
import os
import select
import socket
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from messenger.errors import LocalError
from toolkit.machine.interpreters import PYTHON

COMMAND = (*PYTHON, "-m", "toolkit.cluster.node")
"""Command that starts a messenger without a zygote."""
REQUEST_BYTES = 4096
"""Most bytes of a request or an answer."""
_TAIL_BYTES = 4096


class Forks(Protocol):
    """Starts messengers by forking."""

    def start(self, log: Path | None, namespace: Path | None = None, label: str = "") -> "ForkedProgram":
        """Start a messenger on pipes; see :meth:`Zygote.start`."""


class ForkedProgram:
    """A program that was forked from a zygote.

    Its process id stays its own until the zygote is asked for its exit code.
    """

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO, log: int, reap: Callable[[int], int]) -> None:
        self.pid = pid
        self.stdin: BinaryIO | None = stdin
        self.stdout: BinaryIO | None = stdout
        self._log = log
        self._reap = reap
        self._code: int | None = None
        self._lock = threading.Lock()
        try:
            self._ends = os.pidfd_open(pid)
        except ProcessLookupError:  # the zygote has ended, and it before
            self._ends, self._code = os.dup(log), 0
        for descriptor in (log, self._ends):
            weakref.finalize(self, os.close, descriptor)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._poll(0.0)

    def _poll(self, timeout_s: float) -> int | None:
        if self._code is None and _is_readable(self._ends, timeout_s):
            with self._lock:
                if self._code is None:
                    self._code = self._reap(self.pid)
        return self._code

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code; raises TimeoutError."""
        code = self._poll(timeout_s)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs")
        return code

    def signal(self, number: int) -> None:
        """Send a signal to it and to its children in the same session."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def errors(self) -> str:
        """Return the last lines of its standard error."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    """True once a descriptor is readable; unlike ``select``, ``poll`` accepts those above 1,023."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))


class Controller:
    """The other end of a zygote: sends its requests, one at a time.

    Args:
        requests: socket to the zygote.
    """

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._lock = threading.Lock()

    def start(self, log: Path | None, namespace: Path | None = None, label: str = "") -> ForkedProgram:
        """Start a messenger on pipes.

        Args:
            log: file for its standard error; in memory if None.
            namespace: network namespace to run in; ours unless given.
            label: label of its cluster, if the zygote was not started with it.

        Raises:
            ZygoteGone: the zygote has exited.
            LocalError: the log cannot be written.
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            errors = os.memfd_create("log") if log is None else os.open(log, flags, 0o600)
        except OSError as error:
            raise LocalError(f"{log}: {error.strerror}") from None
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        directory = str(log.parent if log else Path.cwd())
        wanted = {"directory": directory, "namespace": str(namespace or ""), "label": label}
        try:
            pid = self._ask({"start": wanted}, their_input, their_output, errors)
        except OSError:
            for descriptor in (our_output, our_input, errors):
                os.close(descriptor)
            raise ZygoteGone("the process that messengers are forked from has ended") from None
        finally:
            os.close(their_input)
            os.close(their_output)
        return ForkedProgram(pid, os.fdopen(our_output, "wb"), os.fdopen(our_input, "rb"), errors, self._reap)

    def _ask(self, request: dict[str, object], *descriptors: int) -> int:
        """Send a request and return the answer; raises OSError if the zygote has ended."""
        with self._lock:
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
            answer = self._requests.recv(REQUEST_BYTES)
        if not answer:
            raise BrokenPipeError
        return int(answer)

    def _reap(self, pid: int) -> int:
        """Return the exit code of a program that has ended; 0 if the zygote has ended, too."""
        try:
            return self._ask({"reap": pid})
        except OSError:
            return 0

    def close(self) -> None:
        """End the zygote; the programs that it started go on."""
        self._requests.close()


class ZygoteGone(LocalError):
    """The zygote has exited."""
