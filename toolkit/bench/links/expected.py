"""What states of a link should do to packets, from the definitions of their keys (docs/links.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.network.distributions import SCALE, table
from toolkit.network.state import FourStates, GilbertElliott, LinkState

_STEPS = 400
"""Steps after which a chain of states has forgotten where it began."""
SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Expected:
    """A range of values."""

    value: float
    least: float
    most: float

    def has(self, found: float) -> bool:
        """True if a measured value is in the range."""
        return self.least <= found <= self.most


def share(percent: float, packets: int, *, inflation: float = 1.0, less: float = 0.0) -> Expected:
    """Return the range of a percentage of packets: three standard deviations to both sides.

    Args:
        percent: its mean.
        packets: number of packets.
        inflation: variance of the sum, divided by that of independent packets.
        less: part of the mean by which the value may also be smaller.
    """
    part = percent / 100
    spread = SIGMAS * 100 * math.sqrt(part * (1 - part) * inflation / packets)
    return Expected(percent, percent * (1 - less) - spread, percent + spread)


def losses(state: LinkState, packets: int) -> Expected:
    """Return the percentage of lost packets of a model with states: its mean in a long run, and its range."""
    loss = state.loss
    if isinstance(loss, GilbertElliott):
        to_bad, to_good = loss.to_bad_percent / 100, loss.to_good_percent / 100
        ways = [[1 - to_bad, to_bad], [to_good, 1 - to_good]]
        lost = [loss.good_loss_percent / 100, loss.bad_loss_percent / 100]
    else:
        assert isinstance(loss, FourStates)
        p13, p31, p32 = loss.p13 / 100, loss.p31 / 100, loss.p32 / 100
        p23, p14 = loss.p23 / 100, loss.p14 / 100
        ways = [[1 - p13 - p14, 0, p13, p14], [0, 1 - p23, p23, 0], [p31, p32, 1 - p31 - p32, 0], [1, 0, 0, 0]]
        lost = [0.0, 0.0, 1.0, 1.0]
    in_state = [1.0] + [0.0] * (len(ways) - 1)
    for _ in range(_STEPS):
        in_state = _step(in_state, ways)
    mean = sum(part * each for part, each in zip(in_state, lost, strict=True))
    variance = mean * (1 - mean)
    after = [part * each for part, each in zip(in_state, lost, strict=True)]  # a loss now, by state
    total = variance
    for _ in range(_STEPS):
        after = _step(after, ways)
        total += 2 * (sum(part * each for part, each in zip(after, lost, strict=True)) - mean * mean)
    return share(mean * 100, packets, inflation=total / variance)


def _step(parts: Sequence[float], ways: Sequence[Sequence[float]]) -> list[float]:
    return [sum(part * row[to] for part, row in zip(parts, ways, strict=True)) for to in range(len(ways))]


def quantile_ms(state: LinkState, part: float) -> float:
    """Return a quantile of the delay with its jitter, in milliseconds."""
    entries = table(state.distribution)
    deviation = entries[min(len(entries) - 1, int(part * len(entries)))] / SCALE
    return max(0.0, state.delay_ms + state.jitter_ms * deviation)
