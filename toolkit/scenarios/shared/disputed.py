"""What scenarios of disputed rules have in common."""

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import breaks
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.peer import RawPeer


def opens_or_breaks(lab: Lab, peer: RawPeer, link: RawLink, *, opens: bool) -> None:
    """The link opens a session, or breaks, and a link that pretends nothing opens one."""
    if not opens:
        breaks(lab, link, link.handshake, "MALFORMED")
        lab.expect("a", "registry", 0)
        link = peer.dial("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
