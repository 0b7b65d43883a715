"""Changes of an input that a replay tries besides the input itself."""

from collections.abc import Iterator, Sequence
from random import Random

_EXTREMES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)


def changed(inputs: Sequence[bytes], count: int, rng: Random) -> Iterator[bytes]:
    """``count`` inputs: truncations, flipped bits, telling bytes and numbers, and two inputs spliced."""
    usable = [data for data in inputs if data]
    for _ in range(count if usable else 0):
        data = rng.choice(usable)
        yield rng.choice(_CHANGES)(data, rng.choice(usable), rng)


def _truncated(data: bytes, _other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _bit_flipped(data: bytes, _other: bytes, rng: Random) -> bytes:
    return _with(data, rng.randrange(len(data)), lambda byte: byte ^ 1 << rng.randrange(8))


def _extreme_byte(data: bytes, _other: bytes, rng: Random) -> bytes:
    return _with(data, rng.randrange(len(data)), lambda _byte: rng.choice(_EXTREMES))


def _huge_number(data: bytes, _other: bytes, rng: Random) -> bytes:
    """Four bytes that may be a length or a count become an enormous one."""
    at = rng.randrange(len(data))
    return data[:at] + rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x40")) + data[at + 4 :]


def _spliced(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


_CHANGES = (_truncated, _truncated, _bit_flipped, _bit_flipped, _extreme_byte, _huge_number, _spliced)


def _with(data: bytes, at: int, change) -> bytes:
    return data[:at] + bytes([change(data[at])]) + data[at + 1 :]
