"""A link of an endpoint on a byte stream of a transport.

Reads go directly into the core's buffer. Writes are tried at once; only what the stream does not accept waits. No
coroutine runs for each message: a task costs four times as much as a callback (4.4 instead of 1.05 us for a frame
of 64 bytes, CPython 3.11).
"""

from collections import deque
from collections.abc import Callable
from time import monotonic

from messenger.denc.codec import Buffer
from messenger.errors import FaultReason
from messenger.host import LinkHost
from messenger.transport.base import Stream

_READS_PER_WAKEUP = 8
_TURN_S = 0.005
"""Seconds for which one link's reads are handled at a time, approximately; then others have their turn."""
_LEAST_READ_BYTES = 4096
_MOST_READ_BYTES = 1 << 30
_WOULD_BLOCK = (BlockingIOError, InterruptedError)


class StreamLink:
    """One byte stream that carries one link.

    Args:
        stream: connected stream; owned by this object from now on.
        endpoint: host of the link.
        link_id: id of the link.
        pump: carries out the outputs of the host.
        pending: bytes to write first.
    """

    __slots__ = (
        "_endpoint",
        "_pending",
        "_pump",
        "_read_bytes",
        "_reading",
        "_writing",
        "link_id",
        "stream",
    )

    def __init__(
        self,
        stream: Stream,
        endpoint: LinkHost,
        link_id: int,
        pump: Callable[[], None],
        pending: deque[Buffer] | None = None,
    ) -> None:
        self.link_id = link_id
        self.stream = stream
        self._endpoint = endpoint
        self._pump = pump
        self._pending: deque[Buffer] = deque() if pending is None else pending
        self._reading = False
        self._read_bytes = _MOST_READ_BYTES
        """Longest read; adapted so that its handling takes less than :data:`_TURN_S`."""
        self._writing = False  # True while writes of the stream are watched

    def start(self) -> None:
        """Start reading, and writing what is pending."""
        self.pause(paused=False)
        self._await_writable(wanted=bool(self._pending))

    def hand_over(self) -> tuple[Stream, deque[Buffer]]:
        """Stop using the stream; returns it and its unwritten bytes for another event loop."""
        self.pause(paused=True)
        self._await_writable(wanted=False)
        pending, self._pending = self._pending, deque()
        return self.stream, pending

    def pause(self, *, paused: bool) -> None:
        """Stop or resume reading."""
        if paused is self._reading:
            self.stream.watch_reads(None if paused else self._on_readable)
        self._reading = not paused

    def shut(self) -> None:
        """Shut the stream down in both directions; the next read or write reports it."""
        self.stream.shutdown()

    def close(self) -> None:
        """Close the stream; bytes that it has not accepted are lost."""
        self._reading = self._writing = False
        self._pending.clear()
        self.stream.close()

    def _on_readable(self) -> None:
        endpoint, link_id = self._endpoint, self.link_id
        now = began_s = monotonic()
        try:
            for _ in range(_READS_PER_WAKEUP):
                buffer = endpoint.receive_buffer(link_id)
                if len(buffer) > self._read_bytes:
                    buffer = buffer[: self._read_bytes]
                count = self.stream.read_into(buffer)
                if not count:
                    endpoint.link_eof(link_id, now)
                    break
                endpoint.link_received(link_id, count, now)
                self._pump()
                before_s, now = now, monotonic()
                took_s = now - before_s
                if took_s > _TURN_S or count >= self._read_bytes:
                    self._fit_reads(count, took_s)
                # another read may take as long as this one
                if count < len(buffer) or not self._reading or now - began_s + took_s > _TURN_S:
                    return
        except _WOULD_BLOCK:
            return
        except OSError as error:
            endpoint.link_failed(link_id, FaultReason.SOCKET, _text(error), now)
        except MemoryError:
            # A part of a frame may be lost now, so the bytes that follow cannot be interpreted.
            endpoint.link_failed(link_id, FaultReason.MEMORY, "for what the peer sends", now)
        self._pump()

    def _fit_reads(self, count: int, took_s: float) -> None:
        """Halve the reads if their handling takes too long; double them if it is fast.

        The size alone does not show the cost: a hundred bytes may be a message, or a part of one.
        """
        if took_s > _TURN_S:
            self._read_bytes = max(count // 2, _LEAST_READ_BYTES)
        elif count >= self._read_bytes and took_s < _TURN_S / 4:
            self._read_bytes *= 2

    def write(self, buffers: list[Buffer]) -> None:
        """Write buffers after those that are pending."""
        pending = self._pending
        if pending:
            pending.extend(buffers)
        elif len(buffers) == 1:
            self._write_one(buffers)
        else:
            pending.extend(buffers)
            self._write_some()
            if pending:
                self._await_writable(wanted=True)

    def _write_one(self, buffers: list[Buffer]) -> None:
        """Write a single buffer with nothing before it: nearly always it leaves at once, without the queue."""
        (buffer,) = buffers
        written = 0
        try:
            written = self.stream.write(buffers)
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            self._break(error)
            return
        if written:
            self._endpoint.link_written(self.link_id, written, monotonic())
        if written < len(buffer):
            self._pending.append(memoryview(buffer)[written:])
            self._await_writable(wanted=True)

    def _on_writable(self) -> None:
        self._write_some()
        self._pump()  # the host may build more frames now
        if not self._pending:
            self._await_writable(wanted=False)

    def _await_writable(self, *, wanted: bool) -> None:
        if wanted is not self._writing:
            self.stream.watch_writes(self._on_writable if wanted else None)
        self._writing = wanted

    def _write_some(self) -> None:
        """Write what the stream accepts, and report it to the host."""
        pending, written = self._pending, 0
        try:
            while pending:
                count = self.stream.write(pending)
                written += count
                while pending and count >= len(pending[0]):
                    count -= len(pending.popleft())
                if count:  # the stream is full
                    pending[0] = memoryview(pending[0])[count:]
                    break
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            pending.clear()
            self._break(error)
        if written:
            self._endpoint.link_written(self.link_id, written, monotonic())

    def _break(self, error: OSError) -> None:
        # The core must not be re-entered while it is being drained.
        self.stream.loop.call_soon(self._failed, _text(error))

    def _failed(self, detail: str) -> None:
        self._endpoint.link_failed(self.link_id, FaultReason.SOCKET, detail, monotonic())
        self._pump()


def _text(error: OSError) -> str:
    return error.strerror or str(error)
