"""Start a supervisor, and send requests to it."""

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
from toolkit.cluster.supervisor.program import LOG, Program
from toolkit.machine.attention import wait_for_end
from toolkit.machine.interpreters import environment
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import STATE_VARIABLE, Lease, clusters
from toolkit.machine.private import Peer

_ENDING = "ending"
"""Stage in which nodes and networks end; see :attr:`Cluster.stage`. Later stages may take any time."""
_ENDING_S = 60.0
_SILENCE_S = 10.0
"""A supervisor that takes a cluster down sends its stage more often than this."""
_LOOK_S = 1.0
"""Interval of checks that a silent supervisor is not stopped."""
_LASTING_S = 60.0
"""Seconds to wait until the supervisor has done a lasting request, and until it has undone it."""
_CHUNK_BYTES = 1 << 16
_LAST_WORDS_S = 3.0
"""Seconds that a supervisor may take to exit before it is killed and its journal undone."""


class NotKept(LocalError):
    """The cluster has no supervisor, only files that it left behind."""


def ask(lease: Lease, do: str, *, timeout_s: float = 60.0, **args: Any) -> Any:  # noqa: ANN401 - as JSON
    """Send a request to the supervisor of a cluster and return its answer.

    Raises:
        NotKept: there is no supervisor.
        Unsupported: the cluster does not support the request.
        LocalError: the supervisor rejects the request, or does not answer.
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


@contextlib.contextmanager
def lasting(lease: Lease, do: str, **args: Any) -> Iterator[None]:  # noqa: ANN401 - as JSON
    """Send a request that the supervisor undoes at the end of the ``with`` block, or when this process ends.

    The connection stays open meanwhile; the supervisor undoes the request when the connection ends.

    Raises:
        NotKept: there is no supervisor.
        Unsupported: the cluster does not support the request.
        LocalError: the supervisor rejects the request, or does not answer.
    """
    with _connected(lease, _LASTING_S) as connection, connection.makefile("rb") as lines:
        try:
            wire.send(connection, {"do": do, **args})
            answer = wire.receive_from(lines)
        except OSError:
            answer = {}
        if not answer:
            raise NotKept(f"cluster {lease.label.name!r} does not answer, or has just gone down")
        wire.result(answer)
        try:
            yield
        finally:
            # The cluster may have gone down. If it takes long, it undoes the request without this process.
            with contextlib.suppress(OSError, LocalError):
                connection.shutdown(socket.SHUT_WR)
                wire.receive_from(lines)


def ask_down(lease: Lease, keep: Path | None = None, *, keep_keys: bool = False) -> list[str] | None:
    """Have the process that keeps a cluster up take it down; wait until a supervisor has exited.

    Removing many files takes time; the supervisor sends its stage meanwhile, and the call waits as long as it
    does.

    Args:
        lease: lease of the cluster.
        keep: see :meth:`Cluster.down`.
        keep_keys: see :meth:`Cluster.down`.

    Returns:
        What could not be undone; None if this user has no supervisor for it, or it does not exit.
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
            if "result" not in answer:
                return None
            if answer["exits"] and not select.select([ends], [], [], _SILENCE_S)[0]:
                return None
            return list(answer["result"])
    except (LocalError, OSError):
        return None


@contextlib.contextmanager
def _connected(lease: Lease, timeout_s: float) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        name = lease.label.name
        try:
            with wire.short_path(lease.directory) as path:
                wire.connect(connection, path, timeout_s)
        except TimeoutError:
            raise LocalError(f"cluster {name!r}: no request accepted within {timeout_s:g} s") from None
        except OSError:
            if not lease.directory.exists():
                raise NotKept(
                    f"cluster {name!r} is being removed, or its removal was interrupted: msgrlab down {name}"
                ) from None
            if lease.is_held:
                raise NotKept(f"cluster {name!r} is starting or going down") from None
            raise NotKept(f"cluster {name!r} has no supervisor any more: msgrlab down {name}") from None
        if (peer := wire.check_peer(connection)).is_stopped:
            raise LocalError(_stopped(name, peer.pid))
        yield connection


def _stopped(name: str, pid: int) -> str:
    return f"cluster {name!r}: its supervisor, process {pid}, is stopped: kill -CONT {pid}, or msgrlab down {name}"


def chosen(name: str) -> Lease:
    """Return the cluster of that name; without a name, the only one there is.

    Raises:
        LocalError: there is none of that name, or no name was given and there are several clusters.
    """
    if name:
        return Lease.find(name)
    known = clusters()
    if not known:
        raise LocalError("no cluster is up: msgrlab up two-peers")
    if len(known) > 1:
        names = ", ".join(lease.label.name for lease in known)
        raise LocalError(f"several clusters are up: {names}; choose one with --name")
    return known[0]


class Starting:
    """A supervisor that starts its cluster.

    Args:
        lease: lease of the cluster.
        spec: file of its spec.
        backend: name of the backend; empty for the spec's.
        settings: changes of the spec, as ``KEY=VALUE``.
        program: its program, if that was started already.
        foreground: True to take the cluster down when this process ends.
        keep: True to keep a cluster that does not start, for inspection.
    """

    def __init__(
        self,
        lease: Lease,
        spec: Path,
        backend: str,
        settings: list[str],
        program: Program | None = None,
        *,
        foreground: bool = False,
        keep: bool = False,
    ) -> None:
        self._lease = lease
        self._program = program or Program()
        self._process = self._program.process
        own = {PROCESS_VARIABLE: str(lease.label), STATE_VARIABLE: str(lease.directory.parent)}
        self._program.begin(
            {
                "name": lease.label.name,
                "environment": {**environment(), **own},
                "spec": str(spec.resolve()),
                "backend": backend,
                "settings": settings,
                "foreground": foreground,
                "keep": keep,
            }
        )

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield its messages until the cluster is ready (``{"ready": ...}`` is the last one).

        Raises:
            Unsupported: this machine cannot run the cluster.
            LocalError: the cluster does not start; nothing of it is left, unless ``keep`` is set.
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
            last = self._program.last_words(self._lease.directory / LOG).removeprefix("msgrlab: ")
            raise LocalError(f"cluster {self._lease.label.name!r} did not come up: {last}")
        except BaseException:
            if is_kept:
                self.leave()
            else:
                self.end()
            raise

    def _lines(self) -> Iterator[bytes]:
        """Yield the supervisor's lines until it exits.

        Raises:
            LocalError: it was stopped by a signal.
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
        """Let the supervisor go on without this process."""
        self._program.close()
        self._process.returncode = 0  # it outlives this process, so nothing must wait for its exit

    def wait(self) -> None:
        """Wait until the cluster is down, or this process gets a signal."""
        wait_for_end(self._process)

    def end(self) -> None:
        """Have the supervisor take the cluster down; if it does not, kill it and undo its journal."""
        from toolkit.cluster.teardown import end_by_force  # noqa: PLC0415 - only where something has gone wrong

        self._program.close()
        try:
            stopped = Peer(self._process.pid, os.geteuid()).is_stopped
            self._process.wait(0 if stopped else _LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        end_by_force(self._lease)
