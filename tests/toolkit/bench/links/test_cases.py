"""The states that are measured, and what is looked at."""

import pytest

from toolkit.bench.links import cases
from toolkit.bench.links.cases import CASES
from toolkit.bench.links.hosts import PACKET_BYTES, Arrival
from toolkit.network.state import FourStates, GilbertElliott, LinkState, RandomLoss, Slot


def _arrivals(*numbers: int, every_s: float = 0.001, delay_ms: float = 1.0) -> list[Arrival]:
    return [Arrival(number, delay_ms, at * every_s) for at, number in enumerate(numbers)]


def test_every_key_of_a_link_is_in_a_state() -> None:
    seen = {
        name
        for case in CASES
        for name in LinkState.model_fields
        if getattr(case.state, name) != LinkState.model_fields[name].default
    }
    assert seen == set(LinkState.model_fields)
    losses = [case.state.loss for case in CASES if case.state.loss is not None]
    assert {type(loss) for loss in losses} == {RandomLoss, GilbertElliott, FourStates}
    slots = [case.state.slot for case in CASES if case.state.slot is not None]
    assert {(bool(slot.packets), bool(slot.bytes)) for slot in slots} == {(True, False), (False, True)}
    assert all(isinstance(slot, Slot) for slot in slots)


def test_lost_and_doubled_packets_are_counted_by_their_numbers() -> None:
    arrived = _arrivals(0, 1, 1, 4, 5, 9)
    assert cases.lost_percent(arrived, 10) == 50.0
    assert cases.doubled_percent(arrived, 10) == 10.0
    assert cases.burst_packets(arrived, 10) == 2.5
    assert cases.burst_packets(_arrivals(0, 1), 2) == 0.0


def test_packets_before_half_of_the_delay_are_undelayed() -> None:
    arrived = [*_arrivals(1, 2, delay_ms=0.1), *_arrivals(0, 3, 4, 5, 6, 7, delay_ms=20.0)]
    assert cases.undelayed_percent(arrived, 8) == 25.0


def test_rate_is_that_of_the_frames() -> None:
    assert cases.rate_mbit(_arrivals(*range(11)), 11) == pytest.approx(PACKET_BYTES * 8 / 1000)


def test_packets_of_a_slot_are_those_without_a_pause_between_them() -> None:
    arrived = [Arrival(number, 1.0, 0.03 * (number // 10) + 0.0001 * number) for number in range(50)]
    assert cases.slot_packets(arrived, 50) == 10


def test_quantiles_of_delays() -> None:
    arrived = [Arrival(number, float(number), 0.0) for number in range(100)]
    assert [cases.delay_quantile(part)(arrived, 100) for part in (0.1, 0.5, 0.9)] == [10, 50, 90]
