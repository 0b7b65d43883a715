"""Measures the delay after which a session that lost its link dials again."""

from typing import Any

from toolkit.lab.lab import Lab
from toolkit.node.raw.peer import RawPeer


def dial_after_fault_s(lab: Lab, peer: RawPeer, within_s: float) -> tuple[Any, float]:
    """Accept the node's next dial; return the link, and the seconds from the last fault to the dial."""
    broke_s = lab.records("a", "fault")[-1].time_s
    link = peer.accept("a", within_s=within_s)
    return link, lab.records("a", "link", action="dial")[-1].time_s - broke_s
