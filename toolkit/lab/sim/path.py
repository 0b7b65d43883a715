"""The way from one host to another: what the network does to everything that goes along it."""

from collections import deque
from collections.abc import Callable
from random import Random

_LEAST_LATENCY_S = 0.0002
_LATENCY_SPAN_S = 0.0018
_RETRANSMISSION_S = 0.2
"""What is lost comes that much later, and twice that if it is lost again."""


class Path:
    """One direction between two hosts.

    Args:
        rng: decides latencies.
    """

    __slots__ = (
        *("_random", "blocked", "bytes_per_s", "delay_s", "dial_delays_s"),
        *("jitter_s", "loss", "refused", "waiting"),
    )

    def __init__(self, rng: Random) -> None:
        self._random: Callable[[], float] = rng.random
        self.waiting: list[Callable[[], None]] = []
        """What to do about dials that are not answered because the path, or the one back, is blocked."""
        self.dial_delays_s: deque[float] = deque()
        """How much later the next dials arrive, one each."""
        self.mend()

    def mend(self) -> None:
        """As good as new; what waits is the network's business."""
        self.blocked = False
        self.refused = False
        self.bytes_per_s = 0.0
        """How fast the host at its end reads; 0: at once."""
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.loss = 0.0
        """Which part of the packets is lost; TCP sends them again."""
        self.dial_delays_s.clear()

    def latency(self) -> float:
        """How long the next thing that is sent is on its way."""
        latency_s = _LEAST_LATENCY_S + _LATENCY_SPAN_S * self._random()
        if self.delay_s or self.jitter_s:
            latency_s += self.delay_s + self.jitter_s * self._random()
        if self.loss:
            again_s = _RETRANSMISSION_S
            while self._random() < self.loss:
                latency_s += again_s
                again_s *= 2
        return latency_s
