"""Many seeds: the number of processes changes nothing, Ctrl-C keeps what was done, and costs stay linear."""

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from messenger.session.session import Session
from toolkit.checks.invariants import check
from toolkit.checks.marks import MARKS
from toolkit.lab.campaign import Campaign, Tally
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.scenarios.seeds import run_scenario_seeds, units_of
from toolkit.simulation import lives as lives_module
from toolkit.simulation.draws import Size
from toolkit.simulation.lives import run_seeds


def _same(a: Campaign, b: Campaign) -> bool:
    ours, theirs = a.tally, b.tally
    return (ours.runs, ours.events, ours.records, ours.marks, ours.failed) == (
        *(theirs.runs, theirs.events, theirs.records, theirs.marks, theirs.failed),
    )


def test_the_number_of_processes_changes_nothing() -> None:
    alone, shared = run_seeds(range(40), jobs=1), run_seeds(range(40), jobs=2)
    assert _same(alone, shared)
    assert alone.tally.runs == 40
    assert alone.runs_per_cpu_s > 0
    assert set(alone.never) == {mark for mark in MARKS if not alone.tally.marks[mark]}


def test_progress_is_reported_by_chunk() -> None:
    runs: list[int] = []
    run_seeds(range(25), jobs=1, progress=lambda tally: runs.append(tally.runs))
    assert runs == [10, 10, 5]


def test_interrupted_campaign_reports_its_results() -> None:
    def stop(_tally: Tally) -> None:
        raise KeyboardInterrupt

    ended = run_seeds(range(1000), jobs=1, progress=stop)
    assert ended.interrupted
    assert ended.tally.runs == 10


def test_campaign_reports_a_seed_with_two_different_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run_seeds(range(5), jobs=1, twice=True).tally.failed
    lives, real = count(), lives_module.live

    def drifting(seed: int, size: Size) -> Any:
        outcome = real(seed, size)
        outcome.history.append(0.0, "scenario", "step", verb="life", args=str(next(lives)))
        return outcome

    monkeypatch.setattr(lives_module, "live", drifting)
    failed = run_seeds(range(1), jobs=1, twice=True).tally.failed
    assert [(seed, [failure.id for failure in failures]) for seed, failures in failed] == [(0, ["SAME"])]


def test_failures_come_with_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "requeue_sent", lambda session: session.queue.sent.clear())
    failed = run_seeds(range(50), jobs=1).tally.failed
    assert failed
    assert all(failures and seed in range(50) for seed, failures in failed)


def test_scenarios_over_seeds() -> None:
    units = units_of(["reconnect", "standby"], range(5))
    done = run_scenario_seeds(units, 1)
    assert done.tally.runs == len(units) == 10
    assert not done.tally.failed
    assert done.tally.marks["STANDBY left by sending"] >= 5


# ---- cost


def _calls(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work: the same on every machine, unlike time."""
    calls = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _long_life(rounds: int) -> SimLab:
    lab = SimLab("v2-crc", 1)
    lab.two()
    for _ in range(rounds):
        lab.send("a", "b", count=2)
        lab.wait(0.05)
        lab.cut("a", "b")
        lab.wait(0.05)
    lab.settle()
    return lab


def test_simulation_cost_is_linear_in_its_duration() -> None:
    short, long = _calls(lambda: _long_life(10)), _calls(lambda: _long_life(40))
    assert 3 < long / short < 4.6


def test_check_cost_is_linear_in_the_history() -> None:
    short, long = _long_life(10).history, _long_life(40).history
    assert 3 < len(long) / len(short) < 4.6
    assert _calls(lambda: check(long)) / _calls(lambda: check(short)) < 6
