"""Lives of seeds: they hold, they repeat, and what they draw is wide enough."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from messenger.session.session import Session
from tests.support.seeds_of_lives import LATER, RARE, others
from toolkit.simulation.draws import ROLES, Fault, Size, draw_options
from toolkit.simulation.lives import live_seeds
from toolkit.simulation.swarm import Outcome, bound_s, draw, live

ROOT = Path(__file__).parents[3]
SEEDS_PER_TEST = 50
_DIGESTS = """
import sys
from toolkit.simulation.swarm import live
print(*(live(seed).digest for seed in range(int(sys.argv[1]), int(sys.argv[2]))), sep="\\n")
"""
_NEEDS = "import brotli, cramjam, crcmod, cryptography, fastcrc, lazy_loader, lz4, zstandard"


@pytest.mark.parametrize("first", LATER[::SEEDS_PER_TEST])
def test_lives_pass(first: int) -> None:
    seeds = others(first, first + SEEDS_PER_TEST)
    tally = live_seeds(seeds, Size.SMALL)
    assert not tally.failed
    assert tally.runs == len(seeds) > SEEDS_PER_TEST / 2


def test_lives_with_rare_meetings_of_faults_pass() -> None:
    assert live_seeds(RARE, Size.SMALL).failed == []


def test_a_life_of_a_cluster_passes() -> None:
    outcome = live(1, Size.CLUSTER)
    assert not outcome.failures
    assert len(outcome.history.nodes) == 40
    assert len(outcome.history.of("send")) > 500


# ---- the same seed


def test_same_seed_same_bytes() -> None:
    first, second = live(5), live(5)
    assert first.history.dump() == second.history.dump()
    assert first.digest != live(6).digest


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_neither_the_process_nor_hashes_nor_the_version_of_python_matter(hash_seed: str) -> None:
    here = [live(seed).digest for seed in range(20, 32)]
    for python in (sys.executable, *_other_pythons()):
        assert _digests(python, hash_seed) == here, python


def _digests(python: str, hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", _DIGESTS, "20", "32"], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def _other_pythons() -> list[str]:
    """Pythons of other minor versions that have the libraries, if there are any."""
    found = [shutil.which(f"python3.{minor}") for minor in range(11, 15) if minor != sys.version_info.minor]
    return [
        python
        for python in found
        if python and not subprocess.run([python, "-c", _NEEDS], check=False, capture_output=True).returncode
    ]


# ---- what is drawn


def test_every_choice_is_drawn() -> None:
    drawn = [draw(seed) for seed in range(400)]
    ways = Counter((options.way.protocol.value, options.way.mode) for options, _ in drawn)
    assert set(ways) == {("v1", "crc"), ("v2", "crc"), ("v2", "secure"), ("v2", "compressed")}
    assert {options.way.workers for options, _ in drawn} == {0, 1, 2, 3}
    assert {options.way.key_type.label for options, _ in drawn} == {"aes", "aes256k"}
    assert {options.roles for options, _ in drawn} == set(ROLES)
    assert {len(options.nodes) for options, _ in drawn} == {2, 3}
    assert {fault for options, _ in drawn for fault in options.faults} == set(Fault)
    verbs = {operation.verb for _, plan in drawn for operation in plan}
    assert verbs >= {
        *("send", "keepalive", "connect", "mark_down", "cut", "cut_at", "cut_at_byte", "half_open", "half_close"),
        *("partition", "heal", "refuse", "slow", "delay", "late_dial", "freeze", "thaw", "kill", "revive"),
        *("rename", "hold", "release", "arm", "unblock", "configure"),
    }


def test_about_half_of_the_faults_are_on() -> None:
    counts = [len(draw_options(Random(seed)).faults) for seed in range(300)]
    assert 0.4 < sum(counts) / len(counts) / len(Fault) < 0.6


def test_operations_are_in_order_of_time() -> None:
    for seed in range(100):
        times = [operation.at_s for operation in draw(seed)[1]]
        assert times == sorted(times)


@pytest.mark.parametrize("seed", range(10))
def test_any_part_of_a_schedule_is_a_schedule(seed: int) -> None:
    places = range(len(draw(seed)[1]))
    rng = Random(seed)
    outcome = live(seed, keep=[place for place in places if rng.random() < 0.5])
    assert not outcome.failures


# ---- phase 2


def _first_failure(seeds: range, wanted: str) -> Outcome:
    for seed in seeds:
        outcome = live(seed)
        if any(failure.id == wanted for failure in outcome.failures):
            return outcome
    pytest.fail(f"no seed of {seeds} finds {wanted}")


def test_a_session_that_never_dials_again_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.session.faults._back_off", lambda *_arguments: None)
    outcome = _first_failure(range(50), "LIVE")
    text = next(failure.text for failure in outcome.failures if failure.id == "LIVE")
    assert f"{bound_s(outcome.options):g} s after" in text


def test_an_exception_of_the_core_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_session: Session) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Session, "requeue_sent", broken)
    outcome = _first_failure(range(50), "CRASH")
    assert "ZeroDivisionError: planted (at test_swarm.py:" in outcome.failures[0].text


def test_time_between_operations_passes_in_the_simulation() -> None:
    outcome = live(3)
    assert outcome.history.duration_s >= outcome.plan[-1].at_s
    assert outcome.events > 0
