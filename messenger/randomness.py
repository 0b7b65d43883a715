"""The one source of randomness the core accepts: injected, so that a seed replays a run."""

from typing import Protocol


class RandomSource(Protocol):
    """What the core needs of a generator; ``random.Random`` and ``random.SystemRandom`` both fit."""

    def getrandbits(self, bits: int, /) -> int:
        """A uniform integer below ``2 ** bits``."""

    def randbytes(self, size: int, /) -> bytes:
        """``size`` uniform bytes."""


def nonzero_u64(rng: RandomSource) -> int:
    """Uniform in [1, 2^64 - 1]: cookies and challenges, where 0 means unset (docs/protocol.md §4.9, §5.4)."""
    while True:
        value = rng.getrandbits(64)
        if value:
            return value
