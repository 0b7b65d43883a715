"""Sessions that leave for other shards and are called back, in the simulator: calls take time and overtake."""

import pytest

from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
)
from messenger.session.session import IoState
from toolkit.checks.invariants import check
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way

PEERS = (LOSSLESS_PEER, LOSSLESS_PEER)
CLIENT_AND_SERVER = (LOSSLESS_CLIENT, STATEFUL_SERVER)
LOSSY = (LOSSY_CLIENT, STATELESS_SERVER)


def lab_of(policies: tuple, seed: int = 1, workers: int = 2, **options: object) -> SimLab:
    lab = SimLab(Way(workers=workers), seed)
    lab.node("a", "osd.1", policies[0].name, **options)
    lab.node("b", "osd.2", policies[1].name, **options)
    lab.start("a", "b")
    lab.connect("a", "b")
    return lab


def io_states(lab: SimLab, node: str) -> list[tuple[int, str]]:
    """Return the states of the io half of the node's session, each with its shard."""
    return [(r["shard"], r["state"]) for r in lab.history if r.kind == "io" and r.node == node]


def assert_sound(lab: SimLab) -> None:
    assert not [violation.text for result in check(lab.history) for violation in result.violations]


def test_a_session_moves_to_the_shard_of_each_new_link() -> None:
    lab = lab_of(PEERS)
    lab.send("a", "b", count=5)
    lab.expect_delivered("a", "b", 5)
    lab.cut("a", "b")
    lab.send("a", "b", count=5)
    lab.expect_delivered("a", "b", 10)
    lab.settle()
    states = io_states(lab, "a")
    first, second = [shard for shard, state in states if state == IoState.OPEN]
    assert first != second
    assert states == [
        (first, IoState.OPEN),
        (first, IoState.DELAY),
        (first, IoState.SWITCHED),
        (0, IoState.DELAY),
        (second, IoState.OPEN),
    ]
    assert_sound(lab)


@pytest.mark.parametrize("policies", [PEERS, CLIENT_AND_SERVER, LOSSY], ids=lambda pair: pair[0].name)
def test_marking_down_leaves_nothing_on_any_shard(policies: tuple) -> None:
    lab = lab_of(policies)
    lab.send("a", "b", count=3, size_bytes=5000)
    a, b = (lab.app(name) for name in "ab")
    a.mark_down("b")
    lab.wait(30.0)
    assert io_states(lab, "a")[-1] == (0, IoState.DROP)
    assert not any(a.snapshot().values())
    if policies is LOSSY:
        assert io_states(lab, "b")[-1] == (0, IoState.DROP)
        assert not any(b.snapshot().values())


def test_a_takeover_waits_for_the_session_to_come_back() -> None:
    """The peer dials again while this side still has the old link open on a shard: nothing is lost.

    See docs/protocol.md §4.9.
    """
    for seed in range(30):
        lab = lab_of(CLIENT_AND_SERVER, seed)
        lab.send("a", "b", count=4)
        lab.send("b", "a", count=4)
        lab.cut("a", "b")
        lab.send("a", "b", count=4)
        lab.cut("a", "b")
        lab.send("b", "a", count=4)
        lab.expect_delivered("a", "b", 8)
        lab.expect_delivered("b", "a", 8)
        lab.settle()
        assert_sound(lab)


def test_messages_sent_during_a_reconnect_are_delivered() -> None:
    for seed in range(30):
        lab = lab_of(PEERS, seed)
        lab.cut("a", "b")
        for _ in range(20):
            lab.wait(0.001)
            lab.send("a", "b")
        lab.expect_delivered("a", "b", 20)
        lab.settle()
        assert_sound(lab)


def test_a_restarted_peer_resets_sessions_on_shards() -> None:
    lab = lab_of((LOSSLESS_CLIENT, STATEFUL_SERVER))
    lab.send("a", "b", count=3)
    lab.expect_delivered("a", "b", 3)
    lab.kill("b")
    lab.revive("b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", EventKind.REMOTE_RESET)
    lab.send("a", "b", count=2)
    lab.settle()
    assert_sound(lab)


def test_reading_continues_after_the_application_releases_messages() -> None:
    lab = lab_of(PEERS, ms_dispatch_throttle_bytes=4000)
    lab.send("a", "b", count=60, size_bytes=3000)
    lab.send("b", "a", count=60, size_bytes=3000)
    lab.expect_delivered("a", "b", 60)
    lab.expect_delivered("b", "a", 60)
    lab.settle()
    assert_sound(lab)


def test_a_keepalive_that_is_asked_for_while_a_session_comes_back_is_sent() -> None:
    """It justifies a dial, though no message is queued."""
    lab = lab_of(PEERS)
    lab.exchange()
    lab.settle()
    lab.cut("a", "b")
    for _ in range(10_000):
        if io_states(lab, "a")[-1][1] == IoState.SWITCHED:
            break
        lab.wait(0.00002)
    assert io_states(lab, "a")[-1][1] == IoState.SWITCHED, "it has left its shard, and is not back yet"
    lab.keepalive("a", "b")
    lab.settle()
    lab.expect_state("a", "b", "READY")
    sent = [r["tag"] for r in lab.history if r.kind == "frame" and r.node == "a" and r["direction"] == "tx"]
    assert sent[-1] == "KEEPALIVE2"
    assert_sound(lab)


def test_changed_limits_reach_the_shards() -> None:
    lab = lab_of(PEERS, ms_dispatch_throttle_bytes=4000)
    lab.hold("b")
    lab.send("a", "b", count=20, size_bytes=3000)
    lab.wait(5.0)
    assert lab.delivered("a", "b") < 20
    lab.configure("b", ms_dispatch_throttle_bytes=1 << 20)
    lab.expect_delivered("a", "b", 20)
    lab.release("b")
    lab.settle()
    assert_sound(lab)
