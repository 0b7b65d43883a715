"""What every real daemon of Ceph here shares: starting, watching and ending its process, and Ceph's own tools.

Each daemon is a child that dies with the thread that started it. It writes into one directory and listens on
loopback.
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
"""Connection modes, preferred one first, as Ceph's ``ms_*_mode`` options have them."""

Auth = Literal["cephx", "none"]
"""The authentication methods of all daemons, for Ceph's ``auth_*_required`` options."""

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
"""The programs used here, and the Debian package that brings each."""
_REPLY_LENGTH = Struct(">I")


class Daemon:
    """One running daemon. It also ends when the process that started it dies, for any reason.

    The kernel watches the starting thread for that, so start it in one that lasts.
    """

    def __init__(self, name: str, conf: Path, directory: Path) -> None:
        """Start it; :meth:`poll` and its admin socket tell how that goes.

        Args:
            name: ``mon.a`` or ``osd.0``.
            conf: its configuration, which puts ``NAME.log`` and ``NAME.asok`` into ``directory``.
            directory: where it writes.
        """
        self.name = name
        self._directory = directory
        kind, _, identity = name.partition(".")
        self._program = f"ceph-{kind}"
        # setpriv has the kernel kill the daemon with us; away from our process group, Ctrl-C is ours alone
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
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """Its log."""
        return self._directory / f"{self.name}.log"

    @property
    def _output(self) -> Path:
        return self._directory / f"{self.name}.out"

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """Ask it to end, insist after ``STOP_TIMEOUT_S``, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it without a chance to say or save anything."""
        self._process.kill()
        self._process.wait()

    def admin(self, command: str) -> Any:  # noqa: ANN401 - whatever JSON the daemon answers
        """Its answer to one command on its admin socket.

        Args:
            command: the ``prefix`` alone, such as ``mon_status`` or ``sessions``.

        Raises:
            OSError: nobody listens on the socket, or nobody answers in time.
            LocalError: the daemon does not know the command, or not yet.
        """
        return ask_admin_socket(self._directory / f"{self.name}.asok", {"prefix": command})

    def not_up(self, reason: str) -> LocalError:
        """The error to raise if it does not come up, with its last output."""
        logged, printed = _tail(self.log), _tail(self._output)
        # it logs what it prints too, unless it died before that line was written
        lines = logged + [line for line in printed if line not in logged]
        return LocalError("\n  ".join([f"{self._program} did not come up: {reason}", *lines]))


def ask_admin_socket(path: Path, command: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON the daemon answers
    """A daemon's answer to one command on its admin socket.

    Args:
        path: the socket's.
        command: its ``prefix`` and arguments.

    Raises:
        OSError: nobody listens on the socket, or nobody answers in time.
        LocalError: the daemon does not know the command, or not yet.
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
    """What the program prints, given ``stdin``.

    Raises:
        LocalError: it failed, or took too long.
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
    """Our environment without what would point Ceph's programs at another cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CEPH_")}


def reserve_port(undo: ExitStack) -> int:
    """Reserve a port: the kernel assigns it to no other socket until ``undo`` is closed.

    A bound socket that does not listen keeps the kernel from handing the port out, and with SO_REUSEADDR
    on both sides (Ceph sets it) lets the daemon bind it all the same.
    """
    holder = undo.enter_context(reserved_socket(HOST))
    return int(holder.getsockname()[1])


def _tail(path: Path) -> list[str]:
    """The last lines of a log, without the empty ones."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if line][-LOG_TAIL_LINES:]
