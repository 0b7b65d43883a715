"""A byte stream over a queue pair: whole buffers by SEND, an empty message as the end (docs/protocol.md §8)."""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence

from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.transport.base import Callback, Stream
from messenger.transport.rdma.verbs import QueuePair
from messenger.transport.tcp import socket_addr
from messenger.transport.watch import Watch

_LINGER_S = 10.0
"""Seconds for which a closed stream waits until its peer has received everything and the end."""
_LINGER_NOT = struct.pack("ii", 1, 0)


def _error(number: int, detail: str = "") -> OSError:
    return OSError(number, detail or os.strerror(number))


class _LingeringSocket(socket.socket):
    """The TCP connection of a closed stream, which its stream closes.

    If the event loop ends before that, the garbage collector may finalize the connection before the stream. It
    would then warn that the application has not closed it.
    """

    @classmethod
    def of(cls, sock: socket.socket) -> "_LingeringSocket":
        """Take over a connection."""
        lingering = cls(fileno=sock.detach())
        lingering.setblocking(False)
        return lingering

    def __del__(self) -> None:
        self.close()


class RdmaStream(Stream):
    """A connected queue pair and its TCP connection, whose end shows that the peer has died.

    While reads or writes are watched, three descriptors are: those of the device, the completions and the TCP
    connection.

    Args:
        loop: event loop of the callbacks.
        sock: the non-blocking TCP connection; owned by the stream from now on.
        peer_addr: address of the other end.
        pair: connected queue pair; owned by the stream from now on.
        release: called once, when the queue pair is destroyed.
    """

    __slots__ = (
        "__weakref__",
        "_addr",
        "_closed",
        "_fault",
        "_fin_sent",
        "_free",
        "_peer_ended",
        "_readable",
        "_release",
        "_shut",
        "_sock",
        "_timer",
        "_unread",
        "_watching",
        "_withheld",
        "_writable",
        "pair",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        peer_addr: EntityAddr,
        pair: QueuePair,
        release: Callable[[], None],
    ) -> None:
        super().__init__(loop, peer_addr)
        self.pair = pair
        self._sock = sock
        self._addr = socket_addr(sock.getsockname())
        self._release: Callable[[], None] | None = release  # None once the queue pair is destroyed
        self._free = list(range(pair.count))
        """Indexes of the send buffers that are not in use."""
        self._unread: deque[tuple[int, memoryview]] = deque()
        """Indexes of receive buffers, and their unread bytes."""
        self._withheld: list[int] | None = None
        """Indexes of receive buffers that are not posted; None while all are."""
        self._fault: OSError | None = None
        self._peer_ended = self._shut = self._fin_sent = self._closed = False
        self._readable = Watch(loop, lambda: bool(self._unread) or self._has_ended)
        self._writable = Watch(loop, lambda: bool(self._free) or self._has_ended)
        self._watching: tuple[int, ...] = ()
        self._timer: asyncio.TimerHandle | None = None

    def __del__(self) -> None:
        # The event loop may end while the stream lingers.
        if self._closed and self._release is not None:
            self._destroy()

    @property
    def _has_ended(self) -> bool:
        return self._peer_ended or self._shut or self._fault is not None

    @property
    @override
    def local_addr(self) -> EntityAddr:
        return self._addr

    # ---- bytes

    @override
    def read_into(self, buffer: memoryview, /) -> int:
        self._check_open()
        if not self._unread:
            self._poll()
        if not self._unread:
            if self._fault is not None:
                raise self._fault.with_traceback(None)
            if self._has_ended:
                return 0
            raise _error(errno.EAGAIN)
        count = 0
        while self._unread and count < len(buffer):
            index, unread = self._unread[0]
            part = unread[: len(buffer) - count]
            buffer[count : count + len(part)] = part
            count += len(part)
            if len(part) < len(unread):
                self._unread[0] = index, unread[len(part) :]
            else:
                self._unread.popleft()
                self._post_receive(index)
        return count

    def withhold_receives(self, *, withheld: bool) -> None:
        """Post no receive buffer again once it has been read, so that the peer's sends wait; or post them all."""
        if withheld and self._withheld is None:
            self._withheld = []
        elif not withheld and self._withheld is not None:
            indexes, self._withheld = self._withheld, None
            for index in indexes:
                self._post_receive(index)

    def _post_receive(self, index: int) -> None:
        if self._withheld is not None:
            self._withheld.append(index)
        elif self._fault is None and self._release is not None:
            try:
                self.pair.post_receive(index)
            except OSError as error:
                self._fail(error)

    @override
    def write(self, buffers: Sequence[Buffer], /) -> int:
        self._check_open()
        if not self._free:
            self._poll()
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        if self._has_ended:
            raise _error(errno.EPIPE)
        if not self._free:
            raise _error(errno.EAGAIN)
        try:
            return self._send(buffers)
        except OSError as error:
            self._fail(error)
            raise

    def _send(self, buffers: Sequence[Buffer]) -> int:
        """Fill and post send buffers while there are free ones; returns the number of bytes accepted."""
        accepted = used_bytes = 0
        index, room = self._take()
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                if used_bytes == len(room):
                    self.pair.post_send(index, used_bytes)
                    used_bytes = 0
                    if not self._free:
                        return accepted
                    index, room = self._take()
                part = rest[: len(room) - used_bytes]
                room[used_bytes : used_bytes + len(part)] = part
                used_bytes += len(part)
                accepted += len(part)
                rest = rest[len(part) :]
        if used_bytes:
            self.pair.post_send(index, used_bytes)
        else:
            self._free.append(index)
        return accepted

    def _take(self) -> tuple[int, memoryview]:
        index = self._free.pop()
        return index, self.pair.send_buffer(index)

    def _check_open(self) -> None:
        if self._closed:
            raise _error(errno.EBADF)

    # ---- watching

    @override
    def watch_reads(self, callback: Callback | None) -> None:
        self._readable.set(callback)
        self._watch_descriptors()

    @override
    def watch_writes(self, callback: Callback | None) -> None:
        self._writable.set(callback)
        self._watch_descriptors()

    def _watch_descriptors(self) -> None:
        """Watch the descriptors while a callback is set or the stream lingers."""
        lingers = self._closed and self._release is not None
        wanted = self._readable.is_set or self._writable.is_set or lingers
        if wanted and not self._watching and self._fault is None:
            completions, events = self.pair.events_fd, os.dup(self.pair.device.events_fd)
            self._watching = (completions, events, self._sock.fileno())
            self.loop.add_reader(completions, self._on_completions)
            self.loop.add_reader(events, self._on_device_event)
            self.loop.add_reader(self._watching[2], self._on_tcp)
        elif self._watching and (not wanted or self._fault is not None):
            for number in self._watching:
                if not self.loop.is_closed():
                    self.loop.remove_reader(number)
            os.close(self._watching[1])
            self._watching = ()

    def _on_completions(self) -> None:
        try:
            self.pair.rearm()
        except OSError as error:
            self._fail(error)
        self._poll()

    def _on_device_event(self) -> None:
        if failure := self.pair.device.failure():
            self._fail(_error(errno.ENETDOWN, failure))

    def _on_tcp(self) -> None:
        try:
            raw = self._sock.recv(1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            end = error
        else:
            more = _error(errno.EPROTO, "the peer sent more than its records over TCP")
            end = more if raw else _error(errno.ECONNRESET)
        self._poll()  # the peer ends the stream before its TCP connection
        if self._peer_ended and self._watching:
            self.loop.remove_reader(self._sock)
        self._fail(end)

    def _poll(self) -> None:
        """Process the completions."""
        if self._fault is None:
            try:
                for done in self.pair.completions():
                    if done.error is not None:
                        cause = self.pair.device.cause()
                        self._fail(_error(errno.ENETDOWN, cause) if cause else done.error)
                    elif not done.is_receive:
                        self._sent(done.index)
                    elif done.size_bytes:
                        self._unread.append((done.index, self.pair.receive_buffer(done.index)[: done.size_bytes]))
                    else:
                        self._peer_ended = True
            except OSError as error:
                self._fail(error)
        self._readable.check()
        self._writable.check()
        self._end_linger()

    def _sent(self, index: int) -> None:
        if index == self.pair.count:
            self._fin_sent = True
        else:
            self._free.append(index)

    def _fail(self, error: OSError) -> None:
        """Break the stream with the first error, unless the peer has ended it. Received bytes can be read."""
        if self._fault is None and not self._peer_ended:
            self._fault = error
        self._watch_descriptors()
        self._readable.check()
        self._writable.check()
        self._end_linger()

    # ---- ends

    @override
    def shutdown(self) -> None:
        if not self._closed:
            self._end()
            self._readable.check()
            self._writable.check()

    def _end(self) -> None:
        if not self._has_ended:
            try:
                self.pair.post_fin()
            except OSError as error:
                self._fail(error)
        self._shut = True

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._poll()
        if self._unread:
            self.abort()
            return
        self._end()
        self._closed = True
        self._readable.set(None)
        self._writable.set(None)
        self._end_linger()
        if self._release is not None:
            self._sock = _LingeringSocket.of(self._sock)
            self._timer = self.loop.call_later(_LINGER_S, self._destroy)
            self._watch_descriptors()

    def _end_linger(self) -> None:
        """Destroy the queue pair of a closed stream once its peer has received everything, or cannot any more."""
        if self._closed and (self._fin_sent or self._peer_ended or self._fault is not None):
            self._destroy()

    @override
    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._readable.set(None)
            self._writable.set(None)
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._destroy()

    def _destroy(self) -> None:
        release, self._release = self._release, None
        if release is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._watch_descriptors()
        self._unread.clear()
        self.pair.close()
        self._sock.close()
        release()

    @override
    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = self._readable.loop = self._writable.loop = loop
