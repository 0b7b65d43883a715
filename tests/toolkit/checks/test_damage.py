"""Every kind of damage to a recorded history is noticed, each time, by the invariant that is for it."""

from functools import cache

import pytest

from messenger.link import Protocol
from tests.toolkit.checks.damage.kinds import DAMAGES
from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.checks.records import Record
from toolkit.lab.ways import Way
from toolkit.scenarios.catalogue import select
from toolkit.scenarios.runner import run_scenario
from toolkit.simulation.swarm import live

SEEDS = (3, 7, 20, 31, 40, 55, 133)
"""Lives with lossy sessions, takeovers, resets, restarts, faults, and links that wait for throttles."""
UNNOTICED = {name for name, damage in DAMAGES.items() if not damage.by}


@cache
def histories() -> dict[str, list[Record]]:
    """Recorded runs in which nothing is wrong."""
    runs = {
        f"{scenario.id} {protocol} {mode}": run_scenario(scenario, "sim", Way(Protocol(protocol), mode)).history
        for scenario in select("TOUR")
        for protocol, mode in (("v2", "crc"), ("v2", "secure"), ("v1", "crc"))
    }
    return {
        name: history.records for name, history in (runs | {f"seed {s}": live(s).history for s in SEEDS}).items()
    }


def test_the_histories_are_good_before() -> None:
    for name, records in histories().items():
        assert [result.name for result in check(History(records)) if not result.ok] == [], name


@pytest.mark.parametrize("name", sorted(set(DAMAGES) - UNNOTICED))
def test_checks_detect_the_damage_at_every_place(name: str) -> None:
    damage = DAMAGES[name]
    places = 0
    for run, records in histories().items():
        for number, damaged in enumerate(damage.damaged(records)):
            places += 1
            results = check(History(damaged), only=damage.by)
            assert not all(result.ok for result in results), (
                f"{run}, place {number}: none of {damage.by} notices it"
            )
    assert places, "no history has a place for it"


@pytest.mark.parametrize("name", sorted(UNNOTICED))
def test_undetectable_damage_passes_the_checks_and_states_a_reason(name: str) -> None:
    damage = DAMAGES[name]
    damaged = [after for records in histories().values() for after in damage.damaged(records)]
    assert damaged
    assert all(result.ok for after in damaged for result in check(History(after)))
    assert damage.reason


def test_damages_cover_the_listed_invariants() -> None:
    used = {name for damage in DAMAGES.values() for name in damage.by}
    assert used <= {invariant.name for invariant in INVARIANTS.values()}
    assert {"acknowledged", "received_once", "link_lifecycle", "one_event_per_link", "session_identity"} <= used
    assert {"decided_answer", "redial_pause", "link_timeouts", "cookies", "connect_monotonic"} <= used
