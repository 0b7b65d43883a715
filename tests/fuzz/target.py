"""Fuzz targets, and the promises that every target checks.

A target is a function over bytes. It returns if the parser behind it kept its promises for these bytes, and
raises otherwise: :class:`BrokenPromise`, or the exception that escaped from the parser. The promises: a value, a
request for more bytes, or the one documented error; the same result for every way of cutting the bytes; no more
memory than the input justifies.
"""

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")

KIB = 1024
_SINGLE_BYTES = 40
"""How much of a stream is played byte by byte; the rest follows in one piece."""
_LONGEST_PIECE = 61
_MOST_PIECES = 512


class BrokenPromise(AssertionError):
    """A parser did what it must not do, or two of its results differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser, or a family of them."""

    name: str
    run: Callable[[bytes], int | None]
    """Returns how many bytes the parser was given, where that is not the length of the input."""
    seeds: Callable[[], Iterable[bytes]]
    """Inputs from real captures and from our own encoders and endpoints, to begin with."""
    allowance_bytes: int = 256 * KIB
    """Memory a run may take whatever its input: objects of the harness, an endpoint."""
    bytes_per_byte: int = 256
    """Memory a run may take on top for each byte that the parser is given: the objects decoded from it."""
    label: Callable[[bytes], object] = lambda _data: None
    """What kind of input this is, where one piece of code serves many: each kind keeps inputs in the corpus."""
    coarse: bool = False
    """In the corpus it does not count how often something was done: a run is slow, or does the same many times."""
    mutations: int = 400
    """How many changed inputs a replay of the corpus tries."""
    max_bytes: int = 2 * KIB
    """Longest input that fuzzing tries."""


def run_checked(target: Target, data: bytes) -> None:
    """Run a target and hold it to its memory limit; :mod:`tracemalloc` must be tracing.

    Raises:
        BrokenPromise: more memory was taken than the input deserves.
        Exception: whatever the target raises.
    """
    taken_bytes, size, limit = _measured(target, data)
    if taken_bytes > limit:
        # what is made once, and kept for all that follow, is not this input's
        taken_bytes, size, limit = _measured(target, data)
    if taken_bytes > limit:
        raise BrokenPromise(f"{taken_bytes} bytes of memory for {size} bytes, the limit is {limit}")


def _measured(target: Target, data: bytes) -> tuple[int, int, int]:
    """The memory that a run takes, the size that it is for, and what that may take; all in bytes."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    given = target.run(data)
    _, peak = tracemalloc.get_traced_memory()
    size = len(data) if given is None else given
    return peak - before, size, target.allowance_bytes + target.bytes_per_byte * size


def require_same(what: str, one: object, other: object) -> None:
    """Two results that must be equal; a NaN in them, which equals nothing, must be in both."""
    if one != other and repr(one) != repr(other):
        raise BrokenPromise(f"{what}:\n  {one!r}\n  {other!r}")


Cut = Callable[[bytes], list[bytes]]
"""Cuts what goes over a wire into the pieces that arrive."""


def whole(raw: bytes) -> list[bytes]:
    """Not cut at all."""
    return [raw]


def _cut_by_content(raw: bytes) -> list[bytes]:
    pieces, start = [], 0
    unit = 1 + len(raw) // _MOST_PIECES
    while start < len(raw):
        stop = start + unit * (1 + raw[start] % _LONGEST_PIECE)
        pieces.append(raw[start:stop])
        start = stop
    return pieces


def _byte_by_byte(raw: bytes) -> list[bytes]:
    singles = [raw[at : at + 1] for at in range(min(_SINGLE_BYTES, len(raw)))]
    return [*singles, raw[_SINGLE_BYTES:]] if len(raw) > _SINGLE_BYTES else singles


def same_for_every_cut(play: Callable[[Cut], T]) -> T:
    """Return what ``play`` observes; it must be the same for every way of cutting the bytes on its wires.

    Raises:
        BrokenPromise: it is not the same.
    """
    observed = play(whole)
    for cut in (_cut_by_content, _byte_by_byte):
        require_same(f"cut {cut.__name__.strip('_')}, and whole", play(cut), observed)
    return observed


def require_stable(value: V, encode: Callable[[V], bytes], decode: Callable[[bytes], V], *, lossy: bool) -> None:
    """A value survives the way over the wire: what comes back is the same, and is encoded the same.

    Args:
        value: was decoded.
        encode: gives its encoding.
        decode: gives a value for an encoding.
        lossy: the encoding cannot carry all that a value may hold. Only what came back twice must come back again:
            an address loses its type first, and therefore the rest of itself next.
    """
    for _ in range(2 * lossy):
        value = decode(encode(value))
    encoding = encode(value)
    back = decode(encoding)
    require_same("the encoding, and that of what it decodes to", encode(back), encoding)
    require_same("what came back, and what was encoded", back, value)


class Cursor:
    """Takes choices and byte strings off the front of an input; where nothing is left, zeros and nothing."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._data)

    def number(self, size_bytes: int = 1) -> int:
        """A little-endian number of that size."""
        return int.from_bytes(self.take(size_bytes), "little")

    def take(self, size_bytes: int) -> bytes:
        """Take this many bytes, or those that are left."""
        start = self._position
        self._position = min(start + size_bytes, len(self._data))
        return self._data[start : self._position]

    def counted(self, size_bytes: int = 1) -> bytes:
        """A byte string behind its length, a number of that size."""
        return self.take(self.number(size_bytes))

    def rest(self) -> bytes:
        """Everything left."""
        return self.take(len(self._data))
