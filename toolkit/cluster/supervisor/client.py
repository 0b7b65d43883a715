"""Speaking with the supervisor of a cluster, and starting one."""

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.supervisor import wire
from toolkit.machine.attention import wait_for_end
from toolkit.machine.interpreters import PYTHON, environment
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import STATE_VARIABLE, Lease, clusters
from toolkit.machine.private import Peer

LOG = "supervisor.log"
_ENDING = "ending"
"""The stage in which nodes and networks end; see :attr:`Cluster.stage`. The later ones may take any time."""
_ENDING_S = 60.0
_SILENCE_S = 10.0
"""A supervisor that takes a cluster down is heard of more often than that."""
_LOOK_S = 1.0
"""How often a supervisor that says nothing is looked at."""
_CHUNK_BYTES = 1 << 16
_LAST_WORDS_S = 3.0
"""How long a supervisor may take to end by itself before it is ended; its journal is undone then."""


class NotKept(LocalError):
    """The cluster has no supervisor; what there is of it was left behind."""


def ask(lease: Lease, do: str, *, timeout_s: float = 60.0, **args: Any) -> Any:  # noqa: ANN401 - as JSON
    """What the supervisor of a cluster answers.

    Raises:
        NotKept: there is none.
        Unsupported: what was asked for cannot be had.
        LocalError: it refuses, or does not answer.
    """
    with _connected(lease, timeout_s) as connection:
        try:
            wire.send(connection, {"do": do, **args})
            answer = wire.receive(connection)
        except TimeoutError:
            raise LocalError(f"cluster {lease.label.name!r}: no answer within {timeout_s:g} s") from None
        except OSError:
            answer = {}
    if not answer:
        raise NotKept(f"cluster {lease.label.name!r} has just gone down")
    return wire.result(answer)


def ask_down(lease: Lease, keep: Path | None = None, *, keep_keys: bool = False) -> list[str] | None:
    """Have the supervisor take its cluster down, and wait until it has ended itself.

    Removing many files takes time; the supervisor sends signs of life meanwhile, and the call waits for it.

    Args:
        lease: of the cluster.
        keep: see :meth:`Cluster.down`.
        keep_keys: likewise.

    Returns:
        What could not be undone; None if there is no supervisor of this user, or it does not end.
    """
    try:
        with _connected(lease, _SILENCE_S) as connection, contextlib.ExitStack() as closing:
            ends = os.pidfd_open(wire.check_peer(connection).pid)
            closing.callback(os.close, ends)
            wire.send(connection, {"do": "down", "keep": str(keep) if keep else "", "keep_keys": keep_keys})
            lines = closing.enter_context(connection.makefile("rb"))
            deadline_s = time.monotonic() + _ENDING_S
            while "stage" in (answer := wire.receive_from(lines)):
                if answer["stage"] == _ENDING and time.monotonic() > deadline_s:
                    return None
            if "result" not in answer or not select.select([ends], [], [], _SILENCE_S)[0]:
                return None
            return list(answer["result"])
    except (LocalError, OSError):
        return None


@contextlib.contextmanager
def _connected(lease: Lease, timeout_s: float) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        name = lease.label.name
        try:
            with wire.short_path(lease.directory) as path:
                connection.connect(path)
        except OSError:
            if not lease.directory.exists():
                raise NotKept(
                    f"cluster {name!r} is being removed, or was when that was interrupted: msgrlab down {name}"
                ) from None
            if lease.is_held:
                raise NotKept(f"cluster {name!r} is on its way up or down") from None
            raise NotKept(f"cluster {name!r} is kept up by nobody any more: msgrlab down {name}") from None
        if (peer := wire.check_peer(connection)).is_stopped:
            raise LocalError(_stopped(name, peer.pid))
        yield connection


def _stopped(name: str, pid: int) -> str:
    return f"cluster {name!r}: its supervisor, process {pid}, is stopped: kill -CONT {pid}, or msgrlab down {name}"


def chosen(name: str) -> Lease:
    """The cluster of a name; without one, the only one there is.

    Raises:
        LocalError: there is none of that name, or several are up and no name is given.
    """
    if name:
        return Lease.find(name)
    known = clusters()
    if not known:
        raise LocalError("no cluster is up: msgrlab up two-peers")
    if len(known) > 1:
        names = ", ".join(lease.label.name for lease in known)
        raise LocalError(f"several clusters are there: {names}; say which by --name")
    return known[0]


class Starting:
    """A supervisor that brings its cluster up.

    Args:
        lease: of the cluster.
        spec: file of its spec.
        backend: otherwise than the spec says; empty for what that says.
        settings: ``KEY=VALUE``, changes of the spec.
        foreground: whether the cluster goes down with this process.
        keep: whether it stays if it does not come up.
    """

    def __init__(
        self,
        lease: Lease,
        spec: Path,
        backend: str,
        settings: list[str],
        *,
        foreground: bool = False,
        keep: bool = False,
    ) -> None:
        self._lease = lease
        own = {PROCESS_VARIABLE: str(lease.label), STATE_VARIABLE: str(lease.directory.parent)}
        with (lease.directory / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "toolkit.cluster.supervisor", lease.label.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment(), **own},
                cwd="/",
                start_new_session=True,
            )
        wanted = {
            "spec": str(spec.resolve()),
            "backend": backend,
            "settings": settings,
            "foreground": foreground,
            "keep": keep,
        }
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            self._process.stdin.flush()

    def events(self) -> Iterator[dict[str, Any]]:
        """Its messages until the cluster is ready (``{"ready": ...}`` comes last).

        Raises:
            Unsupported: it cannot be had here.
            LocalError: it does not come up; nothing of it is left, unless ``keep`` is set.
        """
        is_kept = False
        try:
            for line in self._lines():
                values = json.loads(line)
                is_kept = bool(values.get("kept"))
                wire.result(values)
                yield values
                if "ready" in values:
                    return
            raise LocalError(f"cluster {self._lease.label.name!r} did not come up: {self._last_words()}")
        except BaseException:
            if is_kept:
                self.leave()
            else:
                self.end()
            raise

    def _lines(self) -> Iterator[bytes]:
        """The supervisor's lines until it ends.

        Raises:
            LocalError: it was stopped.
        """
        assert self._process.stdout is not None
        supervisor = Peer(self._process.pid, os.geteuid())
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            unread = b""
            while True:
                if not selector.select(_LOOK_S):
                    if supervisor.is_stopped:
                        raise LocalError(
                            f"cluster {self._lease.label.name!r} did not come up: its supervisor was stopped"
                        )
                    continue
                chunk = os.read(self._process.stdout.fileno(), _CHUNK_BYTES)
                *whole, unread = (unread + chunk).split(b"\n")
                yield from whole
                if not chunk:
                    return

    def leave(self) -> None:
        """It goes on by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.returncode = 0  # it outlives this process, which then is not its parent

    def wait(self) -> None:
        """Wait until the cluster is down or this process gets a signal to end."""
        wait_for_end(self._process)

    def end(self) -> None:
        """Have it take the cluster down, and see to it that it does."""
        from toolkit.cluster.ending import end_by_force  # noqa: PLC0415 - only where something has gone wrong

        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            stopped = Peer(self._process.pid, os.geteuid()).is_stopped
            self._process.wait(0 if stopped else _LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        end_by_force(self._lease)

    def _last_words(self) -> str:
        self._process.wait()
        try:
            lines = (self._lease.directory / LOG).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("msgrlab: ") if lines else "its supervisor said nothing"
