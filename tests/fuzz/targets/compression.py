"""Segments that a peer compressed (docs/protocol.md §4.10).

An input is the algorithm, a limit (u16) and a compressed segment.
"""

from collections.abc import Iterator

from messenger.errors import PeerError
from messenger.v2.compressor import Algorithm, new_compressor
from tests.fuzz.target import BrokenPromise, Cursor, Target, require_same

_ALGORITHMS = tuple(algorithm for algorithm in Algorithm if algorithm is not Algorithm.NONE)


def run(data: bytes) -> None:
    """Restore a segment within the limit; what was restored survives being compressed."""
    cursor = Cursor(data)
    compressor = new_compressor(_ALGORITHMS[cursor.number() % len(_ALGORITHMS)])
    limit, segment = cursor.number(2), cursor.rest()
    if not segment:
        return  # empty segments are not compressed
    try:
        plain = compressor.decompress(memoryview(segment), limit)
    except PeerError:
        return
    if len(plain) > limit:
        raise BrokenPromise(f"{len(plain)} bytes restored, the limit is {limit}")
    if not plain:
        return
    packed = compressor.compress(plain)
    if packed is not None:
        require_same("compressed and restored", bytes(compressor.decompress(packed, limit)), bytes(plain))


def seeds() -> Iterator[bytes]:
    """Short, repetitive and hardly compressible segments of every algorithm, within and beyond the limit."""
    plains = (b"a", b"abc" * 60, bytes(range(256)))
    for number, algorithm in enumerate(_ALGORITHMS):
        packed = [new_compressor(algorithm).compress(plain) for plain in plains]
        yield from (bytes([number]) + b"\0\4" + segment for segment in packed if segment)
        yield from (bytes([number]) + b"\x60\0" + segment for segment in packed[1:2] if segment)
    number = _ALGORITHMS.index(Algorithm.LZ4)
    yield bytes([number]) + b"\0\4\2\0\0\0" + bytes([1, 0, 0, 0, 2, 0, 0, 0] * 2) + b"\x10a\x10b"


TARGETS = (Target(name="compression", run=run, seeds=seeds, allowance_bytes=512 << 10, max_bytes=400),)
