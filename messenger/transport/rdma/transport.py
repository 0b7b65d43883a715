"""Dials and listeners of RDMA: queue pairs exchange their records over TCP (docs/protocol.md §8)."""

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import struct
from collections import deque
from collections.abc import Callable

from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddressType, EntityAddr
from messenger.errors import DecodeError
from messenger.transport.base import Listener, Stream, Transport
from messenger.transport.rdma.record import RECORD_BYTES, Record, can_begin
from messenger.transport.rdma.stream import RdmaStream
from messenger.transport.rdma.verbs import Devices, QueuePair, pyverbs
from messenger.transport.tcp import TcpListener, TcpStream, dial, listening_socket

_PSN_BITS = 24
_LINGER_NOT = struct.pack("ii", 1, 0)


def _parse(raw: bytes, qpn: int) -> Record:
    """Parse the peer's record, which must be for the queue pair ``qpn``; 0 in the first record.

    Raises:
        OSError: it is not such a record.
    """
    try:
        record = Record.decode(raw)
    except DecodeError as error:
        raise OSError(errno.EPROTO, f"{error.detail} (is the peer's ms_type async+rdma?)") from None
    if record.peer_qpn != qpn:
        raise OSError(errno.EPROTO, f"a record for queue pair {record.peer_qpn:#x} instead of {qpn:#x}")
    return record


def _reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    sock.close()


class RdmaTransport(Transport):
    """Queue pairs of RDMA devices, with the options ``ms_async_rdma_*``.

    Raises:
        LocalError: pyverbs is missing.
    """

    crosses_threads = True

    def __init__(self) -> None:
        pyverbs()
        self._devices = Devices()

    @override
    def listen(self, host: str, port: int, config: Config) -> "RdmaListener":
        self._devices.release(self._devices.acquire(config))  # a missing device fails here, not at each peer
        return RdmaListener(asyncio.get_running_loop(), host, port, config, self)

    @override
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> RdmaStream:
        loop = asyncio.get_running_loop()
        sock = await dial(loop, host, port, source=source)
        try:
            pair, release = self.queue_pair(config)
            try:
                await loop.sock_sendall(sock, pair.record(0).encode())
                peer = _parse(await _receive(loop, sock), pair.qpn)
                pair.activate(peer)
                await loop.sock_sendall(sock, pair.record(peer.qpn).encode())
            except BaseException:
                pair.close()
                release()
                raise
        except BaseException:
            _reset(sock)
            raise
        return RdmaStream(loop, sock, EntityAddr.from_host(host, port, AddressType.MSGR2), pair, release)

    def queue_pair(self, config: Config) -> tuple[QueuePair, Callable[[], None]]:
        """Create a queue pair that is not connected; returns it and a function that releases its device.

        Raises:
            OSError: there is no device, or it has no room.
        """
        device = self._devices.acquire(config)
        try:
            pair = QueuePair(device, config, secrets.randbits(_PSN_BITS))
        except BaseException:
            self._devices.release(device)
            raise
        return pair, lambda: self._devices.release(device)


async def _receive(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    """Receive a record; returns fewer bytes as soon as they cannot become one.

    Raises:
        ConnectionResetError: the peer has closed the connection.
    """
    raw = b""
    while len(raw) < RECORD_BYTES and can_begin(raw):
        part = await loop.sock_recv(sock, RECORD_BYTES - len(raw))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        raw += part
    return raw


class RdmaListener(Listener):
    """A listening socket. Peers exchange records from its creation on, and wait until the listener starts.

    At most ``ms_tcp_listen_backlog`` peers exchange records or wait; further ones get a reset. So does a peer that
    has not finished within ``ms_connection_ready_timeout``.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int, config: Config, transport: RdmaTransport
    ) -> None:
        self._loop = loop
        self._config = config
        self._transport = transport
        sock = listening_socket(host, port, backlog=config.ms_tcp_listen_backlog)
        self._listener = TcpListener(loop, sock, config)
        self._introductions: set[_Introduction] = set()
        self._ready: deque[RdmaStream] = deque()
        self._accepted: Callable[[Stream], None] | None = None
        self._failed: Callable[[str], bool] = lambda _detail: False
        self._handle: asyncio.Handle | None = None
        self._listener.start(self._connected, self._no_room)

    @property
    @override
    def addr(self) -> EntityAddr:
        return self._listener.addr

    @override
    def start(self, accepted: Callable[[Stream], None], failed: Callable[[str], bool]) -> None:
        self._accepted, self._failed = accepted, failed
        self._schedule()

    def _connected(self, stream: Stream) -> None:
        assert isinstance(stream, TcpStream)
        if len(self._introductions) + len(self._ready) >= max(1, self._config.ms_tcp_listen_backlog):
            _reset(stream.sock)
        else:
            self._introductions.add(_Introduction(stream, self._loop, self))

    def _no_room(self, detail: str) -> bool:
        return self._failed(detail)

    def pair(self) -> tuple[QueuePair, Callable[[], None]]:
        """Create a queue pair for a peer, as :meth:`RdmaTransport.queue_pair`."""
        try:
            return self._transport.queue_pair(self._config)
        except OSError as error:
            self._no_room(error.strerror or str(error))
            raise

    @property
    def ready_timeout_s(self) -> float:
        """Seconds within which a peer must exchange its records."""
        return self._config.ms_connection_ready_timeout

    def introduced(self, introduction: "_Introduction", stream: RdmaStream | None) -> None:
        """Finish an exchange of records; ``stream`` is None if it failed."""
        self._introductions.discard(introduction)
        if stream is not None:
            self._ready.append(stream)
            self._schedule()

    def _schedule(self) -> None:
        if self._accepted is not None and self._ready and self._handle is None:
            self._handle = self._loop.call_soon(self._accept)

    def _accept(self) -> None:
        self._handle = None
        stream = self._ready.popleft()
        self._schedule()
        assert self._accepted is not None
        self._accepted(stream)

    @override
    def close(self) -> None:
        self._listener.close()
        if self._handle is not None:
            self._handle.cancel()
        for introduction in list(self._introductions):
            introduction.give_up()
        while self._ready:
            self._ready.popleft().abort()


class _Introduction:
    """The server's part of the exchange of records: two from the peer, one to it.

    It is no coroutine, so that closing a listener ends it at once.
    """

    def __init__(self, accepted: TcpStream, loop: asyncio.AbstractEventLoop, listener: RdmaListener) -> None:
        self._sock, self._peer_addr = accepted.sock, accepted.peer_addr
        self._loop = loop
        self._listener = listener
        self._raw = b""
        self._pair: QueuePair | None = None
        self._release: Callable[[], None] = lambda: None
        self._timer = loop.call_later(listener.ready_timeout_s, self.give_up)
        loop.add_reader(self._sock, self._on_readable)

    def _on_readable(self) -> None:
        try:
            part = self._sock.recv(RECORD_BYTES - len(self._raw))
            self._raw += part
            if not part or not can_begin(self._raw):
                self.give_up()
            elif len(self._raw) == RECORD_BYTES:
                raw, self._raw = self._raw, b""
                self._introduce(raw)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.give_up()

    def _introduce(self, raw: bytes) -> None:
        """Answer the first record; after the second one the peer is ready to receive."""
        if self._pair is None:
            peer = _parse(raw, 0)
            self._pair, self._release = self._listener.pair()
            self._pair.activate(peer)
            self._sock.send(self._pair.record(peer.qpn).encode())  # fits into the send buffer of a new connection
        else:
            _parse(raw, self._pair.qpn)
            self._end()
            stream = RdmaStream(self._loop, self._sock, self._peer_addr, self._pair, self._release)
            self._listener.introduced(self, stream)

    def _end(self) -> None:
        self._loop.remove_reader(self._sock)
        self._timer.cancel()

    def give_up(self) -> None:
        """Abort the exchange and reset the connection."""
        self._end()
        if self._pair is not None:
            self._pair.close()
            self._release()
        _reset(self._sock)
        self._listener.introduced(self, None)
