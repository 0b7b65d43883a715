"""Authentication in the CONNECT of msgr v1, as far as it differs from v2 (docs/protocol.md §3.3, §3.4).

The payloads are those of v2. But with v1 a monitor accepts all peers except other monitors without an authorizer,
and authenticates them by MAuth messages (:mod:`messenger.cephx.mauth_client`); and challenges depend on a feature.
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
    """Features that cephx requires of a peer on v1; names and defaults are those of Ceph's options (§7.3)."""

    cephx_require_signatures: bool = False
    cephx_cluster_require_signatures: bool = False
    cephx_service_require_signatures: bool = False
    cephx_require_version: int = 2
    cephx_cluster_require_version: int = 2
    cephx_service_require_version: int = 2

    def features(self, peer_type: EntityType) -> int:
        """The features required of a peer whose CONNECT has a cephx authorizer (§3.4 step 2)."""
        return self.features_of(cluster=peer_type in _CLUSTER_PEERS)

    def features_of(self, *, cluster: bool) -> int:
        """The features required of daemons (``cluster``) or of clients."""
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
    """The connector's exchange for one v1 link: that of ``client``, but an empty one for monitors.

    The first CONNECT uses the payload and method of ``start()``, the one that answers a challenge the payload of
    ``more(challenge)``, and all others the payload of the one before, after ``repeated()``. The authorizer reply
    goes through ``done(0, ConMode.CRC, authorizer)``: that of READY and SEQ even if empty, that of other replies
    if there is one, before the tag is handled. The last result signs the messages. BADAUTHORIZER is
    ``bad_method(-EACCES, [method])``.
    """
    if peer_type is EntityType.MON and own_type is not EntityType.MON:
        return EmptyExchange()
    return client.exchange(peer_type, wall_time_s, rng)


class EmptyExchange:
    """An exchange without an authorizer, as v1 clients use with monitors."""

    def start(self) -> AuthOpening:
        """Authorizer protocol 0 and an empty payload."""
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
        """Return an empty result; raises RefusedError UNEXPECTED_REPLY if the peer sent an authorizer reply."""
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
    """Check the authorizer of a CONNECT (§3.4 step 4).

    Args:
        exchange: exchange of the acceptor's AuthServer; the same for all CONNECTs of a link.
        own_type: the acceptor's entity type.
        peer_type: ``host_type`` of the CONNECT.
        protocol: ``authorizer_protocol`` of the CONNECT.
        authorizer: may be empty.
        features: features of the CONNECT; peers without CEPHX_V2 are not challenged.
        require_authorizer: False for messengers that accept every peer, as for heartbeats.

    Returns:
        AuthMore with the payload of CHALLENGE_AUTHORIZER, or AuthDone with the payload of the last reply.

    Raises:
        DecodeError: the authorizer is malformed. The acceptor answers this and the next with BADAUTHORIZER.
        RefusedError: NO_AUTHORIZER, METHOD_NOT_ALLOWED, or as the method's exchange.
    """
    if not authorizer:
        by_mauth = own_type is EntityType.MON and peer_type is not EntityType.MON
        if by_mauth or not require_authorizer:
            return _NO_AUTHORIZER
        raise Refusal.NO_AUTHORIZER.error(f"{peer_type.label} presents no authorizer")
    if protocol not in exchange.allowed_methods:
        raise Refusal.METHOD_NOT_ALLOWED.error(f"{method_label(protocol)} is not allowed here")
    return exchange.authorize(AuthMethod(protocol), authorizer, challenge=has_feature(features, Feature.CEPHX_V2))
