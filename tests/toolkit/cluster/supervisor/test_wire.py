"""The control socket of a supervisor that is slow to accept."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from toolkit.cluster.supervisor import wire


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[socket.socket]:
    """A control socket whose queue of connections is full."""
    with ExitStack() as ends:
        listening = ends.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(tmp_path / wire.SOCKET))
        listening.listen(0)
        queued = ends.enter_context(socket.socket(socket.AF_UNIX))
        queued.connect(str(tmp_path / wire.SOCKET))
        yield listening


def accept_and_close(listening: socket.socket) -> None:
    """Accept a connection and close it."""
    connection, _ = listening.accept()
    connection.close()


def test_a_client_waits_for_its_place_in_the_queue(busy: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as waiting:
        with pytest.raises(TimeoutError):
            wire.connect(waiting, busy.getsockname(), 0.05)
        accepting = threading.Thread(target=accept_and_close, args=(busy,))
        connecting = threading.Thread(target=wire.connect, args=(waiting, busy.getsockname(), 10.0))
        connecting.start()
        accepting.start()
        connecting.join()
        accepting.join()
        assert waiting.gettimeout() == 10.0, "connected"


def test_an_incomplete_request_is_refused_after_silence() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b'{"do": ')
        with pytest.raises(wire.LocalError, match=r"no complete request within 0\.05 s"):
            wire.receive(ours, 0.05)
        assert ours.gettimeout() is None
