"""The primitive encodings themselves: any sequence of reads over any bytes (docs/protocol.md §1.1, §1.2).

An input is a counted list of operations, one a byte, and the bytes they read from.
"""

from collections.abc import Callable, Iterator
from typing import Any

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError
from messenger.messages.fields import decode_paxos, decode_uuid, encode_uuid
from tests.fuzz.target import BrokenPromise, Cursor, Target

Operation = tuple[Callable[[Decoder], Any], Callable[[Encoder, Any], None] | None]
"""A read, and the write that must give the same bytes; None where several encodings mean the same."""


def _read_versioned(decoder: Decoder) -> tuple[int, bytes]:
    body = decoder.versioned(9)
    return body.struct_v, body.rest()


OPERATIONS: tuple[Operation, ...] = (
    (Decoder.u8, Encoder.u8),
    (Decoder.u16, Encoder.u16),
    (Decoder.u32, Encoder.u32),
    (Decoder.u64, Encoder.u64),
    (Decoder.i8, Encoder.i8),
    (Decoder.i16, Encoder.i16),
    (Decoder.i32, Encoder.i32),
    (Decoder.i64, Encoder.i64),
    (Decoder.f64, None),
    (Decoder.boolean, None),
    (Decoder.blob, Encoder.blob),
    (Decoder.string, Encoder.string),
    (lambda d: d.sequence(d.u16, 2), lambda e, v: e.sequence(v, e.u16)),
    (lambda d: d.sequence(d.string, 4), lambda e, v: e.sequence(v, e.string)),
    (lambda d: d.mapping(d.u8, d.u8, 2), None),
    (lambda d: d.mapping(d.string, d.blob, 8), None),
    (_read_versioned, None),
    (lambda d: d.skip(d.u16()), None),
    (lambda d: d.raw(d.u8()), None),
    (decode_uuid, encode_uuid),
    (decode_paxos, None),
)


def run(data: bytes) -> None:
    """Read values as the operations select, and write back what was read."""
    cursor = Cursor(data)
    operations, encoding = cursor.counted(), cursor.rest()
    decoder = Decoder(encoding)
    for number in operations:
        read, write = OPERATIONS[number % len(OPERATIONS)]
        start = len(encoding) - decoder.remaining
        try:
            value = read(decoder)
        except DecodeError:
            return
        stop = len(encoding) - decoder.remaining
        if not start <= stop <= len(encoding):
            raise BrokenPromise(f"read from {start} to {stop} of {len(encoding)}")
        if write is not None:
            encoder = Encoder()
            write(encoder, value)
            if encoder.getvalue() != encoding[start:stop]:
                raise BrokenPromise(f"{encoding[start:stop].hex()} read as {value!r}, written otherwise")


def seeds() -> Iterator[bytes]:
    """Every operation over zeros, and over what begins with a length that fits."""
    for number in range(len(OPERATIONS)):
        yield bytes([1, number]) + bytes(24)
        yield bytes([2, number, 0]) + b"\2\0\0\0" + bytes([1, 0, 0, 0] * 5)
    yield bytes([len(OPERATIONS), *range(len(OPERATIONS)), 1, 1, 4, 0, 0, 0]) + bytes(200)


TARGETS = (Target(name="codec", run=run, seeds=seeds, max_bytes=400),)
