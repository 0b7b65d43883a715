"""Where received bytes lie until they make a whole frame.

All links of an endpoint read through one reused scratch buffer; what a read leaves incomplete is kept per link:
a short rest by copying it, a large frame by giving it a buffer of its own, into which the transport then reads
directly and out of which the payload is never copied again.
"""

SCRATCH_BYTES = 256 * 1024
OWN_BUFFER_BYTES = 32 * 1024
"""Frames from this size on get a buffer of their own as soon as their head is known."""


class ReceiveBuffer:
    """One link's view of its unprocessed bytes."""

    __slots__ = ("_filled", "_own", "_rest", "_scratch")

    def __init__(self, scratch: memoryview) -> None:
        self._scratch = scratch
        self._rest = b""
        self._own: memoryview | None = None
        self._filled = 0  # bytes already in the own buffer

    @property
    def held_bytes(self) -> int:
        """Memory this link holds beyond the shared scratch buffer."""
        return len(self._rest) if self._own is None else len(self._own)

    def writable(self) -> memoryview:
        """Where the transport may write the next bytes."""
        if self._own is not None:
            return self._own[self._filled :]
        return self._scratch[len(self._rest) :]

    def received(self, count: int) -> tuple[memoryview, int, bool]:
        """The buffer, the end of what is in it, and whether it is the link's own, after ``count`` new bytes."""
        if self._own is not None:
            self._filled += count
            return self._own, self._filled, True
        rest = self._rest
        if not count:
            return memoryview(rest), len(rest), False
        if rest:
            self._scratch[: len(rest)] = rest
        return self._scratch, len(rest) + count, False

    def move_to(self, scratch: memoryview) -> None:
        """Read through another scratch buffer from now on; what is kept stays."""
        self._scratch = scratch

    def hold(self, chunk: memoryview) -> None:
        """Keep bytes that arrived although reading is paused."""
        if self._own is not None:
            self._rest = bytes(self._own[: self._filled])
            self._own = None
        self._rest += chunk

    def keep(self, view: memoryview, start: int, end: int, needed: int) -> None:
        """Keep ``view[start:end]`` for the next read; ``needed`` is the size of the frame it begins, or 0."""
        if self._own is not None and start == 0:
            return
        self._own = None
        if start == end:
            self._rest = b""
        elif needed >= OWN_BUFFER_BYTES:
            own = memoryview(bytearray(needed))
            own[: end - start] = view[start:end]
            self._own, self._filled = own, end - start
        else:
            self._rest = bytes(view[start:end])

    def drop(self) -> None:
        """Forget everything."""
        self._rest = b""
        self._own = None
