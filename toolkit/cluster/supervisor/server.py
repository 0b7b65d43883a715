"""Keep a cluster up: start it, answer requests, take it down."""

import contextlib
import json
import os
import signal
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.failure import NotUp
from toolkit.cluster.retention import is_kept
from toolkit.cluster.spec_lookup import spec_from
from toolkit.cluster.supervisor import wire
from toolkit.cluster.supervisor.door import Door, Keeper
from toolkit.cluster.supervisor.requests import Requests
from toolkit.machine.attention import wait_for_event
from toolkit.machine.leases import Lease

_STARTING = "the cluster is not ready"
_LOOK_S = 0.5
"""Interval of checks that the cluster's directory still exists."""


class _Over(BaseException):
    """Raised in the main thread to take the cluster down."""


class Supervisor(Keeper):
    """Keeps one cluster up.

    Args:
        lease: lease of the cluster; this process holds its lock.
        wanted: parameters: ``spec`` (a file), ``settings`` and ``backend``; ``foreground``, True to take the
            cluster down with the command that started it; and ``keep``, True to keep a cluster that does not
            start.
        front: input from that command. Its end takes the cluster down if it is not ready yet, or in foreground.
        events: receives the events of the start, as lines of JSON.
    """

    def __init__(self, lease: Lease, wanted: dict[str, Any], front: BinaryIO, events: BinaryIO) -> None:
        self._lease = lease
        self._wanted = wanted
        self._front = front
        self._events: BinaryIO | None = events
        self._events_lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._requests: Requests | None = None
        self._ending = False
        self._wake = threading.Event()
        self._keep: Path | None = None
        self._keep_keys = False
        self._remains: list[str] = []
        self._over = threading.Event()
        """Set once everything is undone, except for ``_remains``."""

    def run(self) -> int:
        """Keep the cluster up until it has to go down; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        door = Door(self._lease.directory, self)
        threading.Thread(target=self._watch_directory, name="directory", daemon=True).start()
        code = 0
        try:
            threading.Thread(target=self._watch_front, name="front", daemon=True).start()
            try:
                self._bring_up()
            except NotUp as error:
                if not error.is_kept:
                    raise
                self._stay(error)
            wait_for_event(self._wake)
        except _Over:
            pass
        except LocalError as error:
            self._emit(**wire.refusal(error))
            code = wire.refusal(error)["code"]
        except Exception as error:  # noqa: BLE001 - a mistake of ours; the log goes with the directory
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._emit(error=f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})", code=1)
            code = 1
        finally:
            self._ending = True
            if self._cluster is not None:
                self._remains += self._cluster.take_down(self._keep, keep_keys=self._keep_keys)
            self._remains += self._lease.journal.undo(keep_directory=not self._is_kept)
        self._over.set()
        door.close()
        door.wait_answered()
        return 1 if self._remains else code

    @property
    def _is_kept(self) -> bool:
        """True unless the cluster's directory has files that were to be kept and could not be copied."""
        return self._keep is None or is_kept(self._lease.directory, self._keep, keys=self._keep_keys)

    def _bring_up(self) -> None:
        spec = spec_from(Path(self._wanted["spec"]), self._wanted["settings"])
        self._emit(nodes=list(spec.nodes), backend=self._wanted["backend"] or spec.backend)

        def progress(node: str, stage: str) -> None:
            self._emit(node=node, stage=stage)

        self._cluster = Cluster(
            spec,
            self._lease,
            self._wanted["backend"],
            lambda words: self._emit(say=words),
            progress,
            lambda words: self._emit(announce=words),
        )
        self._cluster.up(keep=bool(self._wanted.get("keep")))
        self._requests = Requests(self._cluster)
        nodes = {
            name: {"kind": node.kind, "address": node.address, "pid": node.pid}
            for name, node in self._cluster.nodes.items()
        }
        about = {"name": self._cluster.name, "seconds": round(self._cluster.ready_s, 3), "nodes": nodes}
        conf = self._cluster.ceph_conf
        about |= {"ceph_conf": str(conf) if conf is not None else None}
        self._emit(ready=about | {"directory": str(self._cluster.directory)})
        self._leave_front()

    def _stay(self, error: NotUp) -> None:
        """Keep a cluster that did not start, for inspection."""
        assert self._cluster is not None
        self._requests = Requests(self._cluster)
        self._emit(**wire.refusal(error), kept=True)
        self._leave_front()

    def _leave_front(self) -> None:
        """Release the command that waits, unless the cluster runs in foreground."""
        with self._events_lock:
            if self._events is not None and not self._wanted["foreground"]:
                self._events.close()
                self._events = None

    def _emit(self, **values: Any) -> None:  # noqa: ANN401 - as JSON
        with self._events_lock:
            if self._events is None:
                return
            with contextlib.suppress(OSError, ValueError):
                self._events.write(json.dumps(values).encode() + b"\n")
                self._events.flush()

    def _watch_front(self) -> None:
        """Take the cluster down if its command exits before it is ready, or at any time in foreground."""
        while self._front.read(4096):
            pass
        if self._requests is None or self._wanted["foreground"]:
            self._end()

    def _watch_directory(self) -> None:
        """Take the cluster down if its directory is removed or replaced."""
        directory = self._lease.directory
        own = directory.stat().st_ino
        while not self._over.wait(_LOOK_S):
            try:
                is_there = directory.stat().st_ino == own
            except OSError:
                is_there = False
            if not is_there:
                if self._cluster is None or self._cluster.stage == "up":  # else it removes it itself
                    self._end()
                return

    # ---- the end

    def _end(self) -> None:
        """Have the main thread take the cluster down; from any thread."""
        if not self._ending:
            os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self._ending:
            self._ending = True
            raise _Over

    # ---- requests (Keeper)

    ends_with_cluster = True

    @override
    def requests(self) -> Requests:
        if self._requests is None:
            raise LocalError(_STARTING)
        return self._requests

    @override
    def begin_end(self, keep: Path | None, *, keep_keys: bool) -> threading.Event:
        self._keep, self._keep_keys = keep, keep_keys
        self._end()
        return self._over

    @override
    def stage(self) -> str:
        return "ending" if self._cluster is None else self._cluster.stage

    @override
    def remains(self) -> list[str]:
        return self._remains
