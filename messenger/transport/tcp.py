"""TCP under an endpoint: non-blocking sockets on an asyncio loop, without streams or transports.

Reads go straight into the buffer the core names, writes are tried at once and only what does not fit waits for
the socket. No coroutine runs per message (performance.md §2).
"""

import asyncio
import contextlib
import errno
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason
from messenger.host import LinkHost

_LISTEN_BACKLOG = 512
_READS_PER_WAKEUP = 8
_TURN_S = 0.005
"""What a link reads is handled within about this time, then others have their turn."""
_LEAST_READ_BYTES = 4096
_MOST_READ_BYTES = 1 << 30
_ACCEPT_PAUSE_S = 0.1
_MAX_IOVECS = 512
_WOULD_BLOCK = (BlockingIOError, InterruptedError)


class TcpLink:
    """One connected socket carrying one link."""

    __slots__ = (
        "_endpoint",
        "_loop",
        "_pending",
        "_pump",
        "_read_bytes",
        "_reading",
        "_sock",
        "_writing",
        "link_id",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: LinkHost,
        link_id: int,
        sock: socket.socket,
        pump: Callable[[], None],
        pending: deque[Buffer] | None = None,
    ) -> None:
        self.link_id = link_id
        self._loop = loop
        self._endpoint = endpoint
        self._sock = sock
        self._pump = pump
        self._pending: deque[Buffer] = deque() if pending is None else pending
        self._reading = False
        self._read_bytes = _MOST_READ_BYTES
        """Longest read: what was handled in time so far."""
        self._writing = False  # the loop tells when the socket takes more

    def start(self) -> None:
        """Begin to read."""
        self.pause(paused=False)
        self._await_writable(wanted=bool(self._pending))

    def hand_over(self) -> tuple[socket.socket, deque[Buffer]]:
        """The socket and what is not written yet, for another loop; this object does nothing any more."""
        self.pause(paused=True)
        self._await_writable(wanted=False)
        pending, self._pending = self._pending, deque()
        return self._sock, pending

    def pause(self, *, paused: bool) -> None:
        """Stop reading, or go on."""
        if paused and self._reading:
            self._loop.remove_reader(self._sock)
        elif not paused and not self._reading:
            self._loop.add_reader(self._sock, self._on_readable)
        self._reading = not paused

    def shut(self) -> None:
        """Shut the socket down both ways; whoever reads or writes next notices."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; what was not written is lost."""
        self.pause(paused=True)
        self._await_writable(wanted=False)
        self._pending.clear()
        self._sock.close()

    def _on_readable(self) -> None:
        endpoint, link_id = self._endpoint, self.link_id
        now = began_s = monotonic()
        try:
            for _ in range(_READS_PER_WAKEUP):
                buffer = endpoint.receive_buffer(link_id)
                if len(buffer) > self._read_bytes:
                    buffer = buffer[: self._read_bytes]
                count = self._sock.recv_into(buffer)
                if not count:
                    endpoint.link_eof(link_id, now)
                    break
                endpoint.link_received(link_id, count, now)
                self._pump()
                before_s, now = now, monotonic()
                self._fit_reads(count, now - before_s)
                if count < len(buffer) or not self._reading or now - began_s > _TURN_S:
                    return
        except _WOULD_BLOCK:
            return
        except OSError as error:
            endpoint.link_failed(link_id, FaultReason.SOCKET, _text(error), now)
        except MemoryError:
            # Half a frame may be lost by now: nothing that follows on this link would mean what it says.
            endpoint.link_failed(link_id, FaultReason.MEMORY, "for what the peer sends", now)
        self._pump()

    def _fit_reads(self, count: int, took_s: float) -> None:
        """Read less at a time where handling it takes too long, and more again where it does not.

        A hundred bytes may be a message or a part of one: only their handling shows what they cost.
        """
        if took_s > _TURN_S:
            self._read_bytes = max(count // 2, _LEAST_READ_BYTES)
        elif count >= self._read_bytes and took_s < _TURN_S / 4:
            self._read_bytes *= 2

    def write(self, buffers: list[Buffer]) -> None:
        """Write the buffers behind what is still pending."""
        waiting = bool(self._pending)
        self._pending.extend(buffers)
        if not waiting:
            self._write_some()
            if self._pending:
                self._await_writable(wanted=True)

    def _on_writable(self) -> None:
        self._write_some()
        self._pump()  # what has left makes room for more
        if not self._pending:
            self._await_writable(wanted=False)

    def _await_writable(self, *, wanted: bool) -> None:
        if wanted and not self._writing:
            self._loop.add_writer(self._sock, self._on_writable)
        elif not wanted and self._writing:
            self._loop.remove_writer(self._sock)
        self._writing = wanted

    def _write_some(self) -> None:
        """Give the socket what it takes and report it."""
        pending, written = self._pending, 0
        try:
            while pending:
                count = self._sock.send(pending[0]) if len(pending) == 1 else self._send_many()
                written += count
                while pending and count >= len(pending[0]):
                    count -= len(pending.popleft())
                if count:  # the socket is full
                    pending[0] = memoryview(pending[0])[count:]
                    break
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            pending.clear()
            # The core must not be re-entered while it is being drained.
            self._loop.call_soon(self._failed, _text(error))
        if written:
            self._endpoint.link_written(self.link_id, written, monotonic())

    def _send_many(self) -> int:
        return self._sock.sendmsg([self._pending[i] for i in range(min(len(self._pending), _MAX_IOVECS))])

    def _failed(self, detail: str) -> None:
        self._endpoint.link_failed(self.link_id, FaultReason.SOCKET, detail, monotonic())
        self._pump()


class Listener:
    """A listening socket that hands accepted ones on.

    Args:
        loop: to wait with.
        sock: listens already.
        accepted: is called with each accepted socket and the address it comes from.
        failed: is called when the machine has nothing left to accept with, with the reason.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        accepted: Callable[[socket.socket, EntityAddr], None],
        failed: Callable[[str], None] = lambda _detail: None,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._accepted = accepted
        self._failed = failed
        self.addr = socket_addr(sock.getsockname())
        self._listen()

    def _listen(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._on_readable)

    def _on_readable(self) -> None:
        try:
            sock, name = self._sock.accept()
        except (*_WOULD_BLOCK, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                raise
            # Out of descriptors or memory: the listener survives and looks again when some may be free.
            self._loop.remove_reader(self._sock)
            self._loop.call_later(_ACCEPT_PAUSE_S, self._listen)
            self._failed(_text(error))
            return
        sock.setblocking(False)
        self._accepted(sock, socket_addr(name))

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._sock)
        self._sock.close()


def no_delay(sock: socket.socket) -> None:
    """Have small writes leave at once."""
    with contextlib.suppress(OSError):  # reset by the peer already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def listening_socket(
    host: str, port: int, *, backlog: int = _LISTEN_BACKLOG, rcvbuf_bytes: int = 0
) -> socket.socket:
    """A non-blocking socket bound to an address and listening.

    Args:
        host: numeric.
        port: 0 takes a free one.
        backlog: connections the kernel accepts ahead.
        rcvbuf_bytes: receive buffer of accepted sockets; 0 leaves it to the kernel.

    Raises:
        OSError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 has a listener of its own
        _limit_receiving(sock, rcvbuf_bytes)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _limit_receiving(sock: socket.socket, size_bytes: int) -> None:
    if size_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)


async def dial(
    loop: asyncio.AbstractEventLoop, host: str, port: int, *, source: str = "", rcvbuf_bytes: int = 0
) -> socket.socket:
    """A non-blocking socket connected to an address.

    Args:
        loop: to wait with.
        host: numeric.
        port: there.
        source: own IP address to dial from; the kernel's choice unless given.
        rcvbuf_bytes: receive buffer; 0 leaves it to the kernel.

    Raises:
        OSError: the connection was refused or failed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        _limit_receiving(sock, rcvbuf_bytes)
        if source:
            sock.bind((source, 0))
        await loop.sock_connect(sock, (host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def socket_addr(name: tuple[str, int, *tuple[int, ...]]) -> EntityAddr:
    """A socket's name as an address: type MSGR2, nonce 0 (protocol.md §4.3)."""
    return EntityAddr.from_host(name[0], name[1], AddressType.MSGR2)


def _text(error: OSError) -> str:
    return error.strerror or str(error)
