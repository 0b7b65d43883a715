"""Ceph's own programs as the clients of a trial."""

import hashlib
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.ceph.programs import furnish
from toolkit.matrix.evidence import require
from toolkit.matrix.ground import APP, Trial, release_of

PATIENCE_S = 60.0
_POLL_S = 0.05


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until ``holds`` is true; raises LocalError after PATIENCE_S."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise LocalError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)


class CephClient:
    """Ceph's own programs on the connecting host."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._host = trial.cluster.backend.hosts[APP]
        furnish(self._host, release_of(trial.cell), lambda _line: None)
        log = str(self._host.directory / "client.log")
        self._own = ("--name", "client.app", "--debug-ms", "1", "--log-file", log)
        self._numbers = 0

    def run(self, tool: str, *arguments: str) -> str:
        """Run a program and return its output."""
        conf = str(self._host.directory / "ceph.conf")
        return self._host.run(tool, "-c", conf, *self._own, *arguments, timeout_s=2 * PATIENCE_S)

    def rados(self, *arguments: str) -> str:
        """Run ``rados`` on the pool and return its output."""
        return self.run("rados", "-p", "objects", *arguments)

    def in_background(self, *arguments: str) -> "Background":
        """Start ``rados`` in the background."""
        return Background(lambda: self.rados(*arguments))

    @contextmanager
    def watching(self, oid: str) -> Iterator["Background"]:
        """Run ``rados watch`` during a block, checking its tickets every second; it must end without an error."""
        keys = self._host.directory / "keyboard"
        keys.unlink(missing_ok=True)
        os.mkfifo(keys)
        conf = str(self._host.directory / "ceph.conf")
        eager = ("--mon-client-ping-interval", "1")  # the default, 10 s, exceeds the tickets' lifetime
        command = ("rados", "-c", conf, *self._own, *eager, "-p", "objects", "watch", oid)
        watch = Background(
            lambda: self._host.run(
                "sh", "-c", f'exec "$@" <>{shlex.quote(str(keys))}', "sh", *command, timeout_s=PATIENCE_S
            )
        )
        try:
            until(lambda: "watcher=" in self.rados("listwatchers", oid), f"{oid} is watched")
            yield watch
        finally:
            with suppress(OSError):  # the program has ended
                os.write(os.open(keys, os.O_WRONLY | os.O_NONBLOCK), b"\n")
        watch.require_end()

    def round_trip(self, oid: str, content: bytes) -> None:
        """Write an object, read it back, and require the same content."""
        self.rados("put", oid, str(self.file(content)))
        back = self._host.directory / f"{oid}.back"
        self.rados("get", oid, str(back))
        same = hashlib.sha256(back.read_bytes()).digest() == hashlib.sha256(content).digest()
        require(same, f"{oid}: what was read is not what was written")
        self._trial.see(f"{oid}: {len(content):,} bytes written and read back by their client")

    def file(self, content: bytes) -> Path:
        """Write a file with this content on the connecting host; return its path."""
        self._numbers += 1
        return self._host.write(f"content{self._numbers}", content)


class Background:
    """A program of Ceph that runs in the background."""

    def __init__(self, run: Callable[[], str]) -> None:
        self.errors: list[Exception] = []
        self.output = ""
        """Output of the program; empty until it has ended."""
        self._run = run
        self._thread = threading.Thread(target=self._try, daemon=True)
        self._thread.start()

    def _try(self) -> None:
        try:
            self.output = self._run()
        except LocalError as error:
            self.errors.append(error)

    @property
    def is_running(self) -> bool:
        """True while the program runs."""
        return self._thread.is_alive()

    def require_end(self) -> None:
        """Wait for the end of the program; raises EvidenceMissing if it failed or does not end."""
        self._thread.join(PATIENCE_S)
        state = self.errors or "it still runs"
        require(not (self.is_running or self.errors), f"their client did not finish: {state}")
