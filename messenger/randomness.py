"""The source of random numbers, which is injected into the core so that a seed reproduces a run."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class RandomSource(Protocol):
    """The methods that the core uses of a generator; ``random.Random`` and ``random.SystemRandom`` have them."""

    def getrandbits(self, bits: int, /) -> int:
        """A uniform integer in [0, ``2 ** bits``)."""

    def randbytes(self, size: int, /) -> bytes:
        """``size`` uniform bytes."""


def nonzero_u64(rng: RandomSource) -> int:
    """A uniform number in [1, 2^64 - 1], for cookies and challenges: 0 is unset (docs/protocol.md §4.9, §5.4)."""
    while True:
        value = rng.getrandbits(64)
        if value:
            return value
