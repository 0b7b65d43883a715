"""The control socket of a supervisor: a connection has one request and one answer, each a line of JSON."""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.private import Peer

SOCKET = "control"
"""Name of the socket in the cluster's directory."""
MOST_BYTES = 64 << 20
_TIMEVAL = struct.Struct("ll")
USAGE_ERROR = 2
UNSUPPORTED = 3


@contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """Yield a path of the directory's socket that fits in a socket address, however long the directory's path is.

    Raises:
        OSError: there is no such directory.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def connect(connection: socket.socket, path: str, timeout_s: float) -> None:
    """Connect, and set the timeout of all further calls.

    A non-blocking ``connect``, as Python makes one for a socket with a timeout, fails at once while the supervisor
    has yet to accept many others. A blocking one waits, for as long as SO_SNDTIMEO says.

    Raises:
        TimeoutError: the supervisor does not accept in time.
        OSError: there is none.
    """
    seconds, fraction = divmod(timeout_s, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(seconds), int(fraction * 1e6)))
    try:
        connection.connect(path)
    except BlockingIOError:
        raise TimeoutError from None
    connection.settimeout(timeout_s)


def send(connection: socket.socket, values: dict[str, Any]) -> None:
    """Send one line."""
    connection.sendall(json.dumps(values, separators=(",", ":")).encode() + b"\n")


def check_peer(connection: socket.socket) -> Peer:
    """Return the process at the other end.

    Raises:
        LocalError: it belongs to another user.
    """
    peer = Peer.of(connection)
    if not peer.is_trusted:
        raise LocalError(f"control socket: process {peer.pid} at the other end belongs to uid {peer.uid}")
    return peer


def receive(connection: socket.socket, silence_s: float | None = None) -> dict[str, Any]:
    """Read one line; returns {} at the end.

    Args:
        connection: to read from.
        silence_s: seconds without a byte after which reading fails; by default the connection's own timeout.

    Raises:
        LocalError: it is not a JSON object, or ``silence_s`` have passed.
        TimeoutError: the connection's own timeout has passed.
    """
    timeout_s = connection.gettimeout()
    try:
        if silence_s is not None:
            connection.settimeout(silence_s)
        with connection.makefile("rb") as lines:
            return receive_from(lines)
    except TimeoutError:
        if silence_s is None:
            raise
        raise LocalError(f"control socket: no complete request within {silence_s:g} s") from None
    finally:
        connection.settimeout(timeout_s)


def receive_from(lines: BinaryIO) -> dict[str, Any]:
    """Read the next line of a connection that carries several; see :func:`receive`."""
    line = lines.readline(MOST_BYTES)
    if not line:
        return {}
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise LocalError("control socket: a line that is no JSON object")
    return values


def wait_end(connection: socket.socket) -> None:
    """Wait until the other end shuts the connection down, or its process ends."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1):
            pass


def refusal(error: LocalError) -> dict[str, Any]:
    """Return the answer that carries an error."""
    return {"error": str(error), "code": UNSUPPORTED if isinstance(error, Unsupported) else USAGE_ERROR}


def result(answer: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
    """Return the result in an answer.

    Raises:
        Unsupported: the cluster does not support the request.
        LocalError: the request failed.
    """
    if "error" in answer:
        raise (Unsupported if answer.get("code") == UNSUPPORTED else LocalError)(answer["error"])
    return answer.get("result")
