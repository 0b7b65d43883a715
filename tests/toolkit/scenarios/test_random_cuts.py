"""Sessions under cuts at random frames and bytes, while both sides dial, send and pause at random."""

from random import Random

import pytest

from messenger.link import Protocol
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER
from toolkit.checks.invariants import check
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way

SEEDS_PER_TEST = 25
POLICIES = [
    (LOSSLESS_PEER, LOSSLESS_PEER),
    (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
    (LOSSLESS_CLIENT, STATEFUL_SERVER),
]
V2_TAGS = [
    *("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE", "AUTH_SIGNATURE"),
    *("CLIENT_IDENT", "SERVER_IDENT", "SESSION_RECONNECT", "SESSION_RECONNECT_OK"),
    *("MESSAGE", "MESSAGE", "MESSAGE", "ACK"),
]
V1_TAGS = [
    "BANNER",
    "IDENTIFY",
    "CONNECT",
    "CONNECT",
    "CONNECT_REPLY",
    "CONNECT_REPLY",
    "SEQ",
    "SEQ",
    "MSG",
    "MSG",
    "ACK",
]


def _random_cut(rng: Random, tags: list[str]) -> Breakpoint:
    tag = rng.choice(tags)
    nth = rng.randrange(1, 12 if tag in {"MESSAGE", "MSG", "ACK"} else 4)
    return Breakpoint(rng.choice("ab"), tag, nth, rng.choice([None, 0, 1, rng.randrange(200)]))


def _random_life(lab: SimLab, rng: Random) -> None:
    """Some traffic under some cuts; everything must arrive in the end."""
    policies = rng.choice(POLICIES)
    lab.node("a", "osd.1", policies[0].name)
    lab.node("b", "osd.2", policies[1].name)
    for _ in range(rng.randrange(1, 6)):
        lab.cut_at("a", "b", _random_cut(rng, V1_TAGS if lab.protocol is Protocol.V1 else V2_TAGS))
    lab.start("a", "b")
    dials_back = not policies[1].server
    sent = {"a": 0, "b": 0}
    for _ in range(rng.randrange(1, 5)):
        for node, peer in (("a", "b"), ("b", "a")):
            if node == "a" or dials_back or lab.session_state("b", "a"):
                count = rng.randrange(1, 8)
                lab.send(node, peer, count=count, size_bytes=rng.choice([0, 10, 3000]))
                sent[node] += count
        if rng.random() < 0.5:
            lab.wait(rng.choice([0.001, 0.01, 0.3, 2.0]))
        if rng.random() < 0.2:
            lab.cut("a", "b")
    lab.expect_delivered("a", "b", sent["a"])
    lab.expect_delivered("b", "a", sent["b"])
    lab.settle()


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("first", range(0, 200, SEEDS_PER_TEST))
def test_random_cuts_lose_duplicate_or_reorder_no_message(first: int, workers: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        rng = Random(seed)
        _judge_life(SimLab(Way(mode=rng.choice(["crc", "secure"]), workers=workers), seed), rng)


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("first", range(0, 200, SEEDS_PER_TEST))
def test_random_cuts_on_v1_lose_duplicate_or_reorder_no_message(first: int, workers: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        _judge_life(SimLab(Way(Protocol.V1, workers=workers), seed), Random(seed))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_v1_survives_two_sides_that_replace_each_others_dials(workers: int) -> None:
    """One side's connect_seq is 0, the other's is not: each lets the other's dial replace its own.

    See docs/protocol.md §3.4 step 7.
    """
    _judge_life(SimLab(Way(Protocol.V1, workers=workers), 30076), Random(30076))


def _judge_life(lab: SimLab, rng: Random) -> None:
    _random_life(lab, rng)
    violations = [f"{r.id}: {v.text}" for r in check(lab.history) for v in r.violations]
    assert not violations, f"seed {lab.seed}: {violations}"
