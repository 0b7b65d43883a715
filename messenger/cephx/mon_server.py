"""Authentication at a monitor: cephx and none, over v2 and by MAuth (docs/protocol.md §5.5, §5.6, §5.10)."""

from collections.abc import Sequence
from dataclasses import dataclass

from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, AuthResult, AuthStep, ConMode
from messenger.cephx.key_server import KeyServer
from messenger.cephx.mon_session import CephxMonSession
from messenger.cephx.none import require_crc
from messenger.cephx.refusal import Refusal, method_label
from messenger.cephx.service import CephxServiceExchange
from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import DecodeError
from messenger.randomness import RandomSource

CLUSTER_ENTITIES = frozenset({EntityType.MON, EntityType.OSD, EntityType.MDS, EntityType.MGR})
"""Entity types under ``auth_cluster_required``; the others are under ``auth_service_required`` (§5.10)."""


@dataclass(slots=True)
class MonAuthServer:
    """The authentication of one monitor. Its attributes may be replaced at any time.

    Several monitors of one cluster share ``keys``.
    """

    keys: KeyServer
    cluster_required: Sequence[AuthMethod] = (AuthMethod.CEPHX,)
    """``auth_cluster_required``."""
    service_required: Sequence[AuthMethod] = (AuthMethod.CEPHX,)
    """``auth_service_required``."""
    allow_insecure_reclaim: bool = False
    """``auth_allow_insecure_global_id_reclaim``."""
    ready: bool = True
    """True if the monitor is in the quorum; before that it closes every connection silently (§4.7)."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> "MonServerExchange":
        """A new exchange with a peer that announced ``peer_type`` in HELLO."""
        return MonServerExchange(self, peer_type, wall_time_s, rng)

    def methods_for(self, entity: EntityType) -> tuple[AuthMethod, ...]:
        """The methods with which entities of that type may authenticate."""
        return tuple(self.cluster_required if entity in CLUSTER_ENTITIES else self.service_required)

    def require_method(self, name: AuthName, method: AuthMethod) -> None:
        """Raise RefusedError METHOD_NOT_ALLOWED unless the type of ``name``, not of HELLO, may use ``method``."""
        if method not in self.methods_for(name.type):
            raise Refusal.METHOD_NOT_ALLOWED.error(f"{method_label(method)} is not allowed for {name}")

    def introduce(self, name: AuthName, claimed_id: int, rng: RandomSource) -> CephxMonSession:
        """A session for a client named ``name``, with its claimed global_id or, if that is 0, a new one.

        Raises:
            RefusedError: BUSY.
        """
        return CephxMonSession(
            self.keys,
            name,
            claimed_id or self.new_global_id(),
            rng,
            is_new=not claimed_id,
            allow_insecure_reclaim=self.allow_insecure_reclaim,
        )

    def new_global_id(self) -> int:
        """Assign an unused global_id; raises RefusedError BUSY if the monitor is not ready or no id is left."""
        self.require_ready()
        return self.keys.new_global_id()

    def require_ready(self) -> None:
        """Raise RefusedError BUSY unless the monitor is in the quorum."""
        if not self.ready:
            raise Refusal.BUSY.error("the monitor is not in the quorum")


class MonServerExchange:
    """One authentication in the v2 handshake, or of another monitor's authorizer on v1 and v2."""

    def __init__(
        self, server: MonAuthServer, peer_type: EntityType, wall_time_s: float, rng: RandomSource
    ) -> None:
        self.allowed_methods = server.methods_for(peer_type)
        self._server = server
        self._peer_type = peer_type
        self._wall_time_s = wall_time_s
        self._rng = rng
        self._con_mode = ConMode.CRC
        self._session: CephxMonSession | None = None
        self._among_monitors: CephxServiceExchange | None = None

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: METHOD_NOT_ALLOWED, BUSY; for an authorizer, see :class:`CephxServiceExchange`.
        """
        self._server.require_ready()
        self._session = self._among_monitors = None
        if method is AuthMethod.CEPHX and payload[:1] == bytes([AuthMode.AUTHORIZER]):
            self._among_monitors = self._monitors_exchange()
            return self._among_monitors.start(method, con_mode, payload)
        prelude = Prelude.decode(Decoder(payload))
        if prelude.mode != AuthMode.MON:
            raise DecodeError(f"auth mode {prelude.mode} is not for a monitor")
        self._server.require_method(prelude.name, method)
        if method is AuthMethod.NONE:
            require_crc(con_mode)
            global_id = prelude.global_id or self._server.new_global_id()
            return AuthDone(b"", AuthResult(global_id, name=prelude.name))
        self._con_mode = con_mode
        self._session = self._server.introduce(prelude.name, prelude.global_id, self._rng)
        return AuthMore(self._session.challenge())

    def more(self, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST_MORE.

        Raises:
            DecodeError: a malformed authorizer.
            RefusedError: see :class:`CephxMonSession`; for an authorizer, see :class:`CephxServiceExchange`.
        """
        if self._among_monitors is not None:
            return self._among_monitors.more(payload)
        session, self._session = self._session, None  # one attempt for each challenge
        if session is None:
            raise Refusal.NO_CHALLENGE.error("another round of no exchange")
        reply = session.request(payload, self._wall_time_s, self._con_mode)
        assert reply.result is not None
        return AuthDone(reply.payload, reply.result)

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:
        """Check the authorizer of another monitor's CONNECT; all other peers send none and use MAuth (§3.3).

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: METHOD_NOT_ALLOWED; see :class:`CephxServiceExchange`.
        """
        if method not in self.allowed_methods:
            raise Refusal.METHOD_NOT_ALLOWED.error(f"{method_label(method)} is not allowed here")
        if method is AuthMethod.NONE:
            prelude = Prelude.decode(Decoder(payload))
            return AuthDone(b"", AuthResult(prelude.global_id, name=prelude.name))
        if self._among_monitors is None:
            self._among_monitors = self._monitors_exchange()
        return self._among_monitors.authorize(method, payload, challenge=challenge)

    def _monitors_exchange(self) -> CephxServiceExchange:
        if self._peer_type is not EntityType.MON:
            raise Refusal.NOT_AN_AUTHORIZER.error(
                f"authorizer from a {self._peer_type.label}, which is no monitor"
            )
        keys = {EntityType.MON: self._server.keys.secrets(EntityType.MON)}
        return CephxServiceExchange(keys, self._wall_time_s, self._rng)
