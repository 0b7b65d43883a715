"""Helpers of scenarios about packets."""

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS

PACKETS = "takes packets of a kernel on a network of their own"
LOSSLESS = {name: {"pair": PAIRS[name]} for name in ("peers", "client")}


def expect_all_delivered(lab: Lab, count: int) -> None:
    """Wait until ``a`` and ``b`` have ``count`` messages from each other, without a reset event."""
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(peer, node, count, within_s=60.0)
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle(within_s=60.0)
