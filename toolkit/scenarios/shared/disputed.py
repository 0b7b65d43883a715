"""Helpers of scenarios about disputed rules."""

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import breaks
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.peer import RawPeer


def opens_or_breaks(lab: Lab, peer: RawPeer, link: RawLink, *, opens: bool) -> None:
    """Require that the link opens a session, or breaks, after which one with the peer's own address opens."""
    if not opens:
        breaks(lab, link, link.handshake, "MALFORMED")
        lab.expect("a", "registry", 0)
        link = peer.dial("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
