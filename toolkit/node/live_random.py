"""Randomness of a messenger on real sockets: secrets of the system, faults that a seed repeats."""

from random import Random, SystemRandom

_SECRET_BITS = 64
"""Of challenges, nonces and cookies (docs/protocol.md §4.9, §5.4); keys and padding are drawn as bytes."""


class LiveRandom:
    """A :class:`messenger.randomness.RandomSource` for real sockets.

    The system draws everything that protects something. Shorter draws, which decide when an ``ms_inject_*`` option
    strikes and how long a pause lasts, come from the seed.

    Args:
        seed: of the faults.
    """

    def __init__(self, seed: str) -> None:
        self._faults = Random(seed)
        self._system = SystemRandom()

    def getrandbits(self, bits: int, /) -> int:
        """A uniform integer below ``2 ** bits``."""
        return (self._system if bits >= _SECRET_BITS else self._faults).getrandbits(bits)

    def randbytes(self, size: int, /) -> bytes:
        """``size`` uniform bytes, of the system."""
        return self._system.randbytes(size)
