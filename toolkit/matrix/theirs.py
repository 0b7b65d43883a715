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
    """Wait until something holds; raises LocalError if it does not in time."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise LocalError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)


class Theirs:
    """Ceph's own programs on the dialling host."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._host = trial.cluster.backend.hosts[APP]
        furnish(self._host, release_of(trial.cell), lambda _line: None)
        log = str(self._host.directory / "client.log")
        self._own = ("--name", "client.app", "--debug-ms", "1", "--log-file", log)
        self._numbers = 0

    def run(self, tool: str, *arguments: str) -> str:
        """What a program prints."""
        conf = str(self._host.directory / "ceph.conf")
        return self._host.run(tool, "-c", conf, *self._own, *arguments, timeout_s=2 * PATIENCE_S)

    def rados(self, *arguments: str) -> str:
        """What ``rados`` prints about the pool."""
        return self.run("rados", "-p", "objects", *arguments)

    def in_background(self, *arguments: str) -> "Background":
        """Have ``rados`` run while other things are done."""
        return Background(lambda: self.rados(*arguments))

    @contextmanager
    def watching(self, oid: str) -> Iterator["Background"]:
        """Have ``rados watch`` run; it looks at its tickets every second, and must end well with the block."""
        keys = self._host.directory / "keyboard"
        keys.unlink(missing_ok=True)
        os.mkfifo(keys)
        conf = str(self._host.directory / "ceph.conf")
        eager = ("--mon-client-ping-interval", "1")  # by default 10 s, in which tickets of seconds expire
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
            with suppress(OSError):  # nobody reads: it has ended
                os.write(os.open(keys, os.O_WRONLY | os.O_NONBLOCK), b"\n")
        watch.require_end()

    def there_and_back(self, oid: str, content: bytes) -> None:
        """Write an object and read it; its content must be the same."""
        self.rados("put", oid, str(self.file(content)))
        back = self._host.directory / f"{oid}.back"
        self.rados("get", oid, str(back))
        same = hashlib.sha256(back.read_bytes()).digest() == hashlib.sha256(content).digest()
        require(same, f"{oid}: what was read is not what was written")
        self._trial.see(f"{oid}: {len(content):,} bytes written and read back by their client")

    def file(self, content: bytes) -> Path:
        """A file with this content, where their programs see it."""
        self._numbers += 1
        return self._host.write(f"content{self._numbers}", content)


class Background:
    """A program of theirs that goes on for a while."""

    def __init__(self, run: Callable[[], str]) -> None:
        self.errors: list[Exception] = []
        self.output = ""
        """What it has printed, once it has ended."""
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
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def require_end(self) -> None:
        """Wait for its end; raises EvidenceMissing unless that is a good one."""
        self._thread.join(PATIENCE_S)
        require(not (self.is_running or self.errors), f"their client did not go on: {self.errors or 'it waits'}")
