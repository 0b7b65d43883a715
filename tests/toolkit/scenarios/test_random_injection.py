"""Lossless sessions under every fault a messenger can do to itself, with data phases at home and on shards."""

from random import Random

import pytest

from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER
from toolkit.checks.invariants import check
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way

SEEDS_PER_TEST = 20
ROUNDS, PER_ROUND = 5, 10
POLICIES = [
    (LOSSLESS_PEER, LOSSLESS_PEER),
    (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
    (LOSSLESS_CLIENT, STATEFUL_SERVER),
]


def _options(rng: Random) -> dict[str, object]:
    return {
        "ms_max_backoff": 0.5,  # otherwise the run is mostly pauses
        "ms_inject_socket_failures": rng.choice([0, 30, 100]),
        "ms_inject_internal_delays": rng.choice([0.0, 0.1]),
        "ms_inject_delay_type": rng.choice(["", "osd client"]),
        "ms_inject_delay_probability": rng.choice([0.1, 1.0]),
        "ms_inject_delay_max": rng.choice([0.01, 2.0]),
        "ms_inject_network_congestion": rng.choice([0, 2, 20]),
        "dispatch_by_priority": rng.random() < 0.3,
    }


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
def test_random_injection_loses_duplicates_or_reorders_no_message(first: int, workers: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        rng = Random(f"injection {seed}")
        lab = SimLab(Way(mode=rng.choice(["crc", "secure"]), workers=workers), seed)
        policies = rng.choice(POLICIES)
        for name, entity, policy in ("a", "osd.1", policies[0]), ("b", "osd.2", policies[1]):
            lab.node(name, entity, policy.name, **_options(rng))
        lab.start("a", "b")
        for _ in range(ROUNDS):
            lab.send("a", "b", count=PER_ROUND, size_bytes=rng.choice([0, 10, 3000]))
            if not policies[1].server:
                lab.send("b", "a", count=PER_ROUND)
            lab.wait(rng.choice([0.001, 0.1, 1.0]))
        lab.expect_delivered("a", "b", ROUNDS * PER_ROUND)
        if not policies[1].server:
            lab.expect_delivered("b", "a", ROUNDS * PER_ROUND)
        lab.settle()
        violations = [f"{r.id}: {v.text}" for r in check(lab.history) for v in r.violations]
        assert not violations, f"seed {seed}: {violations}"
