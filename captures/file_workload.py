"""The workload of a file system: three active MDSs, to which directories are pinned, and clients of them."""

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from captures.client_process import ClientProcess
from captures.tcpdump import Tcpdump
from captures.waiting import wait_until
from messenger.errors import LocalError
from toolkit.cluster.daemons import Daemon, ask_admin_socket
from toolkit.cluster.real import RealCluster

MDS_OPTIONS = {
    "mds_bal_replicate_threshold": "1",  # a directory that is read some times in a row is copied to other ranks
    "mds_tick_interval": "1",
}
_ACTIVE = ("mds.a", "mds.b", "mds.c")
_STANDBY = "mds.d"
_CAPS = ("mon", "allow profile mds", "osd", "allow *", "mds", "allow *", "mgr", "allow profile mds")
_STEPS = Path(__file__).with_name("file_steps.py")


def files(cluster: RealCluster, tcpdump: Tcpdump) -> None:
    """Ranks copy, move and link parts of the tree; one of them fails and is replaced; an OSD is nearly full."""
    for pool in ("meta", "data"):
        cluster.ceph("osd", "pool", "create", pool, "1", "1")
    cluster.ceph("fs", "new", "files", "meta", "data")
    osd = cluster.osds[0]
    osd.stop()
    with ExitStack() as undo, tcpdump:
        osd.start()
        osd.wait_until_up()
        ranks = _Ranks(cluster, undo)
        client = undo.enter_context(ClientProcess(_STEPS.read_text(encoding="utf-8"), str(cluster.conf)))
        client.do("make")
        wait_until(lambda: ranks.holds("/b") == 1 and ranks.holds("/c") == 2)
        client.do("use")
        ranks.split("/b")
        client.do("share")
        client.do("move")
        wait_until(lambda: ranks.holds("/a") == 1 and ranks.holds("/b") == 2)
        client.do("reclaim")
        ranks.replace(1)
        client.do("look")
        _order(cluster, "osd.0", prefix="injectfull", type="nearfull", count=1)
        wait_until(lambda: "OSD_NEARFULL" in cluster.ceph("health", "-f", "json"))


def _order(cluster: RealCluster, daemon: str, **command: str | int) -> None:
    """Give a daemon a command that has no output."""
    with suppress(LocalError):  # there is no answer then
        ask_admin_socket(cluster.monitor.directory / f"{daemon}.asok", command)


class _Ranks:
    """The MDSs of the cluster."""

    def __init__(self, cluster: RealCluster, undo: ExitStack) -> None:
        self._cluster, self._undo = cluster, undo
        self._running = [self._start(name) for name in _ACTIVE]
        cluster.ceph("fs", "set", "files", "max_mds", str(len(_ACTIVE)))
        wait_until(self._active)

    def _start(self, name: str) -> Daemon:
        directory = self._cluster.monitor.directory
        key = self._cluster.ceph("auth", "get-or-create", name, *_CAPS)
        with self._cluster.keyring.open("a") as keyring:
            keyring.write(key)
        (directory / name).mkdir()
        daemon = Daemon(name, self._cluster.conf, directory)
        self._undo.callback(daemon.end)
        return daemon

    def _status(self, daemon: Daemon) -> dict[str, Any]:
        with suppress(OSError, LocalError):  # it does not listen yet, or its state is not known yet
            return dict(daemon.admin("status"))
        return {"state": "", "whoami": -1}

    def _active(self) -> bool:
        return all(self._status(daemon)["state"] == "up:active" for daemon in self._running)

    def _of(self, rank: int) -> Daemon:
        return next(daemon for daemon in self._running if self._status(daemon)["whoami"] == rank)

    def holds(self, tree: str) -> int | None:
        """Return the rank that is authoritative for a tree, or None if it has no subtree of its own."""
        for rank in range(len(_ACTIVE)):
            for subtree in self._of(rank).admin("get subtrees"):
                if subtree["dir"]["path"] == tree and subtree["is_auth"] and subtree["auth_second"] < 0:
                    return rank
        return None

    def split(self, tree: str) -> None:
        """Split a directory in two fragments."""
        daemon = self._of(self.holds(tree) or 0)
        _order(self._cluster, daemon.name, prefix="dirfrag split", path=tree, frag="0/0", bits=1)

    def replace(self, rank: int) -> None:
        """Kill the MDS of a rank, and start another one that takes the rank."""
        daemon = self._of(rank)
        daemon.kill()
        self._running.remove(daemon)
        self._running.append(self._start(_STANDBY))
        wait_until(lambda: self._status(self._running[-1])["state"] == "up:standby")
        self._cluster.ceph("mds", "fail", str(rank))
        wait_until(self._active)
