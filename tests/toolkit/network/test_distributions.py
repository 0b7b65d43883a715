from statistics import fmean, pstdev

import pytest

from toolkit.network.distributions import ENTRIES, SCALE, table
from toolkit.network.state import Distribution


@pytest.mark.parametrize("distribution", ["uniform", "normal", "pareto", "paretonormal"])
def test_tables_are_quantiles_that_the_kernel_takes(distribution: Distribution) -> None:
    entries = table(distribution)
    assert len(entries) == ENTRIES <= 16384
    assert list(entries) == sorted(entries)
    assert entries[0] >= -32768
    assert entries[-1] <= 32767


@pytest.mark.parametrize("distribution", ["normal", "pareto", "paretonormal"])
def test_mean_and_deviation(distribution: Distribution) -> None:
    entries = table(distribution)
    assert fmean(entries) == pytest.approx(0, abs=0.05 * SCALE)
    assert pstdev(entries) == pytest.approx(SCALE, rel=0.25)


def test_uniform_is_as_wide_as_the_jitter_either_way() -> None:
    entries = table("uniform")
    assert entries[0] == pytest.approx(-SCALE, abs=2)
    assert entries[-1] == pytest.approx(SCALE, abs=2)


def test_the_normal_distribution_has_its_quantiles() -> None:
    entries = table("normal")
    for share, sigma in ((0.5, 0.0), (0.841345, 1.0), (0.977250, 2.0), (0.158655, -1.0)):
        assert entries[int(share * ENTRIES)] / SCALE == pytest.approx(sigma, abs=0.01)


def test_pareto_has_a_long_tail_on_one_side() -> None:
    entries = table("pareto")
    assert entries[0] > -SCALE
    assert entries[-1] == 32767
    assert sum(entry < 0 for entry in entries) > ENTRIES * 0.6
