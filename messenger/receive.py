"""Buffers in which received bytes stay until they make a complete frame."""

from messenger.pool import BufferPool, untouched

SCRATCH_BYTES = 256 * 1024
OWN_BUFFER_BYTES = 32 * 1024
"""Frames from this size on get a buffer of their own as soon as their head is known."""
_READ_AHEAD_BYTES = SCRATCH_BYTES + 16 * 1024
"""Size of such a buffer if the frame is shorter: what comes behind it is read together with it.

Payloads of a power of two fill it with whole frames, headers and all, so that little of the last one is copied.
"""
_NEW_BYTES = 1024 * 1024
_NEW_BYTES_OF_STRANGERS = 8 * 1024
"""Largest new buffer for a frame of which only the head has arrived; it grows as the frame does."""
_GROWTH = 4


class ReceiveBuffer:
    """One link's view of its unprocessed bytes."""

    __slots__ = ("_filled", "_most_bytes", "_own", "_pool", "_rest", "_scratch", "_start")

    def __init__(self, scratch: memoryview, pool: BufferPool) -> None:
        self._scratch = scratch
        self._pool = pool
        self._rest = b""
        self._own: memoryview | None = None
        # The unprocessed part of the own buffer.
        self._start = 0
        self._filled = 0
        self._most_bytes: int | None = None

    @property
    def held_bytes(self) -> int:
        """Memory this link holds beyond the shared scratch buffer."""
        return len(self._rest) if self._own is None else len(self._own)

    @property
    def pending_bytes(self) -> int:
        """Bytes that have arrived and wait for the rest of their frame, or for the link to be read on."""
        return len(self._rest) if self._own is None else self._filled - self._start

    def writable(self) -> memoryview:
        """The buffer into which the transport may read the next bytes."""
        if self._own is not None:
            return self._own[self._filled :][: self._most_bytes]
        return self._scratch[len(self._rest) :] if self._rest else self._scratch

    def read_slowly(self, *, slowly: bool = True) -> None:
        """Read at most :data:`OWN_BUFFER_BYTES` of a large frame at a time, or no longer so."""
        self._most_bytes = OWN_BUFFER_BYTES if slowly else None

    def received(self, count: int) -> tuple[memoryview, int, int, bool]:
        """The bytes received so far, ``count`` new ones included; only those given to :meth:`keep` are kept.

        Returns:
            The buffer, start and end of the bytes in it, and whether it is the link's own.
        """
        own = self._own
        if own is not None:
            self._own = None
            return own, self._start, self._filled + count, True
        rest = self._rest
        if not rest:
            return self._scratch, 0, count, False
        self._rest = b""
        if not count:
            return memoryview(rest), 0, len(rest), False
        self._scratch[: len(rest)] = rest
        return self._scratch, 0, len(rest) + count, False

    def clear(self) -> None:
        """Free what is kept: the link is closed, and may itself stay in memory for long, as a part of a cycle."""
        self._rest = b""
        self._own = None

    def move_to(self, scratch: memoryview, pool: BufferPool) -> None:
        """Use another scratch buffer and pool from now on; bytes that are kept stay where they are."""
        self._scratch = scratch
        self._pool = pool

    def hold(self, chunk: memoryview) -> None:
        """Keep bytes that arrived although reading is paused."""
        if self._own is not None:
            self._rest = bytes(self._own[self._start : self._filled])
            self._own = None
        self._rest += chunk

    def keep(self, view: memoryview, start: int, end: int, needed: int, *, owned: bool, ahead: bool) -> None:
        """Keep ``view[start:end]`` for the next read.

        Args:
            view: what :meth:`received` returned.
            start: where the incomplete frame begins.
            end: where the received bytes end.
            needed: size of the frame, 0 if it is not known.
            owned: what :meth:`received` returned.
            ahead: the peer has authenticated: read beyond the frame's end, if it gets a buffer of its own.
        """
        fits = start + (needed or OWN_BUFFER_BYTES) <= len(view)
        if owned and (fits or (start == 0 and end < len(view))):
            self._own, self._start, self._filled = view, start, end
        elif needed >= OWN_BUFFER_BYTES:
            count = end - start
            if ahead:
                own = self._pool.take(max(needed, _READ_AHEAD_BYTES), max(_GROWTH * count, _NEW_BYTES))
            else:
                # Neither from the pool nor from malloc: what they keep of a crowd of strangers may lie above the
                # memory that the crowd frees, which then stays with the process.
                own = memoryview(untouched(min(needed, max(_GROWTH * count, _NEW_BYTES_OF_STRANGERS))))
            own[:count] = view[start:end]
            self._own, self._start, self._filled = own, 0, count
        else:
            self._rest = bytes(view[start:end])
