"""Distributions of the jitter as tables of quantiles, for netem in the kernel and for the wire.

An entry is a deviation from the mean in 8192ths of the jitter, so a table covers four times the jitter in either
direction; a random number selects an entry. All have mean 0 and, except uniform, standard deviation 1 (for a
Pareto distribution both are slightly off, because it is cut off).
"""

from functools import cache
from statistics import NormalDist, fmean, pstdev

from toolkit.network.state import Distribution

SCALE = 8192
ENTRIES = 4096
_LEAST, _MOST = -32768, 32767
_SHAPE = 3.0
"""Shape of the Pareto distribution; its variance exists, its skewness does not."""
_NORMAL_SHARE = 0.25
"""Weight of the normal part in paretonormal."""


@cache
def table(distribution: Distribution) -> tuple[int, ...]:
    """Return the entries in ascending order."""
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
    """Return the quantiles scaled to mean 0 and standard deviation 1."""
    mean, deviation = fmean(quantiles), pstdev(quantiles)
    return [(value - mean) / deviation for value in quantiles]
