"""The family, and what its scenarios share."""

from typing import Any

from toolkit.faults.mangle import Mangle
from toolkit.lab.lab import Lab

REVISIONS = {"msgr 2.1": {"features": 3}, "msgr 2.0": {"features": 0}}
"""Cases for both revisions of frames: which features the banners advertise."""
_SOON_S = 1.0


def peers(lab: Lab, features: int = 3, **options: Any) -> None:  # noqa: ANN401 - Config options
    """Two lossless peers with an open link, of that revision, which is broken so often that pauses would grow."""
    lab.two(msgr2_features=features, **{"ms_max_backoff": 0.2, **options})
    lab.connect("a", "b")


def send_parts(lab: Lab, count: int = 1) -> None:
    """Have a send messages with all their segments."""
    lab.send("a", "b", count, size_bytes=5, front_bytes=3, middle_bytes=2)


def breaks(lab: Lab, mangle: Mangle, node: str = "b", *reasons: str, since: int = 0) -> None:
    """What was changed broke a link of ``node`` at once, and nothing of it was handed to the application.

    Args:
        lab: where.
        mangle: what was done.
        node: the node that must detect it.
        reasons: of which one is given; a bad authentication tag unless others are named.
        since: how many faults ``node`` had before.
    """
    lab.expect_mangled(mangle)
    lab.expect_broken(node, since + 1, within_s=_SOON_S)
    reason = lab.faults(node)[since]
    lab.require(reason in (reasons or ("AUTH_TAG",)), f"{mangle} broke the link of {node} by {reason}")
    struck = next(r for r in reversed(lab.history.records) if r.kind == "mangle")
    fault = [r for r in lab.history.records if r.kind == "fault" and r.node == node][since]
    between = [r for r in lab.records(node, "deliver") if struck.time_s <= r.time_s <= fault.time_s]
    lab.require(not between, f"{mangle}: {len(between)} messages were delivered before the link broke")
