"""The monitor's side of authentication by MAuth messages (docs/protocol.md §5.6, §5.10)."""

from messenger.cephx.exchange import AuthMethod, AuthResult
from messenger.cephx.mauth import Introduction, MAuthAnswer
from messenger.cephx.mon_server import CLUSTER_ENTITIES, MonAuthServer
from messenger.cephx.mon_session import CephxMonSession
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.v1 import DEFAULT_REQUIREMENTS, CephxRequirements
from messenger.denc.codec import Decoder
from messenger.denc.features import ALL_FEATURES, has_feature
from messenger.errors import DecodeError
from messenger.randomness import RandomSource


class MonAuthSession:
    """Authentication of one connection at a monitor, by its MAuth messages.

    With v1 this is the whole login; with v2, where the handshake has authenticated the peer, only renewals.

    Args:
        server: the monitor's authentication.
        rng: source of challenges and session keys.
        established: the result of the v2 handshake.
        features: v1: the negotiated features.
        requirements: v1: features that cephx requires.
    """

    def __init__(
        self,
        server: MonAuthServer,
        rng: RandomSource,
        *,
        established: AuthResult | None = None,
        features: int = ALL_FEATURES,
        requirements: CephxRequirements = DEFAULT_REQUIREMENTS,
    ) -> None:
        self._server = server
        self._rng = rng
        self._features = features
        self._requirements = requirements
        self._method = AuthMethod.UNKNOWN
        self._cephx: CephxMonSession | None = None
        self.result = established
        """Authentication of the peer; None before that, while its other messages must wait."""
        self.global_id = established.global_id if established else 0
        if established is None:
            return
        self._method = AuthMethod.CEPHX if established.session_key else AuthMethod.NONE
        if established.session_key:
            self._cephx = CephxMonSession.resumed(
                server.keys, established, rng, allow_insecure_reclaim=server.allow_insecure_reclaim
            )

    def handle(self, protocol: int, payload: bytes, wall_time_s: float) -> MAuthAnswer | None:
        """Answer one MAuth; an error is part of the answer.

        Returns:
            None if the monitor is not ready and sends nothing. The same MAuth may be handled again later.
        """
        try:
            if protocol == AuthMethod.UNKNOWN and self._method is AuthMethod.UNKNOWN:
                return self._introduced(Introduction.decode(Decoder(payload)))
            return self._request(payload, wall_time_s)
        except DecodeError as error:
            return self._refused(Refusal.MALFORMED.error(error.detail))
        except RefusedError as error:
            return None if error.refusal is Refusal.BUSY else self._refused(error)

    def _introduced(self, introduction: Introduction) -> MAuthAnswer:
        name = introduction.name
        method = self._pick(introduction)
        if method is AuthMethod.CEPHX:
            self._cephx = self._server.introduce(name, introduction.global_id, self._rng)
            self.global_id = self._cephx.global_id
            payload, done = self._cephx.challenge(), None
        else:
            self.global_id = introduction.global_id or self._server.new_global_id()
            payload, done = b"", AuthResult(self.global_id, name=name)
        self._method = method
        self.result = done
        return MAuthAnswer(method, 0, self.global_id, payload, done)

    def _pick(self, introduction: Introduction) -> AuthMethod:
        """The method that both sides support, cephx before none; not cephx if the peer lacks required features."""
        entity = introduction.name.type
        common = {method for method in self._server.methods_for(entity) if method in introduction.methods}
        if not has_feature(self._features, self._requirements.features_of(cluster=entity in CLUSTER_ENTITIES)):
            common.discard(AuthMethod.CEPHX)
        if not common:
            raise Refusal.METHOD_NOT_ALLOWED.error(f"none of the methods of {introduction.name} is allowed")
        return max(common)

    def _request(self, payload: bytes, wall_time_s: float) -> MAuthAnswer:
        if self._cephx is None:
            raise Refusal.UNKNOWN_REQUEST.error("request before an introduction, or without cephx")
        reply = self._cephx.request(payload, wall_time_s, con_mode=None)
        self.result = reply.result or self.result
        return MAuthAnswer(self._method, 0, self.global_id, reply.payload, reply.result)

    def _refused(self, error: RefusedError) -> MAuthAnswer:
        return MAuthAnswer(self._method, -error.errno, self.global_id, refusal=error.refusal, detail=error.detail)
