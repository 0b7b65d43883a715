"""Start messengers without delay: fork a process that has imported all their modules.

A supervisor starts the zygote first, before it has threads, locks or children. Every fork becomes a child of that
supervisor, which waits for its exit.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, NoReturn

import toolkit.cluster.node
from messenger.errors import LocalError
from messenger.messages.registry import PAYLOADS
from toolkit.network.namespaces import enter

_PR_SET_CHILD_SUBREAPER = 36
_TAIL_BYTES = 4096
_POLL_S = 0.002
_REQUEST_BYTES = 4096
_MOST_DESCRIPTORS = 1 << 10
"""Higher than any descriptor that a zygote opens."""


class ForkedProgram:
    """A program that was forked from the zygote."""

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO, log: int) -> None:
        self.pid = pid
        self.stdin: BinaryIO | None = stdin
        self.stdout: BinaryIO | None = stdout
        self._log = log
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        with self._lock:
            if self._code is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:
                    self._code = 0
                else:
                    self._code = os.waitstatus_to_exitcode(status) if pid else None
            return self._code

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code; raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"process {self.pid} still runs")
            time.sleep(_POLL_S)
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


class Zygote:
    """Starts messengers by forking; for a process without threads, which becomes the parent of all forks."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if not self.pid:
            self._ours.close()
            _serve(theirs)
        theirs.close()

    def start(self, log: Path | None, namespace: Path | None = None) -> ForkedProgram:
        """Start a messenger on pipes.

        Args:
            log: file for its standard error; in memory if None.
            namespace: network namespace to run in; ours unless given.

        Raises:
            LocalError: the zygote has exited, or the log cannot be written.
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            errors = os.memfd_create("log") if log is None else os.open(log, flags, 0o600)
        except OSError as error:
            raise LocalError(f"{log}: {error.strerror}") from None
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        try:
            with self._lock:
                wanted = {"directory": str(log.parent if log else Path.cwd()), "namespace": str(namespace or "")}
                request = json.dumps(wanted).encode()
                socket.send_fds(self._ours, [request], [their_input, their_output, errors])
                answer = self._ours.recv(_REQUEST_BYTES)
        except OSError:
            answer = b""
        finally:
            os.close(their_input)
            os.close(their_output)
        if not answer:
            raise LocalError("the process that messengers are forked from has ended")
        return ForkedProgram(int(answer), os.fdopen(our_output, "wb"), os.fdopen(our_input, "rb"), errors)

    def close(self) -> None:
        """End the zygote; the programs that it started go on."""
        self._ours.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _serve(requests: socket.socket) -> NoReturn:
    """Fork for each request until the socket is closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):  # inherited pipes: their readers must see their end when the supervisor exits
        os.dup2(nothing, number)
    os.close(nothing)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the zygote ends when the supervisor closes the socket
    for _ in PAYLOADS.values():  # imported once, shared by all forks
        pass
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        read_end, write_end = os.pipe()
        if not (between := os.fork()):
            # Double fork: when the child in between exits, the supervisor (a subreaper) becomes the parent.
            if pid := os.fork():
                os.write(write_end, b"%d" % pid)
                os._exit(0)
            _become(descriptors, **json.loads(request))
        os.waitpid(between, 0)
        pid_text = os.read(read_end, 32)
        for descriptor in (read_end, write_end, *descriptors):
            os.close(descriptor)
        requests.send(pid_text)


def _become(descriptors: list[int], directory: str, namespace: str) -> NoReturn:
    """Run a messenger in this forked process."""
    code = 1
    try:
        os.setsid()
        os.chdir(directory)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, min(_MOST_DESCRIPTORS, os.sysconf("SC_OPEN_MAX")))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if namespace:
            enter(Path(namespace))
        toolkit.cluster.node.main()
        code = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - the end of a process
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)
