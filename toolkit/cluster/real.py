"""A small real cluster: one ``ceph-mon`` and a few ``ceph-osd`` on the loopback interface.

It is ready in two or three seconds. Objects are in memory unless they have to survive a crash.
"""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from messenger.errors import LocalError
from toolkit.cluster.daemons import HOST, Auth, Mode, require_tools, run_tool
from toolkit.cluster.monitor import RealMonitor
from toolkit.cluster.options import OSD, SMALL, own_files
from toolkit.cluster.osd import RealOsd

ObjectStore = Literal["memstore", "bluestore"]
"""Object store of the OSDs: in memory and saved at a clean stop, or in a sparse file each."""

_OSD = {"osd_data": "{directory}/osd.$id", "keyring": "{directory}/osd.$id/keyring", **own_files("{directory}")}
_SAVED = ("*.log", "*.out", "ceph.conf")


class RealCluster:
    """A running cluster. :meth:`stop`, or leaving the ``with`` block, ends it and removes all its files.

    When an exception leaves the block, logs and configuration are kept, and a note on the exception names their
    directory.
    """

    def __init__(
        self,
        osds: int = 1,
        mode: Mode = "crc",
        *,
        auth: Auth = "cephx",
        store: ObjectStore = "memstore",
        options: Mapping[str, str] | None = None,
        sections: Mapping[str, Mapping[str, str]] | None = None,
        ports: tuple[int, int] | None = None,
        v1_only: bool = False,
    ) -> None:
        """Start a monitor and OSDs, and wait until each OSD is up.

        Args:
            osds: number of OSDs; new pools have as many replicas, but three at most.
            mode: connection mode of daemons and clients.
            auth: authentication method of daemons and clients; ``none`` excludes secure mode.
            store: object store of the OSDs.
            options: more options for the ``[global]`` section, by Ceph's names.
            sections: more sections of the configuration; ``{directory}`` in a value stands for the cluster's
                directory.
            ports: ports of the monitor for v2 and for v1; chosen unless given.
            v1_only: True if no daemon speaks msgr v2.

        Raises:
            LocalError: an argument is invalid, a program of Ceph is not installed, or a daemon does not start; the
                message then ends with the last lines of its log.
        """
        if osds < 1:
            raise LocalError(f"a cluster needs at least one OSD, not {osds}")
        if store not in get_args(ObjectStore):
            raise LocalError(f"no object store {store!r}; known: {', '.join(get_args(ObjectStore))}")
        if auth == "none" and "secure" in mode:
            raise LocalError("without authentication there are no keys to encrypt with: auth none is crc only")
        require_tools(["ceph-osd"])
        self._undo = ExitStack()
        weakref.finalize(self, self._undo.close)
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            common = (
                SMALL | {"public_addr": HOST, "osd_pool_default_size": str(min(osds, 3))} | dict(options or {})
            )
            every = {"global": common, "osd": _OSD | OSD | {"osd_objectstore": store}, **(sections or {})}
            monitor = RealMonitor(mode, auth=auth, sections=every, ports=ports, v1_only=v1_only)
            self.monitor = self._undo.enter_context(monitor)
            self.osds = self._start_osds(osds)
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error.add_note(f"logs of the cluster are in {self.save_logs()}")
        self.stop()

    def stop(self) -> None:
        """Stop all daemons and remove the directory. A second call does nothing."""
        self._undo.close()

    def save_logs(self, directory: Path | None = None) -> Path:
        """Copy logs and configuration to a directory, a new temporary one unless given; returns it."""
        where = Path(tempfile.mkdtemp(prefix="msgrlab-logs-")) if directory is None else directory
        where.mkdir(parents=True, exist_ok=True)
        for pattern in _SAVED:
            for path in self.monitor.directory.glob(pattern):
                shutil.copy(path, where)
        return where

    @property
    def conf(self) -> Path:
        """Configuration for Ceph's own clients, as in ``rados -c CONF``."""
        return self.monitor.conf

    @property
    def keyring(self) -> Path:
        """Keys of ``client.admin``, which has all capabilities, and of ``mon.``."""
        return self.monitor.keyring

    def ceph(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's ``ceph`` as ``client.admin`` and return its output; raises LocalError if it fails."""
        return self.monitor.ceph(*arguments, stdin=stdin)

    def rados(self, *arguments: str, stdin: str = "") -> str:
        """Run Ceph's ``rados`` as ``client.admin`` and return its output; raises LocalError if it fails."""
        return run_tool("rados", "-c", str(self.conf), *arguments, stdin=stdin)

    def _start_osds(self, count: int) -> list[RealOsd]:
        # create them in parallel, because that waits for tools; but start them here: a daemon dies with the thread
        # that started it
        with ThreadPoolExecutor(max_workers=count) as pool:
            osds = list(pool.map(lambda osd_id: RealOsd(self.monitor, osd_id), range(count)))
        self._undo.callback(_stop_all, osds)
        for osd in osds:
            osd.start()
        for osd in osds:
            osd.wait_until_up()
        return osds


def _stop_all(osds: Sequence[RealOsd]) -> None:
    with ThreadPoolExecutor(max_workers=len(osds)) as pool:
        list(pool.map(RealOsd.stop, osds))
