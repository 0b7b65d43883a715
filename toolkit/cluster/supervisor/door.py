"""The control socket of a running cluster: ``status``, ``fault``, ``tell`` and ``down`` from other processes."""

import contextlib
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from messenger.errors import LocalError
from messenger.transport.tcp import SCARCE
from toolkit.cluster.supervisor import wire
from toolkit.cluster.supervisor.requests import Requests
from toolkit.machine.private import FILE_MODE

_NEWS_S = 0.5
"""Interval at which the stage is sent to a client that waits for the end."""
_REQUEST_S = 5.0
"""Seconds without a byte after which a client that has not sent its request is refused."""
_SCARCE_S = 0.1
"""Interval of attempts while the machine lacks descriptors or threads to serve a client."""
_GOODBYE_S = 2.0
"""Seconds to wait for the answers to clients that wait for the end."""


class Keeper(Protocol):
    """Keeps a cluster up, in a process of its own or in that of a notebook."""

    ends_with_cluster: bool
    """True if the process exits when the cluster is down."""

    def requests(self) -> Requests:
        """Return what answers requests; raises LocalError if the cluster is not ready."""

    def begin_end(self, keep: Path | None, *, keep_keys: bool) -> threading.Event:
        """Begin to take the cluster down, as :meth:`Cluster.take_down` does; returns the event of its end."""

    def stage(self) -> str:
        """Return the stage of the cluster's life."""

    def remains(self) -> list[str]:
        """Return what could not be undone, after the end."""


class Door:
    """Serves every client of a cluster's control socket in a thread of its own.

    Args:
        directory: directory of the cluster.
        keeper: keeps the cluster up.
    """

    def __init__(self, directory: Path, keeper: Keeper) -> None:
        self._keeper = keeper
        self._closed = threading.Event()
        self._waiting: list[threading.Thread] = []
        """Threads of the requests that are answered when the cluster is down."""
        self._listening = socket.socket(socket.AF_UNIX)
        with wire.short_path(directory) as path:
            self._listening.bind(path)
            Path(path).chmod(FILE_MODE)
        self._listening.listen()
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def close(self) -> None:
        """Accept no more clients."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # accept returns
        self._listening.close()

    def wait_answered(self) -> None:
        """Wait until the clients that wait for the end of the cluster have their answers."""
        for thread in self._waiting:
            thread.join(_GOODBYE_S)

    def _accept(self) -> None:
        """Serve every client until the end; while descriptors are lacking, clients wait in the socket's queue."""
        while not self._closed.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError as error:
                if error.errno not in SCARCE:
                    return
                self._closed.wait(_SCARCE_S)
            else:
                self._begin_to_serve(connection)

    def _begin_to_serve(self, connection: socket.socket) -> None:
        """Serve a client in a thread of its own, as soon as the machine has one."""
        while not self._closed.is_set():
            try:
                threading.Thread(target=self._serve, args=(connection,), name="request", daemon=True).start()
            except RuntimeError:  # no more threads for this process or user
                self._closed.wait(_SCARCE_S)
            else:
                return
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            try:
                wire.check_peer(connection)
                request = wire.receive(connection, _REQUEST_S)
                if request.get("do") == "down":
                    self._go_down(connection, request)
                    return
                if request.get("do") in Requests.LASTING:
                    with self._keeper.requests().lasting(str(request.pop("do")), request):
                        wire.send(connection, {"result": None})
                        wire.wait_end(connection)
                    answer: dict[str, Any] = {"result": None}
                else:
                    answer = {"result": self._answer(request)} if request else {}
            except LocalError as error:
                answer = wire.refusal(error)
            except Exception as error:  # noqa: BLE001 - a mistake of ours is not to end the cluster
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                answer = wire.refusal(LocalError(f"{type(error).__name__}: {error}"))
            wire.send(connection, answer)

    def _answer(self, request: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        return self._keeper.requests().answer(str(request.pop("do", "")), request)

    def _go_down(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Take the cluster down; send the stage at intervals, and the answer at the end."""
        self._waiting.append(threading.current_thread())
        keep = Path(request["keep"]) if request.get("keep") else None
        over = self._keeper.begin_end(keep, keep_keys=bool(request.get("keep_keys")))
        while not over.wait(_NEWS_S):
            wire.send(connection, {"stage": self._keeper.stage()})
        wire.send(connection, {"result": self._keeper.remains(), "exits": self._keeper.ends_with_cluster})
