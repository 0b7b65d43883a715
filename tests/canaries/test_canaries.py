"""The simulator must find deliberate bugs; a few of them in each run of the tests, others every day."""

import os
from datetime import UTC, datetime

import pytest

from tests.canaries.bugs import CANARIES, MOST_SEEDS
from tests.canaries.canary import Canary
from tests.canaries.hunt import hunt
from toolkit.simulation.swarm import live

PER_DAY = 3
"""How many are hunted in one run; ``MSGRLAB_CANARIES=all`` hunts all, ``MSGRLAB_CANARIES=5`` those of day 5."""


def _today() -> list[Canary]:
    chosen = os.environ.get("MSGRLAB_CANARIES", "")
    if chosen == "all":
        return list(CANARIES)
    day = int(chosen) if chosen else datetime.now(UTC).toordinal()
    first = day * PER_DAY
    return [CANARIES[(first + place) % len(CANARIES)] for place in range(PER_DAY)]


@pytest.mark.parametrize("canary", _today(), ids=lambda canary: canary.name)
def test_a_deliberate_bug_is_found(canary: Canary) -> None:
    catch = hunt(canary)
    assert catch is not None, f"not found within {MOST_SEEDS} seeds"
    assert live(catch.seed).passed, f"{catch}: that is not the canary's doing"


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_a_canary_changes_one_line_and_puts_it_back(canary: Canary) -> None:
    function = canary._function()
    sound = function.__code__
    with canary.alive():
        assert function.__code__ != sound
    assert function.__code__ is sound


def test_there_are_enough() -> None:
    assert len(CANARIES) >= 20
    assert len({canary.name for canary in CANARIES}) == len(CANARIES)
