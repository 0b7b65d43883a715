"""A byte stream read as a link reads it: through the shared scratch buffer, or into a large frame's own."""

from collections.abc import Callable
from typing import Any, Protocol

from messenger.errors import PeerError
from messenger.pool import BufferPool
from messenger.receive import SCRATCH_BYTES, ReceiveBuffer
from tests.fuzz.target import KIB, BrokenPromise, Cut

READ_AHEAD_BYTES = SCRATCH_BYTES + 16 * KIB
"""How large a link's own buffer may be, however short its frame."""


class Reader(Protocol):
    """The common part of the readers of all protocols."""

    needed: int

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Any: ...


def read(reader: Reader, raw: bytes, cut: Cut, plain: Callable[[Any], object], limit_bytes: int) -> list[object]:
    """The frames of a stream, and the verdict on the rest of it.

    Frames are looked at only when all have been read: what they are slices of must not be used for others.
    """
    buffer = ReceiveBuffer(memoryview(bytearray(SCRATCH_BYTES)), BufferPool())
    frames: list[Any] = []
    last: list[object] = []
    try:
        for piece in cut(raw):
            _receive(reader, buffer, piece, frames, max(limit_bytes, READ_AHEAD_BYTES))
    except PeerError as error:
        last.append((error.reason, error.detail))
    return [*map(plain, frames), *last]


def _receive(reader: Reader, buffer: ReceiveBuffer, piece: bytes, frames: list[Any], limit_bytes: int) -> None:
    while piece:
        space = buffer.writable()
        count = min(len(space), len(piece))
        if not count:
            raise BrokenPromise("there is no room for the next byte")
        space[:count] = piece[:count]
        piece = piece[count:]
        view, start, end, owned = buffer.received(count)
        while start < end and (frame := reader.next_frame(view, start, end, owned=owned)) is not None:
            if not start < frame[0] <= end:
                raise BrokenPromise(f"a frame from {start} to {frame[0]}, received are {end}")
            frames.append(frame)
            start = frame[0]
        if start != end:
            buffer.keep(view, start, end, reader.needed, owned=owned, ahead=len(frames) % 2 == 1)
        if buffer.held_bytes > limit_bytes:
            raise BrokenPromise(f"{buffer.held_bytes} bytes held, the limit is {limit_bytes}")
