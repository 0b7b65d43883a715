"""One direction between two hosts of the virtual network, with its faults."""

from collections import deque
from collections.abc import Callable
from random import Random

_LEAST_LATENCY_S = 0.0002
_LATENCY_SPAN_S = 0.0018
_RETRANSMISSION_S = 0.2
"""Extra delay in seconds of a lost packet; it doubles each time the packet is lost again."""


class Path:
    """One direction between two hosts.

    Args:
        rng: random source of latencies and losses.
    """

    __slots__ = (
        *("_random", "blocked", "bytes_per_s", "delay_s", "dial_delays_s"),
        *("jitter_s", "loss", "refused", "waiting"),
    )

    def __init__(self, rng: Random) -> None:
        self._random: Callable[[], float] = rng.random
        self.waiting: list[Callable[[], None]] = []
        """Callbacks of dials that have no answer because this path, or the one back, is blocked."""
        self.dial_delays_s: deque[float] = deque()
        """Extra delays in seconds of the next dials, one for each."""
        self.mend()

    def mend(self) -> None:
        """Undo every fault of the path; the network resumes what is held on it."""
        self.blocked = False
        self.refused = False
        self.bytes_per_s = 0.0
        """Rate at which the receiving host reads; 0: no limit."""
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.loss = 0.0
        """Fraction of packets that are lost, 0 to 1; TCP sends them again."""
        self.dial_delays_s.clear()

    def latency(self) -> float:
        """Draw the latency in seconds of the next packet."""
        latency_s = _LEAST_LATENCY_S + _LATENCY_SPAN_S * self._random()
        if self.delay_s or self.jitter_s:
            latency_s += self.delay_s + self.jitter_s * self._random()
        if self.loss:
            again_s = _RETRANSMISSION_S
            while self._random() < self.loss:
                latency_s += again_s
                again_s *= 2
        return latency_s
