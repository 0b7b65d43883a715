"""What a fault means for a session, per kind of peer (protocol.md §3.8)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from messenger.denc.entity import EntityType


@dataclass(frozen=True, slots=True)
class Policy:
    """One row of the policy table."""

    name: str
    lossy: bool = False
    """A fault ends the session; nothing is replayed."""
    server: bool = False
    """Never dials; waits for the peer to come back."""
    standby: bool = False
    """After a fault with nothing to send, waits instead of dialling."""
    resetcheck: bool = False
    """Notices that the peer lost its state, and tells the application by remote_reset."""
    register_lossy_clients: bool = True
    """An accepted lossy peer is found by its address and replaced when it dials again."""
    features_required: int = 0
    """Peers lacking one of these feature bits are refused."""

    def requiring(self, features: int) -> "Policy":
        """The same policy with more required feature bits."""
        return replace(self, features_required=self.features_required | features)


STATEFUL_SERVER = Policy("stateful_server", server=True, standby=True, resetcheck=True)
STATELESS_REGISTERED_SERVER = Policy("stateless_registered_server", lossy=True, server=True)
STATELESS_SERVER = Policy("stateless_server", lossy=True, server=True, register_lossy_clients=False)
LOSSLESS_PEER = Policy("lossless_peer", standby=True)
LOSSLESS_PEER_REUSE = Policy("lossless_peer_reuse", standby=True, resetcheck=True)
LOSSY_CLIENT = Policy("lossy_client", lossy=True)
LOSSLESS_CLIENT = Policy("lossless_client", resetcheck=True)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        STATEFUL_SERVER,
        STATELESS_REGISTERED_SERVER,
        STATELESS_SERVER,
        LOSSLESS_PEER,
        LOSSLESS_PEER_REUSE,
        LOSSY_CLIENT,
        LOSSLESS_CLIENT,
    )
}


@dataclass(slots=True)
class PolicySet:
    """The policy towards each type of peer; ``default`` for those not listed."""

    default: Policy = LOSSLESS_CLIENT
    by_type: dict[EntityType, Policy] = field(default_factory=dict)

    def towards(self, peer: EntityType) -> Policy:
        """The policy for a peer of that type."""
        return self.by_type.get(peer, self.default)
