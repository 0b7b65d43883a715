"""A real ``ceph-mon`` in a temporary directory, on the loopback interface.

For the messenger a single monitor is a complete Ceph cluster: both protocol versions, every authentication step,
tickets, subscriptions and commands. It starts in about 0.15 s and uses 40 MB.
"""

import os
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from messenger.errors import LocalError
from toolkit.cluster.daemons import (
    HOST,
    POLL_INTERVAL_S,
    SOCKET_PATH_LIMIT,
    Auth,
    Daemon,
    Mode,
    require_tools,
    reserve_port,
    run_tool,
)
from toolkit.cluster.options import MON, identity, own_files, section, security

START_TIMEOUT_S = 30.0

_TOOLS = ("ceph-mon", "monmaptool", "ceph-authtool", "rados", "ceph")


class RealMonitor:
    """A running monitor. :meth:`stop`, or leaving the ``with`` block, ends it and removes all its files.

    It also ends when the process that started it dies, for any reason. The kernel watches the starting thread for
    that: start the monitor in a thread that lives long enough.
    """

    def __init__(
        self,
        mode: Mode = "crc",
        *,
        auth: Auth = "cephx",
        options: Mapping[str, str] | None = None,
        sections: Mapping[str, Mapping[str, str]] | None = None,
        ports: tuple[int, int] | None = None,
        v1_only: bool = False,
    ) -> None:
        """Start a monitor and wait until a client can connect to it.

        Args:
            mode: modes that it offers and that :attr:`conf` makes Ceph's own clients ask for.
            auth: authentication method of clients; ``none`` excludes secure mode.
            options: more options for the ``[mon]`` section of its configuration, by Ceph's names.
            sections: more sections of the configuration; ``{directory}`` in a value stands for :attr:`directory`.
            ports: free ports to listen on, for v2 and for v1; chosen unless given.
            v1_only: True if no daemon of the cluster speaks msgr v2.

        Raises:
            LocalError: there is no such mode, a program of Ceph is not installed, or the monitor does not start;
                the message then ends with the last lines of its log.
        """
        if mode not in get_args(Mode):
            raise LocalError(f"no connection mode {mode!r}; known: {', '.join(get_args(Mode))}")
        if auth not in get_args(Auth):
            raise LocalError(f"no authentication {auth!r}; known: {', '.join(get_args(Auth))}")
        require_tools(_TOOLS)
        self._undo = ExitStack()
        weakref.finalize(self, self._undo.close)  # for callers that forget stop(), as in tempfile
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            self.mode = mode
            self.auth = auth
            self.directory = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="msgrlab-mon-")))
            """Directory of all files that the monitor reads and writes."""
            self.port_v2, self.port_v1 = ports or (reserve_port(self._undo), reserve_port(self._undo))
            self.v1_only = v1_only
            self.fsid = str(uuid.uuid4())
            """Id of the cluster."""
            self._create(options or {}, sections or {})
            self._daemon = Daemon("mon.a", self.conf, self.directory)
            self._undo.callback(self._daemon.end)
            self._wait_until_ready()
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the monitor and remove its directory. A second call does nothing."""
        self._undo.close()

    @property
    def addr_v2(self) -> str:
        """The msgr v2 address, as in the monitor map."""
        return f"v2:{HOST}:{self.port_v2}/0"

    @property
    def addr_v1(self) -> str:
        """The msgr v1 address, as in the monitor map."""
        return f"v1:{HOST}:{self.port_v1}/0"

    @property
    def addresses(self) -> str:
        """All its addresses, as in the monitor map."""
        return f"[{self.addr_v1}]" if self.v1_only else f"[{self.addr_v2},{self.addr_v1}]"

    @property
    def conf(self) -> Path:
        """Configuration for Ceph's own clients, as in ``ceph -c CONF``."""
        return self.directory / "ceph.conf"

    @property
    def keyring(self) -> Path:
        """Keys of ``client.admin``, which has all capabilities, and of ``mon.``."""
        return self.directory / "keyring"

    @property
    def log(self) -> Path:
        """The monitor's log; it has a line for every message since the first client connected."""
        return self._daemon.log

    @property
    def pid(self) -> int:
        """The monitor's process id."""
        return self._daemon.pid

    def ceph(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's command line as ``client.admin`` and return its output.

        Raises:
            LocalError: the command failed; the message has its error output.
        """
        return run_tool("ceph", "-c", str(self.conf), *arguments, stdin=stdin)

    def admin(self, command: str) -> Any:  # noqa: ANN401 - whatever JSON the monitor answers
        """Return the monitor's answer on its admin socket; see :meth:`Daemon.admin`."""
        return self._daemon.admin(command)

    def _create(self, options: Mapping[str, str], sections: Mapping[str, Mapping[str, str]]) -> None:
        """Write configuration, keys and monitor map, and create the monitor's store from them."""
        if len(os.fsencode(self.directory / "mon.a.asok")) > SOCKET_PATH_LIMIT:
            raise LocalError(
                f"{self.directory} is too long a path for a socket in it; set TMPDIR to a shorter one"
            )
        conf = section("global", self._common_options()) + section("mon", self._own_options() | dict(options))
        for name, values in sections.items():
            here = {option: value.format(directory=self.directory) for option, value in values.items()}
            conf += section(name, here)
        self.conf.write_text(conf)
        keyring, monmap = str(self.keyring), str(self.directory / "monmap")
        run_tool("ceph-authtool", "-C", keyring, "-g", "-n", "mon.", "--cap", "mon", "allow *")
        admin_caps = [word for service in ("mon", "osd", "mgr", "mds") for word in ("--cap", service, "allow *")]
        run_tool("ceph-authtool", keyring, "-g", "-n", "client.admin", *admin_caps)
        run_tool("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", self.addresses, monmap)
        run_tool("ceph-mon", "-c", str(self.conf), "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)

    def _common_options(self) -> dict[str, str]:
        return {
            **identity(self.fsid, self.addresses, v2=not self.v1_only),
            **security(self.auth, self.mode),
            "keyring": str(self.keyring),
            "run_dir": str(self.directory),
            "crash_dir": str(self.directory / "crash"),
        }

    def _own_options(self) -> dict[str, str]:
        return {"mon_data": f"{self.directory}/mon", **own_files(self.directory), **MON}

    def _wait_until_ready(self) -> None:
        """Wait for the quorum, then connect with a real client.

        A new leader needs another moment before it can assign global ids; only a client shows when it can.
        """
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._leads():
            code = self._daemon.poll()
            if code is not None:
                raise self._daemon.not_up(f"it ended with exit code {code}")
            if time.monotonic() > deadline_s:
                raise self._daemon.not_up(f"no quorum within {START_TIMEOUT_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)
        try:
            run_tool("rados", "-c", str(self.conf), "lspools")
        except LocalError as error:
            raise self._daemon.not_up(str(error)) from None

    def _leads(self) -> bool:
        try:
            return bool(self.admin("mon_status")["state"] == "leader")
        except (OSError, LocalError):
            return False
