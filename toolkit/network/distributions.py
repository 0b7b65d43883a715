"""Distributions of the jitter, as tables of quantiles: what netem in the kernel takes, and the wire uses as well.

An entry is a deviation from the mean in 8192ths of the jitter, so that four times the jitter either way is the
most that a table can say; a random number picks an entry. All have mean 0 and, but for uniform, deviation 1
(a Pareto distribution loses some of both where it is cut off).
"""

from functools import cache
from statistics import NormalDist, fmean, pstdev

from toolkit.network.state import Distribution

SCALE = 8192
ENTRIES = 4096
_LEAST, _MOST = -32768, 32767
_SHAPE = 3.0
"""Of the Pareto distribution; its variance exists, its skewness does not."""
_NORMAL_SHARE = 0.25
"""Of paretonormal; the rest is Pareto."""


@cache
def table(distribution: Distribution) -> tuple[int, ...]:
    """Entries in ascending order."""
    shares = [(entry + 0.5) / ENTRIES for entry in range(ENTRIES)]
    if distribution == "uniform":
        return tuple(round((2 * share - 1) * SCALE) for share in shares)
    normal = list(map(NormalDist().inv_cdf, shares))
    pareto = _standard([(1 - share) ** (-1 / _SHAPE) for share in shares])
    quantiles = {
        "normal": normal,
        "pareto": pareto,
        "paretonormal": [
            _NORMAL_SHARE * one + (1 - _NORMAL_SHARE) * other for one, other in zip(normal, pareto, strict=True)
        ],
    }[distribution]
    return tuple(min(_MOST, max(_LEAST, round(value * SCALE))) for value in _standard(quantiles))


def _standard(quantiles: list[float]) -> list[float]:
    """The same distribution with mean 0 and deviation 1."""
    mean, deviation = fmean(quantiles), pstdev(quantiles)
    return [(value - mean) / deviation for value in quantiles]
