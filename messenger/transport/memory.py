"""A transport in memory: a network of listeners within one event loop, without sockets.

>>> import asyncio
>>> from messenger.config import Config
>>> async def talk() -> bytes:
...     network, accepted = MemoryNetwork(), []
...     listener = network.listen("10.0.0.1", 6800, Config())
...     listener.start(accepted.append, lambda _detail: False)
...     stream = await network.dial("10.0.0.1", 6800, Config())
...     stream.write([b"he", b"llo"])
...     await asyncio.sleep(0)  # the turn of the loop in which the listener accepts
...     buffer = memoryview(bytearray(64))
...     return bytes(buffer[: accepted[0].read_into(buffer)])
>>> asyncio.run(talk())
b'hello'

A stream behaves like a TCP socket on loopback: bounded buffers, level-triggered callbacks, an orderly end or a
reset. Messengers with the same network (``Messenger(transport=network)``) can reach each other, and no one else.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence

from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.transport.base import Callback, Listener, Stream, Transport
from messenger.transport.watch import Watch

BUFFER_BYTES = 256 << 10
"""Default size of the buffer for unread bytes, in each direction."""
_FREE_PORTS = range(32768, 61000)
"""Local ports of dials, and ports of listeners that request port 0."""
_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104 - as names of addresses


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))  # OSError picks the subclass for the number


class _Flow:
    """One direction of a pair.

    Args:
        loop: event loop of both ends.
        room_bytes: most unread bytes.
    """

    __slots__ = ("_ended", "_reset", "_room_bytes", "readable", "unread", "writable")

    def __init__(self, loop: asyncio.AbstractEventLoop, room_bytes: int) -> None:
        self.unread = bytearray()
        self._room_bytes = room_bytes
        self._ended = False
        self._reset = False
        self.readable = Watch(loop, lambda: bool(self.unread) or self._ended or self._reset)
        self.writable = Watch(loop, lambda: len(self.unread) < self._room_bytes or self._ended or self._reset)

    def read_into(self, buffer: memoryview) -> int:
        """As :meth:`Stream.read_into`."""
        if self._reset:
            raise _error(errno.ECONNRESET)
        unread = self.unread
        count = min(len(buffer), len(unread))
        if count:
            buffer[:count] = unread[:count]
            del unread[:count]
            self.writable.check()
        elif not self._ended:
            raise _error(errno.EAGAIN)
        return count

    def write(self, buffers: Sequence[Buffer]) -> int:
        """As :meth:`Stream.write`."""
        if self._reset:
            raise _error(errno.ECONNRESET)
        if self._ended:
            raise _error(errno.EPIPE)
        room_bytes = self._room_bytes - len(self.unread)
        if not room_bytes:
            raise _error(errno.EAGAIN)
        accepted = 0
        for buffer in buffers:
            part = memoryview(buffer)[: room_bytes - accepted]
            self.unread += part
            accepted += len(part)
            if accepted == room_bytes:
                break
        self.readable.check()
        return accepted

    def end(self) -> None:
        """Accept no more bytes; the end of file follows the unread ones."""
        self._ended = True
        self._notice()

    def reset(self) -> None:
        """Reset this direction: unread bytes are lost."""
        self._reset = True
        self.unread.clear()
        self._notice()

    def _notice(self) -> None:
        self.readable.check()
        self.writable.check()


class MemoryStream(Stream):
    """One end of a :class:`MemoryPair`."""

    __slots__ = ("_addr", "_closed", "_inbound", "_outbound")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        addr: EntityAddr,
        peer_addr: EntityAddr,
        inbound: _Flow,
        outbound: _Flow,
    ) -> None:
        super().__init__(loop, peer_addr)
        self._addr = addr
        self._inbound = inbound
        self._outbound = outbound
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStream {self._addr} to {self.peer_addr}>"

    @property
    @override
    def local_addr(self) -> EntityAddr:
        return self._addr

    @property
    def unread_bytes(self) -> int:
        """Number of bytes that the peer has written and this end has not read."""
        return len(self._inbound.unread)

    @property
    def is_open(self) -> bool:
        """True until this end is closed."""
        return not self._closed

    @override
    def read_into(self, buffer: memoryview, /) -> int:
        if self._closed:
            raise _error(errno.EBADF)
        return self._inbound.read_into(buffer)

    @override
    def write(self, buffers: Sequence[Buffer], /) -> int:
        if self._closed:
            raise _error(errno.EBADF)
        return self._outbound.write(buffers)

    @override
    def watch_reads(self, callback: Callback | None) -> None:
        self._inbound.readable.set(callback)

    @override
    def watch_writes(self, callback: Callback | None) -> None:
        self._outbound.writable.set(callback)

    @override
    def shutdown(self) -> None:
        self._inbound.end()
        self._outbound.end()

    @override
    def close(self) -> None:
        if self._inbound.unread:
            self.abort()
        elif not self._closed:
            self.shutdown()
            self._stop()

    @override
    def abort(self) -> None:
        if not self._closed:
            self._inbound.reset()
            self._outbound.reset()
            self._stop()

    def _stop(self) -> None:
        self._closed = True
        self.watch_reads(None)
        self.watch_writes(None)

    @override
    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self.loop:
            raise LocalError(f"{self!r} stays on its event loop")


class MemoryPair:
    """A connected pair of streams.

    Args:
        loop: event loop of both ends.
        dialler_addr: address of the end that dialled.
        listener_addr: address that was dialled.
        buffer_bytes: size of the buffer for unread bytes, in each direction.
    """

    __slots__ = ("_flows", "accepted", "dialled")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dialler_addr: EntityAddr,
        listener_addr: EntityAddr,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        forth, back = _Flow(loop, buffer_bytes), _Flow(loop, buffer_bytes)
        self._flows = forth, back
        self.dialled = MemoryStream(loop, dialler_addr, listener_addr, back, forth)
        self.accepted = MemoryStream(loop, listener_addr, dialler_addr, forth, back)

    def __repr__(self) -> str:
        return f"<MemoryPair {self.dialled.local_addr} to {self.accepted.local_addr}>"

    @property
    def is_open(self) -> bool:
        """True until both ends are closed."""
        return self.dialled.is_open or self.accepted.is_open

    def reset(self) -> None:
        """Reset the pair: reads and writes of both ends raise ConnectionResetError; bytes in flight are lost."""
        for flow in self._flows:
            flow.reset()

    def end(self) -> None:
        """End the pair in an orderly way: both ends read the bytes in flight, then the end of file."""
        for flow in self._flows:
            flow.end()


class MemoryListener(Listener):
    """A listener of a network; created by :meth:`MemoryNetwork.listen`."""

    def __init__(self, addr: EntityAddr, backlog: int, freed: Callable[[], object]) -> None:
        self._addr = addr
        self._freed = freed
        self._backlog = max(1, backlog)
        self._waiting: deque[MemoryPair] = deque()
        self._room: deque[asyncio.Future[None]] = deque()
        """Dials that wait for room in the backlog."""
        self._accepted: Callable[[Stream], None] | None = None
        self._handle: asyncio.Handle | None = None
        self._closed = False

    @property
    @override
    def addr(self) -> EntityAddr:
        return self._addr

    @override
    def start(self, accepted: Callable[[Stream], None], failed: Callable[[str], bool]) -> None:
        self._accepted = accepted
        self._schedule()

    async def arrive(self, pair: MemoryPair) -> None:
        """Queue a dial in the backlog, and wait while that is full.

        Raises:
            ConnectionRefusedError: the listener was closed before there was room.
        """
        while len(self._waiting) >= self._backlog and not self._closed:
            room = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        if self._closed:
            raise _error(errno.ECONNREFUSED)
        self._waiting.append(pair)
        self._schedule()

    def _schedule(self) -> None:
        if self._accepted is not None and self._waiting and self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._accept)

    def _accept(self) -> None:
        self._handle = None
        pair = self._waiting.popleft()
        self._wake()
        self._schedule()
        assert self._accepted is not None
        self._accepted(pair.accepted)

    def _wake(self) -> None:
        for room in self._room:
            if not room.done():
                room.set_result(None)
        self._room.clear()

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._freed()
        if self._handle is not None:
            self._handle.cancel()
        for pair in self._waiting:
            pair.accepted.abort()
        self._waiting.clear()
        self._wake()


class MemoryNetwork(Transport):
    """A network in memory, for messengers on one event loop. Any IP address is one of its hosts.

    Args:
        buffer_bytes: size of a stream's buffer for unread bytes, in each direction; at least 1.

    Raises:
        LocalError: ``buffer_bytes`` is below 1.
    """

    crosses_threads = False

    def __init__(self, buffer_bytes: int = BUFFER_BYTES) -> None:
        if buffer_bytes < 1:
            raise LocalError(f"buffer_bytes = {buffer_bytes}: give 1 or more")
        self._buffer_bytes = buffer_bytes
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self._pairs: list[MemoryPair] = []
        self._next_port = 0

    def __repr__(self) -> str:
        return f"<MemoryNetwork of {len(self._listeners)} listeners>"

    @property
    def pairs(self) -> list[MemoryPair]:
        """Connected pairs with an open end, oldest first; tests can reset or end them."""
        self._pairs = [pair for pair in self._pairs if pair.is_open]
        return list(self._pairs)

    @override
    def listen(self, host: str, port: int, config: Config) -> MemoryListener:
        if port and self._is_taken(host, port):
            raise _error(errno.EADDRINUSE)
        addr = _addr(host, port or self._free_port(host))
        place = addr.host, addr.port
        listener = MemoryListener(addr, config.ms_tcp_listen_backlog, lambda: self._listeners.pop(place))
        self._listeners[place] = listener
        return listener

    @override
    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> MemoryStream:
        dialled = _addr(host, port)
        wildcard = "::" if ":" in host else "0.0.0.0"  # noqa: S104 - as the name of an address
        listener = self._listeners.get((dialled.host, port)) or self._listeners.get((wildcard, port))
        if listener is None:
            raise _error(errno.ECONNREFUSED)
        source = source or host
        mine = _addr(source, self._free_port(source))
        pair = MemoryPair(asyncio.get_running_loop(), mine, dialled, self._buffer_bytes)
        await listener.arrive(pair)
        self._pairs = [*self.pairs, pair]
        return pair.dialled

    def _is_taken(self, host: str, port: int) -> bool:
        """True if a listener has the port on that host, or one of the two is the wildcard of the same family."""
        return any(
            taken_port == port
            and (":" in taken) == (":" in host)
            and (taken == host or not _WILDCARDS.isdisjoint({taken, host}))
            for taken, taken_port in self._listeners
        )

    def _free_port(self, host: str) -> int:
        for _ in _FREE_PORTS:
            port = _FREE_PORTS[self._next_port]
            self._next_port = (self._next_port + 1) % len(_FREE_PORTS)
            if not self._is_taken(host, port):
                return port
        raise _error(errno.EADDRINUSE)


def _addr(host: str, port: int) -> EntityAddr:
    """An address of type MSGR2 with nonce 0.

    Raises:
        OSError: the host is not a numeric IP address.
    """
    try:
        return EntityAddr.from_host(host, port, AddressType.MSGR2)
    except LocalError:
        raise _error(errno.EINVAL) from None
