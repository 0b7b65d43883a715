"""Clusters that this process keeps up: in a ``with`` block, or through several cells of a notebook."""

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from messenger.compat import override
from toolkit.cluster import warm_zygote
from toolkit.cluster.cluster import HISTORY_FILE, Cluster, LocalError, Progress
from toolkit.cluster.retention import check_writable, is_kept
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.cluster.spec_lookup import spec_from
from toolkit.cluster.supervisor.door import Door, Keeper
from toolkit.cluster.supervisor.requests import Requests
from toolkit.machine.leases import Lease, state_root

_open: dict[Path, "OwnCluster"] = {}
"""Clusters outside of ``with`` blocks, by their directories."""


class OwnCluster(Cluster):
    """A cluster that this process keeps up until :meth:`down`, or until a ``with`` block or the process ends.

    :func:`up` makes it.
    """

    _hold: ExitStack | None = None
    _keep: Path | None = None
    _keep_keys = False

    def keep_up(self, hold: ExitStack, keep: Path | None, *, keep_keys: bool) -> None:
        """Start the cluster.

        Args:
            hold: closed when the cluster is down.
            keep: directory that receives history, captures and logs then; None to delete them.
            keep_keys: True to keep keys there, too.

        Raises:
            LocalError: as :meth:`up`.
        """
        self._hold, self._keep, self._keep_keys = hold, keep, keep_keys
        self.up(keep)
        try:
            hold.callback(Door(self.directory, _Program(self)).close)
        except BaseException:  # such as no more descriptors
            self.take_down()
            raise
        _open[self.directory] = self
        atexit.register(self._at_exit, os.getpid())

    def _at_exit(self, process: int) -> None:
        if process == os.getpid():  # a forked child has the cluster, but does not own it
            for problem in self.take_down():
                print(f"msgrlab: {problem}", file=sys.stderr)

    def __enter__(self) -> Self:
        _open.pop(self.directory, None)
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def down(self) -> None:
        """Take the cluster down; a second call does nothing.

        Raises:
            LocalError: something could not be undone, or files that were to be kept could not be copied.
        """
        if problems := self.take_down():
            raise LocalError("; ".join(problems))

    @override
    def take_down(self, keep: Path | None = None, *, keep_keys: bool = False) -> list[str]:
        hold, self._hold = self._hold, None
        if hold is None:
            return super().take_down(keep, keep_keys=keep_keys)
        keep, keep_keys = keep or self._keep, keep_keys or self._keep_keys
        with hold:
            atexit.unregister(self._at_exit)
            _open.pop(self.directory, None)
            try:
                return super().take_down(keep, keep_keys=keep_keys)
            except BaseException:  # such as Ctrl-C
                is_done = keep is None or is_kept(self.directory, keep, keys=keep_keys)
                self.lease.journal.undo(keep_directory=not is_done)
                raise


class _Program(Keeper):
    """This process, which keeps a cluster up."""

    ends_with_cluster = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._remains: list[str] = []

    @override
    def requests(self) -> Requests:
        return Requests(self._cluster)

    @override
    def begin_end(self, keep: Path | None, *, keep_keys: bool) -> threading.Event:
        over = threading.Event()

        def end() -> None:
            try:
                self._remains = self._cluster.take_down(keep, keep_keys=keep_keys)
            finally:
                over.set()

        threading.Thread(target=end, name="down").start()
        return over

    @override
    def stage(self) -> str:
        return self._cluster.stage

    @override
    def remains(self) -> list[str]:
        return self._remains


def up(
    spec: ClusterSpec | Path | str,
    *,
    backend: str = "",
    name: str = "",
    report: Callable[[str], None] = lambda _words: None,
    progress: Progress = lambda _node, _stage: None,
    settings: str | Sequence[str] = (),
    keep: Path | str | None = None,
    keep_keys: bool = False,
) -> OwnCluster:
    """Start a cluster in this process.

    In a notebook, it stays up through several cells, until ``cluster.down()`` or until the kernel ends::

        cluster = up("two-peers", settings=["speaks.mode=secure"], keep="out")
        cluster.fault("partition a b")

    If the cell is run again, the cluster starts again: one of the same name that this process started before is
    taken down first, except in a ``with`` block, at whose end a cluster goes down::

        with up("two-peers") as cluster:
            cluster.fault("partition a b")

    Args:
        spec: a spec, the path of its file, or the name of a ready-made one.
        backend: name of the backend that runs the nodes; empty for the spec's.
        name: name of the cluster; the spec's unless given.
        report: called with a short text at each step, for display.
        progress: called with the progress of each node.
        settings: changes of the spec, as ``KEY=VALUE``; one may be given as it is.
        keep: directory that receives history, captures and logs at the end; they are deleted unless given. What
            cannot be copied stays in the cluster's directory, until ``msgrlab down``.
        keep_keys: True to keep keys there, too.

    Raises:
        Unsupported: this machine cannot run the cluster.
        NotUp: some nodes do not start; ``lines`` are the relevant lines of their logs, ``logs`` has all of them.
        LocalError: the spec is wrong, or the cluster does not start; nothing of it remains.
    """
    wanted = spec_from(spec, [settings] if isinstance(settings, str) else settings)
    place = None if keep is None else Path(keep)
    name = name or wanted.name
    if (earlier := _open.get(state_root() / name)) is not None:
        earlier.down()
    if place is not None:
        check_writable(place)
        if (place / HISTORY_FILE).exists():
            raise LocalError(f"{place} has the history of a cluster already: give another directory, or remove it")
    lease = Lease.take(name)
    with ExitStack() as hold:
        hold.enter_context(lease.held())
        try:
            cluster = OwnCluster(wanted, lease, backend, report, progress)
        except BaseException:
            lease.journal.undo()
            raise
        cluster.backend.zygote = cluster.backend.zygote or warm_zygote.shared
        cluster.keep_up(hold.pop_all(), place, keep_keys=keep_keys)
    return cluster
