"""The byte stream under a raw link: in memory, on the simulated network, or a socket."""

import contextlib
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from messenger.compat import override

PATIENCE_S = 20.0
"""Default time limit for everything that is expected."""
_CHUNK_BYTES = 1 << 16
_LOOK_AGAIN_S = 0.02


class Stream(ABC):
    """A byte stream between a raw peer and the other side."""

    @abstractmethod
    def write(self, raw: bytes) -> None:
        """Send bytes; if the stream has ended they are dropped without an error."""

    @abstractmethod
    def read(self) -> bytes:
        """Return what has arrived since the last call, possibly nothing."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if the other side has closed the stream, or it broke."""

    @abstractmethod
    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let time pass until the condition holds; returns False at the timeout."""

    @abstractmethod
    def close(self) -> None:
        """Close the stream after what was written."""


class SocketStream(Stream):
    """A TCP connection that blocks only in :meth:`wait`.

    Args:
        sock: a connected socket; the stream owns it from here on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._unsent = bytearray()
        self._ended = False
        self._news = False
        """True if something has arrived since the condition of :meth:`wait` was evaluated."""

    @override
    def write(self, raw: bytes) -> None:
        """Send bytes; what the kernel does not take is sent during the next wait."""
        self._unsent += raw
        self._send()

    def _send(self) -> None:
        try:
            while self._unsent and not self._ended:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # read() reports the end, after the bytes that arrived before it

    @override
    def read(self) -> bytes:
        self._send()
        chunks = []
        while not self._ended:
            try:
                chunk = self._sock.recv(_CHUNK_BYTES)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            self._news = True
            if not chunk:
                self._ended = True
            chunks.append(chunk)
        return b"".join(chunks)

    @property
    @override
    def closed(self) -> bool:
        """True if the peer closed the stream and all bytes before were read."""
        return self._ended

    @override
    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition is true, usually because bytes arrive."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._news = False
            if condition():
                return True
            if self._news:  # bytes arrived while the condition was evaluated, perhaps after it had looked
                continue
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            # Look again after a pause, because other events than bytes may make it true, such as a node's records.
            pause_s = min(left_s, _LOOK_AGAIN_S)
            if self._ended:
                time.sleep(pause_s)
            else:
                select.select([self._sock], [self._sock] if self._unsent else [], [], pause_s)

    def end_writing(self) -> None:
        """Close this side's half: the other side reads the end of the stream, and may go on sending."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    @override
    def close(self) -> None:
        self._ended = True
        self._sock.close()
