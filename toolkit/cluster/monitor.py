"""One real ``ceph-mon``, alone in its own temporary directory on the loopback interface, with cephx on.

A monitor of one is a whole Ceph cluster as far as the messenger goes: both protocol versions, every
authentication step, tickets, subscriptions and commands. It is up in about 0.15 s and uses 40 MB.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Any, Literal, Self, get_args

from messenger.errors import LocalError

Mode = Literal["crc", "secure", "crc secure", "secure crc"]
"""Connection modes, preferred one first, as Ceph's ``ms_*_mode`` options have them."""

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
TOOL_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 20

_TOOLS = {
    "ceph-mon": "ceph-mon",
    "monmaptool": "ceph-mon",
    "ceph-authtool": "ceph-common",
    "rados": "ceph-common",
    "ceph": "ceph-common",
}
"""The programs used here, and the Debian package that brings each."""
_SOCKET_PATH_LIMIT = 107
"""Longest path, in bytes, that fits a ``sockaddr_un``."""
_REPLY_LENGTH = Struct(">I")
_CONF = """\
[global]
fsid = {fsid}
mon_host = [{addr_v2},{addr_v1}]
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
ms_cluster_mode = {mode}
ms_service_mode = {mode}
ms_client_mode = {mode}
ms_mon_cluster_mode = {mode}
ms_mon_service_mode = {mode}
ms_mon_client_mode = {mode}
keyring = {directory}/keyring
run_dir = {directory}
crash_dir = {directory}/crash

[mon]
mon_data = {directory}/mon
log_file = {directory}/mon.log
log_flush_on_exit = true
admin_socket = {directory}/mon.asok
pid_file = {directory}/mon.pid
mon_cluster_log_to_file = false
mon_data_avail_warn = 1
mon_data_avail_crit = 0
ms_bind_retry_count = 1
auth_allow_insecure_global_id_reclaim = false
debug_ms = 1
debug_rocksdb = 0
"""


class RealMonitor:
    """A running monitor. :meth:`stop`, or leaving the ``with`` block, ends it and removes all that it wrote.

    It also ends when whoever started it dies, however that happens. The kernel takes the starting thread for
    that, so start it in one that lasts.
    """

    def __init__(self, mode: Mode = "crc", *, options: Mapping[str, str] | None = None) -> None:
        """Start a monitor and wait until a client gets through to it.

        Args:
            mode: what it offers and, by :attr:`conf`, what Ceph's own clients ask for.
            options: more options for the ``[mon]`` section of its configuration, by Ceph's names.

        Raises:
            LocalError: there is no such mode, a program of Ceph is not installed, or the monitor does not
                come up; the message then ends with the last lines of its log.
        """
        if mode not in get_args(Mode):
            raise LocalError(f"no connection mode {mode!r}; known: {', '.join(get_args(Mode))}")
        _require_tools()
        self._undo = ExitStack()
        weakref.finalize(self, self._undo.close)  # for whoever forgets stop(), as in tempfile
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            self.mode = mode
            self.directory = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="msgrlab-mon-")))
            """All that the monitor reads and writes."""
            self.port_v2, self.port_v1 = (self._reserve_port() for _ in range(2))
            self.fsid = str(uuid.uuid4())
            """The cluster's identity."""
            self._create(options or {})
            self._process = self._launch()
            self._wait_until_ready()
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the monitor and remove its directory. A second call does nothing."""
        self._undo.close()

    @property
    def addr_v2(self) -> str:
        """The msgr v2 address, as the monitor map has it."""
        return f"v2:{HOST}:{self.port_v2}/0"

    @property
    def addr_v1(self) -> str:
        """The msgr v1 address, as the monitor map has it."""
        return f"v1:{HOST}:{self.port_v1}/0"

    @property
    def conf(self) -> Path:
        """Configuration for Ceph's own clients, as in ``ceph -c CONF``."""
        return self.directory / "ceph.conf"

    @property
    def keyring(self) -> Path:
        """Keys of ``client.admin``, who may do everything, and of ``mon.``."""
        return self.directory / "keyring"

    @property
    def log(self) -> Path:
        """The monitor's log, with a line for every message since a first client tried whether it is up."""
        return self.directory / "mon.log"

    @property
    def pid(self) -> int:
        """The monitor's process id."""
        return self._process.pid

    def ceph(self, *arguments: str) -> str:
        """What Ceph's own command line prints, run as ``client.admin``.

        Raises:
            LocalError: the command failed; the message has its own words.
        """
        return _run("ceph", "-c", str(self.conf), *arguments)

    def admin(self, command: str) -> Any:  # noqa: ANN401 - whatever JSON the monitor answers
        """The monitor's answer to one command on its admin socket.

        Args:
            command: the ``prefix`` alone, such as ``mon_status`` or ``sessions``.

        Raises:
            OSError: nobody listens on the socket, or nobody answers in time.
            LocalError: the monitor does not know the command, or not yet.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TOOL_TIMEOUT_S)
            connection.connect(str(self._admin_socket))
            connection.sendall(json.dumps({"prefix": command}).encode() + b"\0")
            with connection.makefile("rb") as stream:
                (size,) = _REPLY_LENGTH.unpack(stream.read(_REPLY_LENGTH.size).ljust(_REPLY_LENGTH.size, b"\0"))
                reply = stream.read(size)
        try:
            return json.loads(reply)
        except ValueError:
            raise LocalError(f"mon.a on {command!r}: {reply.decode(errors='replace') or 'no answer'}") from None

    @property
    def _admin_socket(self) -> Path:
        return self.directory / "mon.asok"

    def _reserve_port(self) -> int:
        """A port that nobody is given while the monitor lives.

        A bound socket that does not listen keeps the kernel from handing the port out, and with SO_REUSEADDR
        on both sides (Ceph sets it) lets the monitor bind it all the same.
        """
        holder = self._undo.enter_context(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, 0))
        return int(holder.getsockname()[1])

    def _create(self, options: Mapping[str, str]) -> None:
        """Write configuration, keys and monitor map, and make the monitor's store of them."""
        if len(os.fsencode(self._admin_socket)) > _SOCKET_PATH_LIMIT:
            raise LocalError(
                f"{self.directory} is too long a path for a socket in it; set TMPDIR to a shorter one"
            )
        conf = _CONF.format(
            fsid=self.fsid,
            addr_v2=self.addr_v2,
            addr_v1=self.addr_v1,
            mode=self.mode,
            directory=self.directory,
        )
        self.conf.write_text(conf + "".join(f"{name} = {value}\n" for name, value in options.items()))
        keyring, monmap = str(self.keyring), str(self.directory / "monmap")
        _run("ceph-authtool", "-C", keyring, "-g", "-n", "mon.", "--cap", "mon", "allow *")
        admin_caps = [word for service in ("mon", "osd", "mgr", "mds") for word in ("--cap", service, "allow *")]
        _run("ceph-authtool", keyring, "-g", "-n", "client.admin", *admin_caps)
        addresses = f"[{self.addr_v2},{self.addr_v1}]"
        _run("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", addresses, monmap)
        _run("ceph-mon", "-c", str(self.conf), "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)

    def _launch(self) -> "subprocess.Popen[bytes]":
        # setpriv has the kernel kill the monitor with us; away from our process group, Ctrl-C is ours alone
        command = ["setpriv", "--pdeathsig", "KILL", "ceph-mon", "-c", str(self.conf), "-i", "a", "-f"]
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(),
                start_new_session=True,
            )
        self._undo.callback(_end, process)
        return process

    @property
    def _output(self) -> Path:
        return self.directory / "mon.out"

    def _wait_until_ready(self) -> None:
        """Wait for the quorum, then let a real client in.

        A new leader needs a moment more before it can hand out global ids; only a client shows when that is.
        """
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._leads():
            code = self._process.poll()
            if code is not None:
                raise self._not_up(f"it ended with exit code {code}")
            if time.monotonic() > deadline_s:
                raise self._not_up(f"no quorum within {START_TIMEOUT_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)
        try:
            _run("rados", "-c", str(self.conf), "lspools")
        except LocalError as error:
            raise self._not_up(str(error)) from None

    def _leads(self) -> bool:
        try:
            return bool(self.admin("mon_status")["state"] == "leader")
        except (OSError, LocalError):
            return False

    def _not_up(self, reason: str) -> LocalError:
        logged, printed = _tail(self.log), _tail(self._output)
        # it logs what it prints too, unless it died before that line was written
        lines = logged + [line for line in printed if line not in logged]
        return LocalError("\n  ".join([f"ceph-mon did not come up: {reason}", *lines]))


def _require_tools() -> None:
    missing = {tool: package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise LocalError(f"not installed: {', '.join(missing)} (Debian: apt-get install {packages})")


def _run(*command: str) -> str:
    """What the program prints.

    Raises:
        LocalError: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LocalError(f"{command[0]} did not end within {TOOL_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise LocalError(f"{command[0]} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _tail(path: Path) -> list[str]:
    """The last lines of a log, without the empty ones."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if line][-LOG_TAIL_LINES:]


def _environment() -> dict[str, str]:
    """Our environment without what would point Ceph's programs at another cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CEPH_")}


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
