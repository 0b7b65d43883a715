"""Services around sessions on v1: throttles of policies, injected faults, ends in order (V1-20, V1-22)."""

import pytest

from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
    ThrottleLimit,
)
from messenger.session.session import SessionState
from tests.support.network import Pair

V1 = {"protocol": Protocol.V1}
PAIRS = [
    (LOSSLESS_CLIENT, STATEFUL_SERVER),
    (LOSSLESS_PEER, LOSSLESS_PEER),
    (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
]


# ---- throttles (docs/protocol.md §3.10)


@pytest.mark.parametrize(
    ("limits", "first"),
    [({"messages": ThrottleLimit("messages", 3)}, 3), ({"size_bytes": ThrottleLimit("bytes", 450)}, 4)],
    ids=["messages", "bytes"],
)
def test_reading_stops_at_a_throttle_of_the_policy_and_resumes(
    limits: dict[str, ThrottleLimit], first: int
) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER.throttled(**limits), auth="cephx", **V1)
    pair.b.hoarding = True
    mine, theirs = pair.established()
    pair.a.send(mine, *range(1, 11), size_bytes=100)
    pair.drive()
    assert pair.b.tids == list(range(1, first + 1))
    assert theirs.link is not None
    assert theirs.link.paused
    for _, message in list(pair.b.delivered):
        pair.b.endpoint.release(message.size_bytes, pair.b.now, theirs)
    pair.drive()
    assert len(pair.b.tids) == 2 * first
    pair.wire.cut()
    for _, message in pair.b.delivered[first:]:
        pair.b.endpoint.release(message.size_bytes, pair.b.now, theirs)
    pair.b.hoarding = False
    pair.a.send(mine, 11)
    pair.pass_time(5.0)
    assert pair.b.tids[: 2 * first] == list(range(1, 2 * first + 1))
    assert len(set(pair.b.tids)) == len(pair.b.tids)


# ---- injected faults (§7.2)


@pytest.mark.parametrize(("policy", "peer_policy"), PAIRS, ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", range(3))
def test_lossless_traffic_survives_injected_faults_and_delays(
    policy: Policy, peer_policy: Policy, seed: int
) -> None:
    pair = Pair(
        policy,
        peer_policy,
        seed=seed,
        ms_inject_socket_failures=30,
        ms_inject_internal_delays=0.1,
        auth="cephx",
        **V1,
    )
    mine = pair.connect()
    pair.run_until(lambda: mine.state is SessionState.READY, 60.0)
    for number in range(1, 61):
        pair.a.send(mine, number)
        pair.pass_time(0.02)
    assert pair.run_until(lambda: len(pair.b.tids) == 60, 120.0)
    assert pair.b.tids == list(range(1, 61))
    assert pair.run_until(lambda: pair.a.endpoint.snapshot()["sent"] == 0, 120.0)
    injected = {str(r.fields["option"]) for node in pair.nodes for r in node.trace if r.kind == "inject"}
    assert "ms_inject_socket_failures" in injected


# ---- ends in order


def test_a_lossless_session_ends_when_all_is_acknowledged() -> None:
    """TM22."""
    pair = Pair(LOSSLESS_PEER_REUSE, **V1)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1, 2)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.pass_time(0.5)
    assert mine.state is SessionState.READY
    assert pair.b.tids == [1, 2]
    pair.wire.to_connector.held = False
    pair.drive()
    assert mine.state is SessionState.CLOSED
    assert EventKind.RESET not in pair.a.kinds


def test_a_lossy_session_ends_without_waiting_for_the_peer() -> None:
    """TM23."""
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, **V1)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.drive()
    assert mine.state is SessionState.CLOSED
    assert pair.b.tids == [1]


def test_a_peer_that_never_acknowledges_is_waited_for_so_long() -> None:
    """TM24."""
    pair = Pair(LOSSLESS_PEER_REUSE, ms_shutdown_timeout=0.2, **V1)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.pass_time(0.19)
    assert mine.state is SessionState.READY
    pair.pass_time(0.02)
    assert mine.state is SessionState.CLOSED
