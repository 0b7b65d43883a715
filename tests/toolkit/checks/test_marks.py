"""Marks: named, explained, and counted where they happen."""

from collections import Counter

import pytest

import toolkit
from tests.support.seeds_of_lives import FIRST
from toolkit.checks.history import History
from toolkit.checks.marks import MARKS, marks_of
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.simulation.lives import run_seeds


def test_each_of_many_marks_has_a_description() -> None:
    assert len(MARKS) >= 40
    assert all(meaning for meaning in MARKS.values())


def test_an_empty_history_has_none() -> None:
    assert not marks_of(History())


@pytest.mark.parametrize(
    ("scenario", "mode", "reached"),
    [
        ("standby", "crc", {"STANDBY left by sending", "STANDBY left by the peer"}),
        ("reconnect", "secure", {"replay", "secure reconnect"}),
        ("reconnect", "compressed", {"replay", "compression agreed"}),
        ("session-reset", "crc", {"restart", "reset full", "remote_reset with a queue", "refused"}),
    ],
)
def test_scenarios_reach_their_marks(scenario: str, mode: str, reached: set[str]) -> None:
    found = marks_of(toolkit.run(scenario, mode=mode).history)
    assert reached <= set(found)
    assert set(found) <= set(MARKS)


def test_race_is_counted_on_both_sides() -> None:
    found: Counter[str] = Counter()
    for seed in range(1, 9):
        lab = SimLab("v2-crc", seed)
        lab.two()
        lab.dial("a", "b")
        lab.dial("b", "a")
        lab.exchange()
        found += marks_of(lab.history)
    assert found["race given up"] == 8, "one side always gives up"
    assert found["race kept"] == found["WAIT sent"] > 0


def test_a_hundred_seeds_or_two_reach_most_marks() -> None:
    tally = run_seeds(FIRST, jobs=1).tally
    assert not tally.failed
    assert set(tally.marks) <= set(MARKS)
    assert len(tally.marks) >= 40
