"""The acceptor of cephx at a service, which checks authorizers (docs/protocol.md §5.7)."""

from collections.abc import Mapping

from messenger.cephx.authorizer import (
    OpenedAuthorizer,
    answers_challenge,
    open_authorizer,
    seal_challenge,
    seal_reply,
    successor,
)
from messenger.cephx.ciphers import KeyType
from messenger.cephx.connection_secret import new_connection_secret
from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, AuthResult, AuthStep, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.refusal import Refusal
from messenger.cephx.structures import AuthorizeReply
from messenger.denc.entity import EntityType
from messenger.randomness import RandomSource, nonzero_u64


class CephxService:
    """A service that shares keys with the monitors, or with peers that create their own tickets.

    Args:
        service_type: the service for which tickets are accepted.
        secrets: the keys by secret_id (``NAMED_KEY_SECRET_ID`` for a monitor's own key). The mapping is used
            without a copy: change it to rotate keys.

    Raises:
        LocalError: a key of an unsupported type.
    """

    def __init__(self, service_type: EntityType, secrets: Mapping[int, CryptoKey]) -> None:
        for key in secrets.values():
            key.require_usable(f"service key of {service_type.label}")
        self._service_type = service_type
        self._secrets = secrets

    def exchange(
        self,
        peer_type: EntityType,  # noqa: ARG002 - see below
        wall_time_s: float,
        rng: RandomSource,
    ) -> "CephxServiceExchange":
        """A new exchange; the peer's name comes from its ticket, not from its HELLO."""
        return CephxServiceExchange({self._service_type: self._secrets}, wall_time_s, rng)


class CephxServiceExchange:
    """One authentication: authorizer, challenge, authorizer with the answer, reply."""

    allowed_methods: tuple[AuthMethod, ...] = (AuthMethod.CEPHX,)

    def __init__(
        self,
        service_keys: Mapping[EntityType, Mapping[int, CryptoKey]],
        wall_time_s: float,
        rng: RandomSource,
    ) -> None:
        self._service_keys = service_keys
        self._wall_time_s = wall_time_s
        self._rng = rng
        self._con_mode = ConMode.CRC
        self._challenge: int | None = None

    def start(
        self,
        method: AuthMethod,  # noqa: ARG002 - there is one
        con_mode: ConMode,
        payload: bytes,
    ) -> AuthStep:
        """Check the first authorizer and challenge its sender, even if it already contains an answer.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: NOT_AN_AUTHORIZER, WRONG_SERVICE, UNKNOWN_SECRET, BAD_TICKET, EXPIRED_TICKET,
                WRONG_GLOBAL_ID, BAD_AUTHORIZE.
        """
        opened = self._open(payload)
        self._con_mode = con_mode
        return self._challenge_to(opened)

    def more(self, payload: bytes) -> AuthStep:
        """Check the second authorizer, which must answer the challenge; each challenge allows one attempt.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: as for the first; NO_CHALLENGE; CHALLENGE_MISMATCH.
        """
        challenge, self._challenge = self._challenge, None
        if challenge is None:
            raise Refusal.NO_CHALLENGE.error("second authorizer without a challenge to answer")
        opened = self._open(payload)
        if not answers_challenge(opened.authorize, challenge):
            raise Refusal.CHALLENGE_MISMATCH.error("authorizer does not answer this link's challenge")
        return self._accept(opened)

    def authorize(
        self,
        method: AuthMethod,  # noqa: ARG002 - there is one
        payload: bytes,
        *,
        challenge: bool,
    ) -> AuthStep:
        """Check the authorizer of a CONNECT; called for every CONNECT of a link (§3.3).

        A challenge is valid for all further CONNECTs of the link, because a client whose CONNECT is answered with
        RETRY_GLOBAL or another retry repeats its authorizer. An authorizer without an answer gets a new challenge.

        Args:
            method: cephx.
            payload: the authorizer.
            challenge: False for peers without CEPHX_V2, which do not support challenges.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: as for :meth:`start`; CHALLENGE_MISMATCH.
        """
        opened = self._open(payload)
        if challenge:
            if self._challenge is None or not opened.authorize.have_challenge:
                return self._challenge_to(opened)
            if not answers_challenge(opened.authorize, self._challenge):
                self._challenge = None
                raise Refusal.CHALLENGE_MISMATCH.error("authorizer does not answer this link's challenge")
        return self._accept(opened)

    def _challenge_to(self, opened: OpenedAuthorizer) -> AuthMore:
        self._challenge = nonzero_u64(self._rng)
        return AuthMore(seal_challenge(opened.info.session_key, self._challenge, self._rng))

    def _accept(self, opened: OpenedAuthorizer) -> AuthDone:
        secret = new_connection_secret(self._con_mode, self._rng)
        ticket, session_key = opened.info.ticket, opened.info.session_key
        reply = AuthorizeReply(successor(opened.authorize.nonce), secret)
        result = AuthResult(
            ticket.global_id,
            session_key.secret,
            secret,
            name=ticket.name,
            caps=ticket.caps.caps,
            session_key_type=KeyType(session_key.type),
            ticket_expires_s=ticket.expires.to_seconds(),
        )
        return AuthDone(seal_reply(session_key, reply, self._rng), result)

    def _open(self, payload: bytes) -> OpenedAuthorizer:
        opened = open_authorizer(payload, self._service_keys)
        expires_s = opened.info.ticket.expires.to_seconds()
        if expires_s < self._wall_time_s:
            late_s = self._wall_time_s - expires_s
            raise Refusal.EXPIRED_TICKET.error(f"ticket expired {late_s:.0f} s ago")
        return opened
