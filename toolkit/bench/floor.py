"""The floor: messages over a plain socket, as cheaply as an asyncio program without a protocol can send them.

A message is a length and a payload. As in the messenger's own transport, sockets are non-blocking on the same
event loop, reads go into one reused buffer, small writes are joined and large ones are written without a copy.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import islice
from struct import Struct

from messenger.config import Config
from messenger.transport.base import Stream
from messenger.transport.tcp import TcpStream, TcpTransport, dial
from toolkit.bench.spec import HOST, PeerSpec

_LENGTH = Struct("<I")
_BUFFER_BYTES = 256 * 1024
_JOIN_BELOW_BYTES = 16 * 1024
_READS_PER_WAKEUP = 8
_MAX_IOVECS = 512


class FloorPort:
    """Connects the traffic to a plain socket."""

    def __init__(self, spec: PeerSpec) -> None:
        self._spec = spec
        self.traffic = spec.traffic(self._send)
        self._socket: FloorSocket | None = None

    async def open(self, stack: AsyncExitStack) -> str:
        """Connect, or listen; return the receiver's address.

        Raises:
            OSError: the receiver does not accept the connection.
        """
        loop = asyncio.get_running_loop()
        if self._spec.sends:
            self._attach(stack, await dial(loop, HOST, int(self._spec.addr)))
            return self._spec.addr
        listener = TcpTransport().listen(HOST, 0, Config())
        stack.callback(listener.close)

        def accepted(stream: Stream) -> None:
            assert isinstance(stream, TcpStream)
            self._attach(stack, stream.sock)

        listener.start(accepted, lambda _detail: False)
        return str(listener.addr.port)

    def _attach(self, stack: AsyncExitStack, sock: socket.socket) -> None:
        self._socket = FloorSocket(sock, self._spec.payload, self._spec.received_bytes, self.traffic.seen)
        stack.callback(self._socket.close)

    def _send(self, count: int) -> None:
        assert self._socket is not None
        self._socket.send(count)


class FloorSocket:
    """One end of a connection that carries messages of one size each way.

    Args:
        sock: a connected, non-blocking socket.
        payload: payload of every message sent.
        expected_bytes: length of the payloads received.
        seen: called after each read with the number of messages that it completed.
    """

    def __init__(
        self, sock: socket.socket, payload: bytes, expected_bytes: int, seen: Callable[[int], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._seen = seen
        self._frame = (_LENGTH.pack(len(payload)), payload)
        self._join = len(payload) < _JOIN_BELOW_BYTES
        self._pending: deque[memoryview] = deque()
        # a full buffer ends with a whole message, so that no bytes have to be moved
        frame_bytes = _LENGTH.size + expected_bytes
        self._buffer = memoryview(bytearray(max(1, _BUFFER_BYTES // frame_bytes) * frame_bytes))
        self._filled = 0
        self._taken = 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(sock, self._on_readable)

    def send(self, count: int) -> None:
        """Send ``count`` messages."""
        pieces = self._frame * count
        waiting = bool(self._pending)
        self._pending.extend(map(memoryview, [b"".join(pieces)] if self._join else pieces))
        if not waiting:
            self._write_some()
            if self._pending:
                self._loop.add_writer(self._sock, self._on_writable)

    def close(self) -> None:
        """Close the socket; drop messages that are not written yet."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    def _on_writable(self) -> None:
        self._write_some()
        if not self._pending:
            self._loop.remove_writer(self._sock)

    def _write_some(self) -> None:
        pending = self._pending
        try:
            while pending:
                count = self._sock.send(pending[0]) if len(pending) == 1 else self._send_many()
                while count:
                    head = pending[0]
                    if count < len(head):
                        pending[0] = head[count:]
                        break
                    count -= len(head)
                    pending.popleft()
        except BlockingIOError:
            pass

    def _send_many(self) -> int:
        return self._sock.sendmsg(islice(self._pending, _MAX_IOVECS))

    def _on_readable(self) -> None:
        try:
            for _ in range(_READS_PER_WAKEUP):
                space = self._buffer[self._filled :]
                count = self._sock.recv_into(space)
                if not count:
                    self.close()
                    return
                self._filled += count
                if complete := self._take():
                    self._seen(complete)
                if count < len(space):
                    return
        except BlockingIOError:
            pass

    def _take(self) -> int:
        """Consume the complete messages in the buffer; return their number."""
        buffer, start, filled, complete = self._buffer, self._taken, self._filled, 0
        while start + _LENGTH.size <= filled:
            stop = start + _LENGTH.size + _LENGTH.unpack_from(buffer, start)[0]
            if stop > filled:
                break
            start = stop
            complete += 1
        if start == filled:
            start = self._filled = 0
        self._taken = start
        return complete
