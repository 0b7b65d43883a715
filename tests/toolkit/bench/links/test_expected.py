"""The expected effect of link states, computed from their definitions."""

import random

import pytest

from toolkit.bench.links.expected import losses, quantile_ms, share
from toolkit.network.state import LinkState


def test_share_has_three_standard_deviations_of_independent_packets() -> None:
    found = share(5.0, 20_000)
    assert (found.value, found.most - 5.0, 5.0 - found.least) == (
        5.0,
        pytest.approx(0.4623, abs=1e-3),
        found.most - 5.0,
    )
    assert found.has(5.4)
    assert not found.has(5.5)


def test_losses_of_the_bad_state_are_its_share_of_the_packets() -> None:
    found = losses(LinkState.from_text("loss to-bad 5% to-good 30% in-bad 90% in-good 1%"), 20_000)
    assert found.value == pytest.approx(100 * (0.05 * 0.9 + 0.30 * 0.01) / 0.35)


def test_losses_in_bursts_vary_more_than_independent_ones() -> None:
    state, packets = LinkState.from_text("loss to-bad 5% to-good 30%"), 2000
    found = losses(state, packets)
    assert found.most - found.value > 2 * (share(found.value, packets).most - found.value)
    draw = random.Random(1)
    inside = sum(found.has(_share_in_bad(draw, packets)) for _ in range(200))
    assert inside >= 196


def _share_in_bad(draw: random.Random, packets: int) -> float:
    is_bad, lost = False, 0
    for _ in range(packets):
        is_bad = draw.random() < (0.70 if is_bad else 0.05)
        lost += is_bad
    return 100 * lost / packets


def test_losses_of_four_states_are_those_of_their_chain() -> None:
    text = "loss p13 5% p31 60% p32 20% p23 30% p14 1%"
    draw, state, lost, packets = random.Random(2), 1, 0, 200_000
    ways = {1: ((0.05, 3), (0.01, 4)), 2: ((0.30, 3),), 3: ((0.60, 1), (0.20, 2)), 4: ((1.0, 1),)}
    for _ in range(packets):
        chance = draw.random()
        for part, to in ways[state]:
            if chance < part:
                state = to
                break
            chance -= part
        lost += state in {3, 4}
    assert losses(LinkState.from_text(text), packets).has(100 * lost / packets)


@pytest.mark.parametrize(
    ("text", "part", "wanted_ms"),
    [("delay 20ms", 0.5, 20.0), ("delay 40ms ± 10ms", 0.1, 32.0), ("delay 40ms ± 5ms normal", 0.9, 46.41)],
)
def test_quantiles_are_those_of_the_distribution(text: str, part: float, wanted_ms: float) -> None:
    assert quantile_ms(LinkState.from_text(text), part) == pytest.approx(wanted_ms, abs=0.02)
