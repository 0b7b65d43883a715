from itertools import groupby, pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from toolkit.network.state import FourStates, GilbertElliott, RandomLoss
from toolkit.network.wire.chance import Event, correlated, event, losses

MANY = 100_000


def outcomes(happens: Event, count: int = MANY) -> list[bool]:
    return [happens() for _ in range(count)]


def bursts(lost: list[bool]) -> list[int]:
    return [len(list(run)) for is_lost, run in groupby(lost) if is_lost]


def correlation(values: list[float]) -> float:
    mean, deviation = fmean(values), pstdev(values)
    return fmean(((a - mean) * (b - mean)) for a, b in pairwise(values)) / deviation**2


@pytest.mark.parametrize("percent", [0, 0.5, 30, 100])
def test_event_has_the_given_probability(percent: float) -> None:
    assert fmean(outcomes(event(Random(1).random, percent, 0))) * 100 == pytest.approx(percent, rel=0.1)


def test_events_of_0_and_100_percent_are_exact() -> None:
    assert all(outcomes(event(Random(1).random, 100, 0)))
    assert all(outcomes(event(Random(1).random, 100, 90)))
    assert not any(outcomes(event(Random(1).random, 0, 0)))


@pytest.mark.parametrize("percent", [0, 25, 90])
def test_numbers_have_the_given_correlation(percent: float) -> None:
    number = correlated(Random(1).random, percent)
    values = [number() for _ in range(MANY)]
    assert correlation(values) == pytest.approx(percent / 100, abs=0.02)
    assert fmean(values) == pytest.approx(0.5, abs=0.01)


def test_correlated_losses_come_together() -> None:
    lost = outcomes(losses(Random(1).random, RandomLoss(percent=30, correlation_percent=60)))
    # With netem's way of correlating, fewer are lost than configured.
    assert 0.05 < fmean(lost) < 0.3
    assert fmean(bursts(lost)) > 1.3 / (1 - fmean(lost))


def test_gilbert_elliott_has_its_rate_and_its_bursts() -> None:
    model = GilbertElliott(to_bad_percent=2, to_good_percent=20)
    lost = outcomes(losses(Random(1).random, model))
    assert fmean(lost) == pytest.approx(2 / 22, rel=0.1)
    # All is lost in the bad state, which is left with a chance of 1 in 5 at every packet.
    assert fmean(bursts(lost)) == pytest.approx(5, rel=0.1)


def test_gilbert_elliott_loses_some_in_both_states() -> None:
    model = GilbertElliott(to_bad_percent=10, to_good_percent=10, bad_loss_percent=60, good_loss_percent=4)
    assert fmean(outcomes(losses(Random(1).random, model))) == pytest.approx(0.32, rel=0.05)


def test_four_states_without_bursts_that_arrive_are_gilberts_two() -> None:
    lost = outcomes(losses(Random(1).random, FourStates(p13=2, p31=20)))
    assert fmean(lost) == pytest.approx(2 / 22, rel=0.1)
    assert fmean(bursts(lost)) == pytest.approx(5, rel=0.1)


def test_isolated_losses_stand_alone() -> None:
    lost = outcomes(losses(Random(1).random, FourStates(p13=0, p14=10)))
    assert fmean(lost) == pytest.approx(0.1 / 1.1, rel=0.05)
    assert set(bursts(lost)) == {1}


def test_packets_arrive_within_bursts() -> None:
    model = FourStates(p13=1, p31=10, p32=40, p23=30)
    lost = outcomes(losses(Random(1).random, model), 5 * MANY)
    # Stationary shares: from 1 to 3 as often as back; from 2 to 3 as often as back.
    share_1, share_2 = 10 / 1, 40 / 30
    assert fmean(lost) == pytest.approx(1 / (1 + share_1 + share_2), rel=0.05)


def test_link_without_a_loss_model_loses_no_packet() -> None:
    assert not any(outcomes(losses(Random(1).random, None)))
