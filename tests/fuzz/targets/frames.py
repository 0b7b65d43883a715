"""Frames of either mode, cut out of a byte stream as a link does it (docs/protocol.md §4.4, §4.5).

An input is a byte of options and a script: each step is raw bytes, or a frame made from its parts with good
crcs (and sealed, in secure mode) so that fuzzing gets behind them. Options: bit 0, a small limit; bit 1,
corrupt one byte of the stream, at the u16 that follows.
"""

from collections.abc import Iterator
from functools import partial

from messenger.cephx.exchange import ConMode
from messenger.receive import SCRATCH_BYTES
from tests.fuzz.receiving import read
from tests.fuzz.seeds import conversation, one_way
from tests.fuzz.target import KIB, Cursor, Target, same_for_every_cut
from tests.support.frames import BUILDERS, HEADER, message, plain, preamble, reader, writer
from toolkit.dissect.direction import Direction

_LIMITS = (160 * KIB, 512)
_MOST_STEPS = 16
_RAW, _CONTROL, _MESSAGE, _PARTS = range(4)


def stream(mode: str, cursor: Cursor) -> bytes:
    """The bytes that a script stands for."""
    out, frames = bytearray(), writer(mode)
    for _ in range(_MOST_STEPS):
        if not cursor:
            break
        kind = cursor.number() % 4
        if kind == _RAW:
            out += cursor.counted(2)
        elif kind == _CONTROL:
            out += frames.control(cursor.number(), cursor.counted())
        elif kind == _MESSAGE:
            front, middle, data = cursor.counted(), cursor.counted(), cursor.counted()
            # Stretched beyond where frames get buffers of their own, and parts of them stay slices.
            out += message(frames, HEADER, front, middle, data * (2 * cursor.number() + 1))
        else:
            out += _from_parts(mode, cursor)
    return bytes(out)


def _from_parts(mode: str, cursor: Cursor) -> bytes:
    """Return one frame with an arbitrary preamble. Sealed ones fit the first place in the stream only."""
    tag, segments, flags, status = (cursor.number() for _ in range(4))
    lengths = tuple(cursor.number(cursor.number() % 5) for _ in range(4))
    head = preamble(tag, lengths, segments=segments, flags=flags)
    first = cursor.counted()[:48] if mode == "secure" else cursor.counted()
    rest = tuple(cursor.counted() for _ in range(3))
    return BUILDERS[mode](head, first, rest[: cursor.number() % 4], status)


def run(mode: str, data: bytes) -> int:
    """Read a stream in every way it may be cut."""
    cursor = Cursor(data)
    options = cursor.number()
    spoilt = cursor.number(2) if options & 2 else 0
    raw = bytearray(stream(mode, cursor))
    if options & 2 and raw:
        raw[spoilt % len(raw)] ^= 1 + options % 255
    limit = _LIMITS[options & 1]
    same_for_every_cut(lambda cut: read(reader(mode, limit), bytes(raw), cut, plain, limit))
    return len(raw)


def raw_step(raw: bytes) -> bytes:
    """A step of the script that is just these bytes."""
    return bytes([_RAW]) + len(raw).to_bytes(2, "little") + raw


def seeds(mode: str) -> Iterator[bytes]:
    """Frames of every make, and in crc mode a real conversation."""
    control = bytes([_CONTROL, 18, 8]) + bytes(8)
    of_message = bytes([_MESSAGE, 3]) + b"abc" + bytes([0, 2]) + b"xy"
    parts = bytes([_PARTS, 17, 2, 0, 14, 1, 41, 1, 3, 0, 0, 41]) + HEADER + b"\3abc\0\0\1"
    for options in (b"\0", b"\1", b"\2\5\0", b"\2\x30\0"):
        yield options + control + of_message + b"\0" + control
        yield options + of_message + b"\xff" + control
        yield options + bytes([_MESSAGE, 3]) + b"abc" + bytes([0, 130]) + bytes(130) + b"\xff" + control
        yield options + parts + control
    yield b"\0" + bytes([_PARTS, 17, 1, 0, 14, 4]) + b"\xff\xff\xff\xff" + bytes(3)
    yield b"\0" + bytes([_PARTS, 17, 4, 0, 1, 1, 41, 1, 1, 0, 1, 2, 41]) + HEADER + b"\1a\0\2bc\3"
    if mode == "crc":
        raw = one_way(conversation("none", ConMode.CRC), Direction.TO_SERVER)
        yield b"\0" + raw_step(raw[26:])


TARGETS = tuple(
    Target(
        name="frames-" + mode.replace(" ", "-"),
        run=partial(run, mode),
        seeds=partial(seeds, mode),
        allowance_bytes=8 * SCRATCH_BYTES,
        bytes_per_byte=16,
        mutations=250,
        max_bytes=600,
    )
    for mode in BUILDERS
)
