"""Random numbers of a messenger on real sockets: secrets from the system, faults from a seed."""

from random import Random, SystemRandom

_SECRET_BITS = 64
"""Bits of challenges, nonces and cookies (docs/protocol.md §4.9, §5.4); keys and padding are drawn as bytes."""


class LiveRandom:
    """A :class:`messenger.randomness.RandomSource` for real sockets.

    Secrets are drawn from the system. Shorter draws, which decide when an ``ms_inject_*`` option strikes and how
    long a back-off lasts, come from the seed, so that a run can be repeated.

    Args:
        seed: seed of the shorter draws.
    """

    def __init__(self, seed: str) -> None:
        self._faults = Random(seed)
        self._system = SystemRandom()

    def getrandbits(self, bits: int, /) -> int:
        """Return a uniform integer below ``2 ** bits``."""
        return (self._system if bits >= _SECRET_BITS else self._faults).getrandbits(bits)

    def randbytes(self, size: int, /) -> bytes:
        """Return ``size`` uniform bytes from the system."""
        return self._system.randbytes(size)
