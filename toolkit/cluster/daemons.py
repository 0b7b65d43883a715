"""Start, watch and stop Ceph daemons of this machine, and run Ceph's tools.

Each daemon is a child that the kernel kills when the thread that started it ends. It writes to one directory and
listens on loopback.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import Any, Literal

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.ports import reserved_socket

Mode = Literal["crc", "secure", "crc secure", "secure crc"]
"""Connection modes, most preferred first, as in Ceph's ``ms_*_mode`` options."""

Auth = Literal["cephx", "none"]
"""Authentication method of all daemons, for Ceph's ``auth_*_required`` options."""

HOST = "127.0.0.1"
STOP_TIMEOUT_S = 10.0
TOOL_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 20
SOCKET_PATH_LIMIT = 107
"""Longest path, in bytes, that fits a ``sockaddr_un``."""

_PACKAGES = {
    "ceph-mon": "ceph-mon",
    "monmaptool": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "ceph-mgr": "ceph-mgr",
    "ceph-mds": "ceph-mds",
    "ceph-authtool": "ceph-common",
    "rados": "ceph-common",
    "ceph": "ceph-common",
}
"""The programs used here, and the Debian package of each."""
_REPLY_LENGTH = Struct(">I")


class Daemon:
    """A running daemon. It also ends when the process that started it dies, for any reason.

    The kernel watches the starting thread for that: start the daemon in a thread that lives long enough.
    """

    def __init__(self, name: str, conf: Path, directory: Path) -> None:
        """Start the daemon without waiting; :meth:`poll` and its admin socket show its progress.

        Args:
            name: ``mon.a`` or ``osd.0``.
            conf: its configuration, which puts ``NAME.log`` and ``NAME.asok`` into ``directory``.
            directory: directory that it writes to.
        """
        self.name = name
        self._directory = directory
        kind, _, identity = name.partition(".")
        self._program = f"ceph-{kind}"
        # setpriv has the kernel kill the daemon with us; its own session keeps Ctrl-C from reaching it
        command = ["setpriv", "--pdeathsig", "KILL", self._program, "-c", str(conf), "-i", identity, "-f"]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """Log file."""
        return self._directory / f"{self.name}.log"

    @property
    def _output(self) -> Path:
        return self._directory / f"{self.name}.out"

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """Terminate it (SIGTERM, SIGKILL after ``STOP_TIMEOUT_S``) and wait until it has exited."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it has exited."""
        self._process.kill()
        self._process.wait()

    def admin(self, command: str) -> Any:  # noqa: ANN401 - whatever JSON the daemon answers
        """Return its answer to a command on its admin socket.

        Args:
            command: the command's ``prefix``, such as ``mon_status`` or ``sessions``.

        Raises:
            OSError: the socket does not exist or does not answer in time.
            LocalError: the daemon does not have the command, or not yet.
        """
        return ask_admin_socket(self._directory / f"{self.name}.asok", {"prefix": command})

    def not_up(self, reason: str) -> LocalError:
        """Return the error to raise if it does not start, with its last output."""
        logged, printed = _tail(self.log), _tail(self._output)
        # a daemon logs what it prints as well, unless it died before it wrote the log
        lines = logged + [line for line in printed if line not in logged]
        return LocalError("\n  ".join([f"{self._program} did not come up: {reason}", *lines]))


def ask_admin_socket(path: Path, command: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON the daemon answers
    """Return a daemon's answer to a command on its admin socket.

    Args:
        path: the socket.
        command: the command's ``prefix`` and arguments.

    Raises:
        OSError: the socket does not exist or does not answer in time.
        LocalError: the daemon does not have the command, or not yet.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TOOL_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(json.dumps({**command, "format": "json"}).encode() + b"\0")
        with connection.makefile("rb") as stream:
            (size,) = _REPLY_LENGTH.unpack(stream.read(_REPLY_LENGTH.size).ljust(_REPLY_LENGTH.size, b"\0"))
            reply = stream.read(size)
    try:
        return json.loads(reply)
    except ValueError:
        words = reply.decode(errors="replace") or "no answer"
        raise LocalError(f"{path.stem} on {command['prefix']!r}: {words}") from None


def require_tools(names: Iterable[str]) -> None:
    """Check that the programs are installed.

    Raises:
        Unsupported: some are not; the message names the packages that have them.
    """
    missing = {name: _PACKAGES[name] for name in names if shutil.which(name) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise Unsupported(f"not installed: {', '.join(missing)} (Debian: apt-get install {packages})")


def run_tool(*command: str, stdin: str = "") -> str:
    """Run a program with ``stdin`` as input and return its standard output.

    Raises:
        LocalError: it exited with an error, or timed out.
    """
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LocalError(f"{command[0]} did not end within {TOOL_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise LocalError(f"{command[0]} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return our environment without the variables that would point Ceph's programs at another cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CEPH_")}


def reserve_port(undo: ExitStack) -> int:
    """Reserve a port: the kernel assigns it to no other socket until ``undo`` is closed.

    A bound socket that does not listen keeps the kernel from assigning the port, and with SO_REUSEADDR on both
    sides (Ceph sets it) the daemon can bind it all the same.
    """
    holder = undo.enter_context(reserved_socket(HOST))
    return int(holder.getsockname()[1])


def _tail(path: Path) -> list[str]:
    """Return the last lines of a log, without empty ones."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if line][-LOG_TAIL_LINES:]
