"""Shrinking: what is left fails, and nothing of it can go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from messenger.session.session import Session
from toolkit.faults.least import least
from toolkit.simulation.findings import describe_life, replay_command, schedule
from toolkit.simulation.swarm import live


@given(st.integers(0, 30).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, max(n - 1, 0))))))
def test_least_keeps_exactly_the_needed_items(drawn: tuple[int, set[int]]) -> None:
    count, needed = drawn
    needed = {place for place in needed if place < count}
    kept, _ = least(range(count), needed.issubset, 10_000)
    assert kept == sorted(needed)


def test_least_stops_after_the_given_number_of_trials() -> None:
    asked = []

    def fails(part: list[int]) -> bool:
        asked.append(part)
        return 17 in part

    kept, runs = least(range(100), fails, 3)
    assert runs == len(asked) == 3
    assert 17 in kept


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A messenger that drops instead of sending again."""
    monkeypatch.setattr(Session, "requeue_sent", lambda session: session.queue.sent.clear())


@pytest.mark.usefixtures("forgetful")
def test_a_planted_bug_is_found_and_shrunk() -> None:
    found = next(outcome for seed in range(200) if (outcome := live(seed)).failures and 8 < len(outcome.plan) < 16)
    small = found.shrink()
    assert small.keep is not None
    assert 0 < len(small.keep) < len(found.plan)
    wanted = found.failures[0].id
    assert wanted in {failure.id for failure in small.failures}
    assert live(small.seed, keep=small.keep).digest == small.digest, "the replay is the same life"
    for place in small.keep:
        less = live(small.seed, keep=[other for other in small.keep if other != place])
        assert wanted not in {failure.id for failure in less.failures}, "this operation was not needed"
    lines = describe_life(small)
    assert lines[0] == f"seed {small.seed}: failed"
    assert lines[-1] == f"again: {replay_command(small)}"
    assert small.replay_command == replay_command(small)
    assert replay_command(small).endswith("--keep " + ",".join(map(str, small.keep)))
    assert [line.strip() for line in schedule(small)] == [f"{n} {small.plan[n]}" for n in small.keep]


def test_a_life_without_failure_is_not_shrunk() -> None:
    with pytest.raises(LocalError, match="seed 1 passed: there is nothing to shrink"):
        live(1).shrink()
