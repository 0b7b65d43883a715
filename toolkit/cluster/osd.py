"""A real ``ceph-osd`` of a real cluster: create, start, stop, kill and restart it."""

import json
import time
import uuid
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.daemons import POLL_INTERVAL_S, Daemon, run_tool
from toolkit.cluster.monitor import RealMonitor

BOOT_TIMEOUT_S = 60.0

_RUNNING = "active"
"""State that an OSD reports once the monitors have marked it up in the map."""


class RealOsd:
    """An OSD; :class:`RealCluster` makes and stops it."""

    def __init__(self, monitor: RealMonitor, osd_id: int) -> None:
        """Create its store and register it with the monitor; :meth:`start` runs it.

        Raises:
            LocalError: one of Ceph's programs failed.
        """
        self.id = osd_id
        self._monitor = monitor
        self._daemon: Daemon | None = None
        store = monitor.directory / f"osd.{osd_id}"
        store.mkdir()
        identity = str(uuid.uuid4())
        keyring = store / "keyring"
        run_tool("ceph-authtool", "-C", str(keyring), "-g", "-n", self.name)
        secret = run_tool("ceph-authtool", "-p", "-n", self.name, str(keyring)).strip()
        monitor.ceph("osd", "new", identity, str(osd_id), "-i", "-", stdin=json.dumps({"cephx_secret": secret}))
        conf = str(monitor.conf)
        # the monitor gets the same uuid, or the OSD would stay booting for ever
        run_tool("ceph-osd", "-c", conf, "-i", str(osd_id), "--mkfs", "--osd-uuid", identity)

    @property
    def name(self) -> str:
        """``osd.0`` and so on."""
        return f"osd.{self.id}"

    @property
    def running(self) -> bool:
        """True if its process runs."""
        return self._daemon is not None and self._daemon.poll() is None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._running_daemon().pid

    def admin(self, command: str) -> Any:  # noqa: ANN401 - whatever JSON the OSD answers
        """Return its answer on its admin socket; see :meth:`Daemon.admin`."""
        return self._running_daemon().admin(command)

    def start(self) -> None:
        """Start its process; :meth:`wait_until_up` waits until it serves clients."""
        assert not self.running
        self._daemon = Daemon(self.name, self._monitor.conf, self._monitor.directory)

    def wait_until_up(self) -> None:
        """Wait until the OSD serves clients.

        Raises:
            LocalError: it does not start; the message ends with the last lines of its log.
        """
        daemon = self._running_daemon()
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while not self._is_active(daemon):
            code = daemon.poll()
            if code is not None:
                raise daemon.not_up(f"it ended with exit code {code}")
            if time.monotonic() > deadline_s:
                raise daemon.not_up(f"not in the map within {BOOT_TIMEOUT_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)

    def stop(self) -> None:
        """Shut it down cleanly: it announces its shutdown to the monitor, and keeps its stored data."""
        if self._daemon is not None:
            self._daemon.end()

    def kill(self) -> None:
        """Kill it, like a crash; a memstore loses the data stored since its start."""
        if self._daemon is not None:
            self._daemon.kill()

    def _running_daemon(self) -> Daemon:
        if self._daemon is None:
            raise LocalError(f"{self.name} was never started")
        return self._daemon

    @staticmethod
    def _is_active(daemon: Daemon) -> bool:
        try:
            return bool(daemon.admin("status")["state"] == _RUNNING)
        except (OSError, LocalError):
            return False
