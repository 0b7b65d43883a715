"""Helpers of the SE scenarios: peers in secure mode, and tampered frames that must break links."""

from typing import Any

from toolkit.faults.mangle import Mangle
from toolkit.lab.lab import Lab

REVISIONS = {"msgr 2.1": {"features": 3}, "msgr 2.0": {"features": 0}}
"""Cases for both revisions of frames, by the features in the banners."""
_SOON_S = 1.0


def peers(lab: Lab, features: int = 3, **options: Any) -> None:  # noqa: ANN401 - Config options
    """Connect two lossless peers with frames of that revision, and short pauses because links break often."""
    lab.two(msgr2_features=features, **{"ms_max_backoff": 0.2, **options})
    lab.connect("a", "b")


def send_parts(lab: Lab, count: int = 1) -> None:
    """Have ``a`` send messages with a front, a middle and data."""
    lab.send("a", "b", count, size_bytes=5, front_bytes=3, middle_bytes=2)


def breaks(lab: Lab, mangle: Mangle, node: str = "b", *reasons: str, since: int = 0) -> None:
    """Require that a mangle broke a link of ``node`` at once, and that nothing was delivered in between.

    Args:
        lab: the lab of the scenario.
        mangle: the mangle.
        node: the node that must detect it.
        reasons: allowed reasons, names of FaultReason; AUTH_TAG unless given.
        since: number of faults that ``node`` had before.
    """
    lab.expect_mangled(mangle)
    lab.expect_broken(node, since + 1, within_s=_SOON_S)
    reason = lab.faults(node)[since]
    lab.require(reason in (reasons or ("AUTH_TAG",)), f"{mangle} broke the link of {node} by {reason}")
    struck = next(r for r in reversed(lab.history.records) if r.kind == "mangle")
    fault = [r for r in lab.history.records if r.kind == "fault" and r.node == node][since]
    between = [r for r in lab.records(node, "deliver") if struck.time_s <= r.time_s <= fault.time_s]
    lab.require(not between, f"{mangle}: {len(between)} messages were delivered before the link broke")
