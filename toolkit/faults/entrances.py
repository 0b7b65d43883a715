"""Where a proxy listens: at a port of its own, or at a port that all proxies of one connector share.

Shared ports are for loopback, where a large mesh would need more ports and descriptors than there are: each proxy
has an address of its own in 127.0.0.0/8, and one socket accepts the connections to all of them.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import IPv4Address

from messenger.compat import override
from toolkit.faults.sockets import Inside, listening_socket
from toolkit.machine.loops import LoopThread

Accepted = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Handles a connection, in the thread of the event loop."""

_TURNS_TO_ADMIT = 4
"""Turns of the event loop from the acceptance of a connection until the proxy handles it."""
_FIRST_ADDRESS = IPv4Address("127.77.0.1")
_BACKLOG = 1024
_PAUSE_S = 1.0
"""Pause after a connection could not be accepted."""
_SO_BINDTODEVICE = 25
_LOOPBACK_DEVICE = b"lo\0"


class Entrance(ABC):
    """The address at which a proxy accepts connections."""

    host: str
    port: int

    @abstractmethod
    def begin(self, thread: LoopThread, accepted: Accepted) -> None:
        """Accept connections from now on; raises OSError."""

    @abstractmethod
    async def open(self) -> None:
        """Accept connections again; raises OSError."""

    @abstractmethod
    async def shut(self) -> None:
        """Let the kernel refuse connections; those that were established are still handled."""

    @abstractmethod
    async def end(self) -> None:
        """Accept no more connections, and release the address."""


Handler = Callable[[socket.socket], Accepted | None]
"""Returns what handles a connection; None for a connection that is closed at once."""


def _listen(sock: socket.socket, handler: Handler) -> None:
    """Accept the connections of a bound socket on the running event loop."""
    sock.listen(_BACKLOG)
    sock.setblocking(False)
    asyncio.get_running_loop().add_reader(sock, _accept, sock, handler)


def _end(sock: socket.socket, handler: Handler) -> None:
    """Accept the connections that wait, and close the socket."""
    _accept(sock, handler)
    asyncio.get_running_loop().remove_reader(sock)
    sock.close()


def _accept(sock: socket.socket, handler: Handler) -> None:
    """Accept all connections that wait; without a free descriptor, they wait longer."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, _ = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is free
            loop.remove_reader(sock)
            loop.call_later(_PAUSE_S, _resume, sock, handler)
            return
        accepted = handler(connection)
        if accepted is None:
            connection.close()
            continue
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), accepted, loop=loop)
        serving = loop.create_task(loop.connect_accepted_socket(partial(_given, protocol), connection))
        _serving.add(serving)
        serving.add_done_callback(_serving.discard)


def _resume(sock: socket.socket, handler: Handler) -> None:
    if sock.fileno() >= 0:
        asyncio.get_running_loop().add_reader(sock, _accept, sock, handler)


def _given(protocol: asyncio.StreamReaderProtocol) -> asyncio.StreamReaderProtocol:
    return protocol


_serving: set[asyncio.Task[object]] = set()
"""Tasks that begin to handle connections: the event loop keeps only weak references to its tasks."""


class OwnEntrance(Entrance):
    """A port of its own.

    Args:
        host: address, IPv4 or IPv6.
        port: the port; 0 for a free one.
        inside: runs the functions that open its sockets, for example in a network namespace.
    """

    def __init__(self, host: str, port: int, inside: Inside) -> None:
        self.host, self.port = host, port
        self._inside = inside
        self._listening: socket.socket | None = None
        # Bound, but not listening: keeps the port while connections are refused.
        self._reserved: socket.socket | None = None

    @override
    def begin(self, thread: LoopThread, accepted: Accepted) -> None:
        self._accepted = accepted
        self._reserved = self._inside(lambda: listening_socket(self.host, self.port))
        self.port = self._reserved.getsockname()[1]
        thread.do(self.open())

    @override
    async def open(self) -> None:
        if self._listening is None:
            self._listening = self._inside(lambda: listening_socket(self.host, self.port))
            _listen(self._listening, lambda _connection: self._accepted)

    @override
    async def shut(self) -> None:
        listening, self._listening = self._listening, None
        if listening is None:
            return
        _end(listening, lambda _connection: self._accepted)
        # Begin to handle the connections that were accepted already.
        for _ in range(_TURNS_TO_ADMIT):
            await asyncio.sleep(0)

    @override
    async def end(self) -> None:
        await self.shut()
        if self._reserved is not None:
            self._reserved.close()


class SharedPort:
    """A port on loopback at which the proxies of one connector have one address each.

    While some of the addresses refuse connections, each of the others has a socket of its own instead of the
    common one, so that the kernel refuses as it does without a proxy.

    Args:
        thread: event loop that accepts.

    Raises:
        OSError: there is no free port, or this kernel does not bind a socket to a device without privileges.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._next = _FIRST_ADDRESS
        self._accepted: dict[str, Accepted] = {}
        """What handles connections, by the address that they were made to."""
        self._shut: set[str] = set()
        self._own: dict[str, socket.socket] = {}
        """Sockets of single addresses, while some refuse connections."""
        # Bound, but not listening: keeps the port.
        self._reserved = _on_loopback("0.0.0.0", 0)  # noqa: S104 - of the device lo
        self.port: int = self._reserved.getsockname()[1]
        self._common: socket.socket | None = None

    def entrance(self) -> Entrance:
        """Return a new address of the port."""
        host, self._next = str(self._next), self._next + 1
        return _SharedEntrance(self, host)

    def begin(self, host: str, accepted: Accepted) -> None:
        """Accept connections to an address."""
        self._accepted[host] = accepted
        if self._common is None:
            self._thread.do(self.open(host))

    async def open(self, host: str) -> None:
        """Accept connections to an address again."""
        self._shut.discard(host)
        if self._shut:
            if host not in self._own:
                self._own[host] = self._listening(host)
            return
        if self._common is None:
            self._common = self._listening("0.0.0.0")  # noqa: S104 - as above
        for sock in self._own.values():
            self._end(sock)
        self._own.clear()

    async def shut(self, host: str) -> None:
        """Refuse connections to an address."""
        self._shut.add(host)
        if host in self._own:
            self._end(self._own.pop(host))
        if self._common is not None:
            for other in set(self._accepted) - self._shut:
                self._own[other] = self._listening(other)
            self._end(self._common)
            self._common = None

    async def leave(self, host: str) -> None:
        """Forget an address, whose proxy ends; the last one releases the port."""
        if host in self._own:
            self._end(self._own.pop(host))
        self._accepted.pop(host, None)
        self._shut.discard(host)
        if not self._accepted:
            if self._common is not None:
                self._end(self._common)
                self._common = None
            self._reserved.close()

    @property
    def is_closed(self) -> bool:
        """True once the last address has left."""
        return self._reserved.fileno() < 0

    def _listening(self, host: str) -> socket.socket:
        sock = _on_loopback(host, self.port)
        _listen(sock, self._handler)
        return sock

    def _end(self, sock: socket.socket) -> None:
        _end(sock, self._handler)

    def _handler(self, connection: socket.socket) -> Accepted | None:
        return self._accepted.get(connection.getsockname()[0])


class _SharedEntrance(Entrance):
    """An address of a shared port."""

    def __init__(self, shared: SharedPort, host: str) -> None:
        self.host, self.port = host, shared.port
        self._shared = shared

    @override
    def begin(self, thread: LoopThread, accepted: Accepted) -> None:
        self._shared.begin(self.host, accepted)

    @override
    async def open(self) -> None:
        await self._shared.open(self.host)

    @override
    async def shut(self) -> None:
        await self._shared.shut(self.host)

    @override
    async def end(self) -> None:
        await self._shared.leave(self.host)


def _on_loopback(host: str, port: int) -> socket.socket:
    """Return a bound socket that accepts only what comes through the loopback device."""
    sock = socket.socket(socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, _LOOPBACK_DEVICE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
