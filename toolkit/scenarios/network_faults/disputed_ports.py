"""NF: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from dataclasses import replace

from messenger.denc.address import AddrVec
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, stage
from toolkit.scenarios.network_faults import NF
from toolkit.scenarios.shared.disputed import opens_or_breaks
from toolkit.scenarios.shared.node_states import FEW_WAYS
from toolkit.scenarios.shared.settings import settings


@NF.scenario(
    "NF-08-rule",
    "portless_peer",
    priority=2,
    rules=("portless_peer",),
    ways=FEW_WAYS,
    cases=settings("portless_peer"),
)
def portless_peer(lab: Lab, rule: str) -> None:
    """portless_peer decides if a connector without a port gets a session that its acceptor would dial.

    A peer whose address has port 0 dials a lossless peer. It gets its session, or, as in crimson, the link breaks,
    because the node could not dial it again, depending on ``portless_peer``.
    """
    peer = stage(lab, ACCEPTOR, policy="lossless_peer", portless_peer=rule)
    own = peer.spec.addrs.front
    link = peer.dial("a").pretend(AddrVec((replace(own, port=0),)))
    opens_or_breaks(lab, peer, link, opens=rule == "accept")
