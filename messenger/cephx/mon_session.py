"""The monitor's half of a session with an entity: challenge, tickets, keys (docs/protocol.md §5.5, §5.6).

The same requests come in AUTH_REQUEST_MORE frames and in MAuth messages; :mod:`messenger.cephx.mon_server` and
:mod:`messenger.cephx.mauth_server` handle these.
"""

from dataclasses import dataclass
from errno import EPERM

from messenger.cephx.authorizer import read_authorizer
from messenger.cephx.ciphers import KeyType, KeyUsage, SealError
from messenger.cephx.connection_secret import new_connection_secret
from messenger.cephx.exchange import AuthResult, ConMode
from messenger.cephx.key_server import KeyServer
from messenger.cephx.keys import CryptoKey, same_u64
from messenger.cephx.refusal import Refusal
from messenger.cephx.session_reply import SessionReply, encode_session_reply
from messenger.cephx.structures import (
    AuthCapsInfo,
    Authenticate,
    RequestHeader,
    RequestType,
    ResponseHeader,
    ServerChallenge,
    ServiceTicketRequest,
)
from messenger.cephx.tickets import encode_ticket_reply, open_ticket
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import AuthError, DecodeError
from messenger.randomness import RandomSource, nonzero_u64

_OLD_TICKET_MANDATORY_VERSION = 3


@dataclass(frozen=True, slots=True)
class MonReply:
    """The reply to one request."""

    payload: bytes
    result: AuthResult | None = None
    """The result of the authentication if the request proved the entity's key; None for other requests."""


class CephxMonSession:
    """One entity at one monitor.

    Args:
        keys: key database of the cluster.
        name: the name that the entity claims.
        global_id: the id that was just assigned, or that the entity claims.
        is_new: True if the id was just assigned; after the first proof it must be reclaimed with a ticket.
        allow_insecure_reclaim: ``auth_allow_insecure_global_id_reclaim``: old clients may reclaim without a
            ticket.
        rng: source of challenges and session keys.
        server_challenge: challenge of a completed authentication, see :meth:`resumed`; by default a new one is
            drawn.
    """

    def __init__(
        self,
        keys: KeyServer,
        name: AuthName,
        global_id: int,
        rng: RandomSource,
        *,
        is_new: bool,
        allow_insecure_reclaim: bool = False,
        server_challenge: int = 0,
    ) -> None:
        self._keys = keys
        self.name = name
        self.global_id = global_id
        self._is_new = is_new
        self._allow_insecure_reclaim = allow_insecure_reclaim
        self._rng = rng
        self._server_challenge = server_challenge
        self._authenticated = bool(server_challenge)

    @classmethod
    def resumed(
        cls, keys: KeyServer, result: AuthResult, rng: RandomSource, *, allow_insecure_reclaim: bool = False
    ) -> "CephxMonSession":
        """The session of an entity that the v2 handshake has authenticated, for its MAuth messages."""
        assert result.name is not None
        return cls(
            keys,
            result.name,
            result.global_id,
            rng,
            is_new=False,
            allow_insecure_reclaim=allow_insecure_reclaim,
            server_challenge=result.server_challenge,
        )

    def challenge(self) -> bytes:
        """Create the challenge that all proofs of this session answer. Unknown entities get one, too."""
        self._server_challenge = nonzero_u64(self._rng)
        return encoded(ServerChallenge(self._server_challenge))

    def request(self, payload: bytes, wall_time_s: float, con_mode: ConMode | None) -> MonReply:
        """Answer a request.

        Args:
            payload: the request, from its header on.
            wall_time_s: unix time.
            con_mode: connection mode of the handshake that the request is part of; None in MAuth messages.

        Raises:
            RefusedError: see the first group of :class:`Refusal`, including MALFORMED; for ticket requests also
                the second.
        """
        decoder = Decoder(payload)
        try:
            kind = RequestHeader.decode(decoder).request_type
            if kind == RequestType.GET_AUTH_SESSION_KEY:
                return self._session_key(Authenticate.decode(decoder), wall_time_s, con_mode)
            if con_mode is not None or kind not in list(RequestType):
                raise Refusal.UNKNOWN_REQUEST.error(f"request 0x{kind:x}")
            if not self._authenticated:
                raise Refusal.NOT_AUTHENTICATED.error(f"request 0x{kind:x} before a proof of the own key")
            if kind == RequestType.GET_PRINCIPAL_SESSION_KEY:
                return MonReply(self._service_tickets(decoder, wall_time_s))
            return MonReply(self._rotating_keys(wall_time_s))
        except DecodeError as error:
            raise Refusal.MALFORMED.error(error.detail, code=EPERM) from None

    # ---- GET_AUTH_SESSION_KEY

    def _session_key(self, proof: Authenticate, wall_time_s: float, con_mode: ConMode | None) -> MonReply:
        key = self._proven_key(proof)
        old_session_key = self._check_claim(proof)
        caps = self._keys.caps(self.name, EntityType.MON)
        if not caps:
            raise Refusal.NO_MON_CAPS.error(f"{self.name} has no capabilities at the monitors")
        grant = (self.name, self.global_id, KeyType(key.type), wall_time_s, self._rng)
        auth = self._keys.grant(EntityType.AUTH, *grant)
        secret = new_connection_secret(con_mode, self._rng) if con_mode is not None else b""
        services = tuple(self._keys.grant_all(proof.other_keys, *grant))
        payload = encode_session_reply(
            SessionReply(auth, secret, services),
            key,
            self._rng,
            old_session_key,
            other_keys=proof.other_keys,
            over_mauth=con_mode is None,
        )
        self._is_new = False
        self._authenticated = True
        session_key = auth.ticket.session_key
        result = AuthResult(
            self.global_id,
            session_key.secret,
            secret,
            name=self.name,
            caps=AuthCapsInfo.from_text(caps).caps,
            session_key_type=KeyType(session_key.type),
            server_challenge=self._server_challenge,
        )
        return MonReply(payload, result)

    def _proven_key(self, proof: Authenticate) -> CryptoKey:
        """The key with which the entity answered the challenge; the reply is sealed with it."""
        if not self._server_challenge:
            raise Refusal.NO_CHALLENGE.error(f"{self.name} answers a challenge it was not given")
        for key in self._keys.usable_keys(self.name):
            if same_u64(proof.key, key.challenge_response(self._server_challenge, proof.client_challenge)):
                self._keys.note_key_use(self.name, key)
                return key
        raise Refusal.WRONG_KEY.error(f"{self.name} does not answer the challenge with its key")

    def _check_claim(self, proof: Authenticate) -> CryptoKey | None:
        """Check that the global_id is the entity's; returns the session key of the ticket proving it (§5.5)."""
        has_ticket = bool(proof.old_ticket.blob)
        if self._is_new:
            if has_ticket:
                raise Refusal.NEW_ID_WITH_TICKET.error(f"{self.name} asks for a new global_id with an old ticket")
            return None
        try:
            if not has_ticket:
                raise Refusal.RECLAIM_WITHOUT_TICKET.error(f"{self.name} claims global_id {self.global_id}")
            return self._opened_old_ticket(proof)
        except AuthError:
            if self._allow_insecure_reclaim and proof.version < _OLD_TICKET_MANDATORY_VERSION:
                return None
            raise

    def _opened_old_ticket(self, proof: Authenticate) -> CryptoKey:
        try:
            info = open_ticket(proof.old_ticket, self._keys.secrets(EntityType.AUTH))
        except (SealError, AuthError) as error:
            raise Refusal.RECLAIM_BAD_TICKET.error(f"{self.name}: {error.detail}") from None
        if info.ticket.global_id != self.global_id or info.ticket.name != self.name:
            raise Refusal.RECLAIM_WRONG_TICKET.error(
                f"{self.name} claims global_id {self.global_id} with the ticket of {info.ticket.name} "
                f"for {info.ticket.global_id}"
            )
        return info.session_key

    # ---- the other requests

    def _service_tickets(self, decoder: Decoder, wall_time_s: float) -> bytes:
        """Grant tickets to the holder of an AUTH ticket, without a challenge (§5.6)."""
        try:
            opened = read_authorizer(decoder, {EntityType.AUTH: self._keys.secrets(EntityType.AUTH)})
        except DecodeError as error:
            raise Refusal.NOT_AN_AUTHORIZER.error(error.detail) from None
        wanted = ServiceTicketRequest.decode(decoder).keys
        ticket, session_key = opened.info.ticket, opened.info.session_key
        grants = self._keys.grant_all(
            wanted, ticket.name, ticket.global_id, KeyType(session_key.type), wall_time_s, self._rng
        )
        if wanted & ~EntityType.AUTH and not grants:
            raise Refusal.NO_SERVICE_KEY.error(f"no service of the mask 0x{wanted:x} has keys")
        header = encoded(ResponseHeader(RequestType.GET_PRINCIPAL_SESSION_KEY))
        return header + encode_ticket_reply(grants, session_key, self._rng)

    def _rotating_keys(self, wall_time_s: float) -> bytes:
        """The rotating keys of the entity's service, sealed with the entity's key."""
        key = self._keys.used_pending_keys.get(self.name) or self._keys.usable_keys(self.name)[0]
        self._keys.rotate(wall_time_s)
        secrets = encoded(self._keys.rotating_secrets(self.name.type))
        encoder = Encoder()
        ResponseHeader(RequestType.GET_ROTATING_KEY).encode(encoder)
        encoder.blob(key.seal(KeyUsage.ROTATING_SECRETS, secrets, self._rng))
        return encoder.getvalue()
