"""TCP: non-blocking sockets on an asyncio loop, without asyncio's own streams and transports."""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from itertools import islice
from weakref import WeakSet

from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Buffer
from messenger.transport.base import Callback, Listener, Stream, Transport

_LISTEN_BACKLOG = 512
_ACCEPT_PAUSE_S = 0.1
_MAX_IOVECS = 512
_WOULD_BLOCK = (BlockingIOError, InterruptedError)
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of accept() for lack of descriptors or memory; the connection waits, and a later call can accept it."""
_LINGER_NOT = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which closing a socket resets the connection."""
_sockets: WeakSet[socket.socket] = WeakSet()
"""The sockets of all streams and listeners of this process."""


def _leave_to_parent() -> None:
    """Close a forked child's copies of the sockets.

    With such a copy a connection or a port stays open after the parent has closed it, for as long as the child
    lives. Nothing is unregistered: the kernel's list of watched sockets belongs to parent and child together.
    """
    for sock in list(_sockets):
        sock.close()


os.register_at_fork(after_in_child=_leave_to_parent)


class TcpStream(Stream):
    """A connected socket.

    Args:
        loop: the event loop of its callbacks.
        sock: connected and non-blocking; belongs to the stream from now on.
        peer_addr: address of the other end.
    """

    __slots__ = ("_reads", "_writes", "sock")

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer_addr: EntityAddr) -> None:
        super().__init__(loop, peer_addr)
        self.sock = sock
        _sockets.add(sock)
        self._reads = self._writes = False  # True while the loop watches the socket

    @property
    @override
    def local_addr(self) -> EntityAddr:
        return socket_addr(self.sock.getsockname())

    @override
    def read_into(self, buffer: memoryview, /) -> int:
        return self.sock.recv_into(buffer)

    @override
    def write(self, buffers: Sequence[Buffer], /) -> int:
        if len(buffers) == 1:
            return self.sock.send(buffers[0])
        return self.sock.sendmsg(islice(buffers, _MAX_IOVECS))

    @override
    def watch_reads(self, callback: Callback | None) -> None:
        if callback is not None:
            self.loop.add_reader(self.sock, callback)
        elif self._reads:
            self.loop.remove_reader(self.sock)
        self._reads = callback is not None

    @override
    def watch_writes(self, callback: Callback | None) -> None:
        if callback is not None:
            self.loop.add_writer(self.sock, callback)
        elif self._writes:
            self.loop.remove_writer(self.sock)
        self._writes = callback is not None

    @override
    def shutdown(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    @override
    def close(self) -> None:
        self.watch_reads(None)
        self.watch_writes(None)
        self.sock.close()

    @override
    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.close()

    @override
    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop


class TcpListener(Listener):
    """A listening socket.

    Args:
        loop: to wait with.
        sock: listens already.
        config: options; ``ms_tcp_nodelay`` applies to accepted sockets.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, config: Config) -> None:
        self._loop = loop
        self._sock = sock
        _sockets.add(sock)
        self._config = config
        self._accepted: Callable[[Stream], None]
        self._failed: Callable[[str], bool]
        self._addr = socket_addr(sock.getsockname())

    @property
    @override
    def addr(self) -> EntityAddr:
        return self._addr

    @override
    def start(self, accepted: Callable[[Stream], None], failed: Callable[[str], bool]) -> None:
        self._accepted = accepted
        self._failed = failed
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
            if error.errno not in SCARCE:
                raise
            # Out of descriptors or memory: the listener survives and looks again when some may be free. A link
            # that was closed has freed one of this process's descriptors; nothing of the machine's is sure.
            has_room = self._failed(error.strerror or str(error)) and error.errno == errno.EMFILE
            if not has_room:
                self._loop.remove_reader(self._sock)
                self._loop.call_later(_ACCEPT_PAUSE_S, self._listen)
            return
        self._accepted(_stream(self._loop, sock, socket_addr(name), self._config))

    @override
    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        self._sock.close()


class TcpTransport(Transport):
    """TCP over the sockets of this host, with the options ``ms_tcp_*``."""

    crosses_threads = True

    @override
    def listen(self, host: str, port: int, config: Config) -> TcpListener:
        sock = listening_socket(
            host, port, backlog=config.ms_tcp_listen_backlog, rcvbuf_bytes=config.ms_tcp_rcvbuf
        )
        return TcpListener(asyncio.get_running_loop(), sock, config)

    @override
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> TcpStream:
        loop = asyncio.get_running_loop()
        sock = await dial(loop, host, port, source=source, rcvbuf_bytes=config.ms_tcp_rcvbuf)
        return _stream(loop, sock, EntityAddr.from_host(host, port, AddressType.MSGR2), config)


def _stream(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, peer_addr: EntityAddr, config: Config
) -> TcpStream:
    sock.setblocking(False)
    if config.ms_tcp_nodelay:
        _no_delay(sock)
    return TcpStream(loop, sock, peer_addr)


def _no_delay(sock: socket.socket) -> None:
    """Disable Nagle's algorithm, so that small writes are sent at once."""
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
    except BaseException:
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
        port: port of the peer.
        source: local IP address to dial from; the kernel chooses one unless given.
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
    """A socket's name as an address: type MSGR2, nonce 0 (docs/protocol.md §4.3)."""
    return EntityAddr.from_host(name[0], name[1], AddressType.MSGR2)
