"""Over a slow link two lossless peers do not replace each other's dials for ever after a broken handshake."""

import pytest

from messenger.session.session import SessionState
from toolkit.checks.invariants import check
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab

LAST_REPLY = {"v1": ("CONNECT_REPLY", 2), "v2-crc": ("SERVER_IDENT", 1)}
"""What the acceptor of a first dial says last, and its how manyeth frame of that name it is."""


@pytest.mark.parametrize("way", LAST_REPLY)
@pytest.mark.parametrize("policy", ["lossless_peer", "lossless_peer_reuse"])
@pytest.mark.parametrize("latency_s", [0.1, 0.2, 0.3, 0.4])
def test_a_lost_last_reply_costs_few_dials(way: str, policy: str, latency_s: float) -> None:
    """Its acceptor has the session open, its connector does not; both have something to send, and both dial."""
    for seed in range(4):
        lab = SimLab(way, seed)
        for node, name in ("a", "osd.1"), ("b", "osd.2"):
            lab.node(node, name, policy)
        lab.start("a", "b")
        lab.delay("a", "b", latency_s)
        lab.delay("b", "a", latency_s)
        lab.cut_at("a", "b", Breakpoint("b", *LAST_REPLY[way]))
        lab.dial("a", "b")
        lab.send("a", "b", 2)
        lab.wait(8.5 * latency_s)
        lab.send("b", "a", 2)
        lab.expect_delivered("a", "b", 2)
        lab.expect_delivered("b", "a", 2)
        lab.settle()
        assert {lab.session_state("a", "b"), lab.session_state("b", "a")} == {SessionState.READY}
        assert lab.dials("a") + lab.dials("b") <= 6
        assert not [violation.text for result in check(lab.history) for violation in result.violations]
