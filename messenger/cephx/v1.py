"""Authentication inside the CONNECT of msgr v1 (docs/protocol.md §3.3, §3.4): what differs from v2's exchanges.

The payloads are those of v2. But on v1 a monitor takes everybody but other monitors without an authorizer, and
authenticates them by MAuth messages (:mod:`messenger.cephx.mauth_client`); and challenges depend on a feature.
"""

from dataclasses import dataclass

from messenger.cephx.exchange import (
    AuthClient,
    AuthDone,
    AuthMethod,
    AuthOpening,
    AuthResult,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.cephx.refusal import Refusal, method_label, refusal
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature, has_feature
from messenger.randomness import RandomSource

_CLUSTER_PEERS = frozenset({EntityType.OSD, EntityType.MDS, EntityType.MGR})
_NO_AUTHORIZER = AuthDone(b"", AuthResult(0))


@dataclass(frozen=True, slots=True)
class CephxRequirements:
    """What a peer that authenticates by cephx must be able to do on v1; Ceph's options and defaults (§7.3)."""

    cephx_require_signatures: bool = False
    cephx_cluster_require_signatures: bool = False
    cephx_service_require_signatures: bool = False
    cephx_require_version: int = 2
    cephx_cluster_require_version: int = 2
    cephx_service_require_version: int = 2

    def features(self, peer_type: EntityType) -> int:
        """The features to require of a peer whose CONNECT carries a cephx authorizer (§3.4 step 2)."""
        return self.features_of(cluster=peer_type in _CLUSTER_PEERS)

    def features_of(self, *, cluster: bool) -> int:
        """The features to require of daemons, or of clients."""
        signatures = self.cephx_cluster_require_signatures if cluster else self.cephx_service_require_signatures
        version = self.cephx_cluster_require_version if cluster else self.cephx_service_require_version
        required = 0
        if signatures or self.cephx_require_signatures:
            required |= Feature.MSG_AUTH
        if max(version, self.cephx_require_version) >= 2:
            required |= Feature.CEPHX_V2
        return required


DEFAULT_REQUIREMENTS = CephxRequirements()


def connect_exchange(
    client: AuthClient, own_type: EntityType, peer_type: EntityType, wall_time_s: float, rng: RandomSource
) -> ClientExchange:
    """The connector's exchange for one link of v1: the client's own, but none towards monitors.

    The first CONNECT takes the payload and method of ``start()``, the one that answers a challenge the payload of
    ``more(challenge)``, and all others that of the one before, after ``repeated()``. The authorizer of a reply
    goes through ``done(0, ConMode.CRC, authorizer)``: that of READY and SEQ even if empty, that of RETRY_SESSION
    and the like if there is one, before acting on the tag. The last result signs the messages. BADAUTHORIZER is
    ``bad_method(-EACCES, [method])``.
    """
    if peer_type is EntityType.MON and own_type is not EntityType.MON:
        return EmptyExchange()
    return client.exchange(peer_type, wall_time_s, rng)


class EmptyExchange:
    """No authorizer at all, as v1 clients present to monitors."""

    def start(self) -> AuthOpening:
        """Authorizer protocol 0 and no bytes."""
        return AuthOpening(AuthMethod.UNKNOWN, b"")

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again. Nothing to prepare."""

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """Always raises RefusedError: REFUSED or NO_COMMON_METHOD."""
        raise refusal(AuthMethod.UNKNOWN, result, allowed_methods)

    def more(self, payload: bytes) -> bytes:
        """Always raises RefusedError: UNEXPECTED_REPLY."""
        raise Refusal.UNEXPECTED_REPLY.error(f"challenge of {len(payload)} bytes to no authorizer")

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:  # noqa: ARG002 - all is known
        """Nothing was proved; raises RefusedError: UNEXPECTED_REPLY if the peer believes otherwise."""
        if payload:
            raise Refusal.UNEXPECTED_REPLY.error(f"authorizer reply of {len(payload)} bytes to no authorizer")
        return AuthResult(0)


def judge_connect(
    exchange: ServerExchange,
    own_type: EntityType,
    peer_type: EntityType,
    *,
    protocol: int,
    authorizer: bytes,
    features: int,
    require_authorizer: bool = True,
) -> AuthStep:
    """Judge the authorizer of a CONNECT (§3.4 step 4).

    Args:
        exchange: of the acceptor's AuthServer; one for all CONNECTs of a link.
        own_type: the acceptor's.
        peer_type: ``host_type`` of the CONNECT.
        protocol: ``authorizer_protocol`` of the CONNECT.
        authorizer: may be empty.
        features: of the CONNECT; those without CEPHX_V2 are not challenged.
        require_authorizer: False at messengers that accept every peer, as for heartbeats.

    Returns:
        AuthMore with what goes into CHALLENGE_AUTHORIZER, or AuthDone with what goes into the reply.

    Raises:
        DecodeError: malformed. This and the next mean BADAUTHORIZER.
        RefusedError: NO_AUTHORIZER, METHOD_NOT_ALLOWED, or what the method says.
    """
    if not authorizer:
        by_mauth = own_type is EntityType.MON and peer_type is not EntityType.MON
        if by_mauth or not require_authorizer:
            return _NO_AUTHORIZER
        raise Refusal.NO_AUTHORIZER.error(f"{peer_type.label} presents no authorizer")
    if protocol not in exchange.allowed_methods:
        raise Refusal.METHOD_NOT_ALLOWED.error(f"{method_label(protocol)} is not allowed here")
    return exchange.authorize(AuthMethod(protocol), authorizer, challenge=has_feature(features, Feature.CEPHX_V2))
