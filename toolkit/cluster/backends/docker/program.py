"""A program in a container: its streams over the engine's connection, its exit code, signals to it."""

import contextlib
import io
import os
import secrets
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from messenger.errors import LocalError
from toolkit.machine.docker_engine import is_silent, refused

if TYPE_CHECKING:
    from docker import APIClient

PROGRAM_VARIABLE = "MSGRLAB_PROGRAM"
"""Environment variable of a program and its children, whose value identifies the program."""
_FRAME = struct.Struct(">BxxxI")
"""Header of each piece of output: number of the stream, and length."""
_REFUSAL = "OCI runtime exec failed"
OUTPUT = 1
"""Number of standard output; the other stream is standard error."""
_TAIL_BYTES = 4096
_LOST = 128 + signal.SIGKILL
"""Exit code of a program whose engine has ended before it reported one."""
_START_TIMEOUT_S = 20.0
_POLL_S = 0.004
_SIGNAL = (
    'found=; for each in /proc/[0-9]*; do grep -qz "^$0$" "$each/environ" 2>/dev/null'
    ' && found="$found ${each#/proc/}"; done;'
    ' [ "$1" != 9 ] || kill -STOP $found 2>/dev/null; kill -"$1" $found 2>/dev/null; true'
)
"""Signal every process that has the token.

Before SIGKILL all are stopped, because a parent that notices its child's end first would exit with a code of its
own.
"""


class ContainerProgram:
    """A program in a container.

    Args:
        api: API of the engine.
        container: id of the container.
        argv: the program and its arguments.
        environment: variables in addition to those of the container.
        piped: True to connect its input and output to pipes; otherwise its input is empty.
        log: file on this machine for its output, or with ``piped`` for its standard error.
        seen: True if its process is visible on this machine, which then can send it signals.
        place: place of the engine.

    Raises:
        LocalError: there is no such program.
    """

    def __init__(
        self,
        api: "APIClient",
        container: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
        piped: bool = False,
        log: Path | None = None,
        seen: bool = False,
        place: str = "",
    ) -> None:
        self._place = place
        self._api = api
        self._container = container
        self._argv = list(argv)
        self._log = log
        self._token = f"{PROGRAM_VARIABLE}={secrets.token_hex(8)}"
        self._tail = b""
        self._code: int | None = None
        variables = [f"{name}={value}" for name, value in environment.items()] + [self._token]
        self._id: str = api.exec_create(container, self._argv, stdin=piped, environment=variables)["Id"]
        self._reader, self._socket = attach(api, self._id)
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self._output: int | None = None
        if piped:
            self.stdin = io.BufferedWriter(_Input(self._socket))
            ends = os.pipe()
            self.stdout, self._output = os.fdopen(ends[0], "rb"), ends[1]
        self._thread = threading.Thread(target=self._read, name=f"output of {argv[0]}", daemon=True)
        self._thread.start()
        try:
            pid = self._started()
        except LocalError:
            self._close()
            raise
        self.pid = pid if seen else 0

    @refused()
    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self._code is None and not self._thread.is_alive() and is_silent(self._place):
            self._code = _LOST
        if self._code is None:
            about = self._about()
            if not about["Running"] and about["ExitCode"] is not None:
                self._code = int(about["ExitCode"])
                self._thread.join(_START_TIMEOUT_S)
        return self._code

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code; raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self._argv} still runs")
            self._thread.join(_POLL_S)
            if not self._thread.is_alive():
                time.sleep(_POLL_S)
        return code

    @refused()
    def signal(self, number: int) -> None:
        """Send a signal to it and to its children."""
        if self.poll() is not None:
            return
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            return
        sender = self._api.exec_create(self._container, ["sh", "-c", _SIGNAL, self._token, str(int(number))])
        self._api.exec_start(sender["Id"])

    def errors(self) -> str:
        """Return the last lines of its standard error."""
        return self._tail.decode(errors="replace")

    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = self._api.exec_inspect(self._id)
        return about

    def _started(self) -> int:
        """Wait until it has a process id and return that."""
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not (pid := (about := self._about())["Pid"]):
            if not about["Running"] and about["ExitCode"] is not None:
                self._thread.join(_START_TIMEOUT_S)
                raise LocalError(f"{self._argv[0]}: {self._refusal()}")
            if time.monotonic() > deadline_s:
                raise LocalError(f"{self._argv[0]}: the container does not start it")
            time.sleep(_POLL_S)
        return int(pid)

    def _refusal(self) -> str:
        text = self.errors() or (self.stdout.read().decode(errors="replace") if self.stdout is not None else "")
        return refusal(text) or text.strip() or "the container does not start it"

    def _close(self) -> None:
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self) -> None:
        """Separate its output from its errors, until it exits."""
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(self._log.open("ab", buffering=0)) if self._log is not None else None
            stack.callback(self._end)
            try:
                for stream, data in frames(self._reader):
                    self._take(stream, data, log)
            except (OSError, ValueError):
                return  # the connection broke, or was closed

    def _take(self, stream: int, data: bytes, log: BinaryIO | io.RawIOBase | None) -> None:
        if stream == OUTPUT and self._output is not None:
            with contextlib.suppress(BrokenPipeError):
                _write(self._output, data)
            return
        if log is not None:
            log.write(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]

    def _end(self) -> None:
        if self._output is not None:
            os.close(self._output)
        self._reader.close()
        with contextlib.suppress(OSError):
            self._socket.close()


class _Input(io.RawIOBase):
    """Standard input of a program over a connection; closing it shuts down only this direction."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            return self._connection.send(content)
        except OSError as error:
            raise BrokenPipeError(error.errno, "the program has ended") from None

    def close(self) -> None:
        if not self.closed:
            super().close()
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)


def attach(
    api: "APIClient", program: str, *, on_terminal: bool = False
) -> tuple[io.BufferedReader, socket.socket]:
    """Start a program; returns the stream to read its output from, and the socket to write its input to."""
    raw = api.exec_start(program, socket=True, tty=on_terminal)
    connection: socket.socket = getattr(raw, "_sock", raw)
    connection.settimeout(None)
    # The SDK returns the socket below the buffer that read the HTTP headers, and possibly some output.
    response = getattr(raw, "_response", None)
    return response.raw._fp.fp if response is not None else raw, connection  # noqa: SLF001 - as said


def frames(reader: io.BufferedIOBase) -> Iterator[tuple[int, bytes]]:
    """Yield the output of a program without a terminal, with the number of the stream."""
    while len(head := reader.read(_FRAME.size)) == _FRAME.size:
        stream, length = _FRAME.unpack(head)
        yield stream, reader.read(length)


def refusal(text: str) -> str:
    """Return why the engine did not start a program, if its output is such an error; else ""."""
    if not text.startswith(_REFUSAL):
        return ""
    missing = "executable file not found" in text or "no such file or directory" in text
    return "no such program in the container" if missing else text.strip()


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
