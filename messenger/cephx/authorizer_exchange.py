"""The connector's half of the authorizer exchange with a service (docs/protocol.md §5.7)."""

from errno import EOPNOTSUPP
from typing import Protocol

from messenger.cephx.authorizer import build_authorizer, open_challenge, open_reply, successor
from messenger.cephx.ciphers import KeyType, SealError
from messenger.cephx.connection_secret import usable_connection_secret
from messenger.cephx.exchange import AuthMethod, AuthOpening, AuthResult, ConMode
from messenger.cephx.keys import same_u64
from messenger.cephx.refusal import Refusal, refusal
from messenger.cephx.structures import Authorize
from messenger.cephx.tickets import Ticket
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.randomness import RandomSource


class TicketSource(Protocol):
    """A store of tickets."""

    global_id: int

    def ticket_for(self, service: EntityType, wall_time_s: float, rng: RandomSource) -> Ticket:
        """A ticket that is valid at ``wall_time_s``; raises RefusedError if there is none."""

    def ticket_refused(self, ticket: Ticket) -> None:
        """Note that the service refused ``ticket``."""


class AuthorizerExchange:
    """One authentication to a service: authorizer, answer to the challenge, check of the reply."""

    def __init__(self, source: TicketSource, service: EntityType, wall_time_s: float, rng: RandomSource) -> None:
        self._source = source
        self._service = service
        self._wall_time_s = wall_time_s
        self._rng = rng
        self._nonce = rng.getrandbits(64)
        self._ticket: Ticket | None = None
        self._global_id = 0
        """That of the ticket: the client may log in again, with another one, while a challenge is on its way."""
        self._challenged = False

    def start(self) -> AuthOpening:
        """Build the first authorizer.

        Raises:
            RefusedError: NO_TICKET or OWN_TICKET_EXPIRED.
        """
        self._challenged = False
        self._ticket = self._source.ticket_for(self._service, self._wall_time_s, self._rng)
        self._global_id = self._source.global_id
        return AuthOpening(AuthMethod.CEPHX, self._authorizer(Authorize(self._nonce)))

    def repeated(self) -> None:
        """v1: accept a second challenge of the same authorizer: the peer has replaced a session (§3.4)."""
        self._challenged = False

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """Drop the ticket, so that a new one is requested, and end this exchange (§5.8).

        Raises:
            RefusedError: always; REFUSED or NO_COMMON_METHOD.
        """
        if result != -EOPNOTSUPP:  # which concerns methods and modes, not the ticket
            self._source.ticket_refused(self._current_ticket())
        raise refusal(AuthMethod.CEPHX, result, allowed_methods)

    def more(self, payload: bytes) -> bytes:
        """Build the second authorizer, which answers the service's challenge.

        Raises:
            RefusedError: BAD_CHALLENGE: not sealed with the session key; UNEXPECTED_REPLY: a second challenge.
        """
        if self._challenged:
            raise Refusal.UNEXPECTED_REPLY.error("service challenged twice")
        self._challenged = True
        try:
            challenge = open_challenge(self._current_ticket().session_key, payload)
        except SealError as error:
            raise Refusal.BAD_CHALLENGE.error(f"challenge: {error.detail}") from None
        answer = successor(challenge)
        return self._authorizer(Authorize(self._nonce, have_challenge=True, server_challenge_plus_one=answer))

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:  # noqa: ARG002 - the client knows its global_id
        """Check the reply, which proves that the service could open the ticket.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: BAD_REPLY: not sealed with the session key; WRONG_NONCE: not our nonce plus one;
                BAD_CONNECTION_SECRET.
        """
        ticket = self._current_ticket()
        session_key = ticket.session_key
        try:
            reply = open_reply(session_key, payload)
        except SealError as error:
            raise Refusal.BAD_REPLY.error(f"reply: {error.detail}") from None
        if not same_u64(reply.nonce_plus_one, successor(self._nonce)):
            raise Refusal.WRONG_NONCE.error("reply does not carry this exchange's nonce plus one")
        secret = usable_connection_secret(reply.connection_secret, con_mode)
        return AuthResult(
            self._global_id,
            session_key.secret,
            secret,
            session_key_type=KeyType(session_key.type),
            ticket_expires_s=ticket.expires_s,
        )

    def _authorizer(self, authorize: Authorize) -> bytes:
        return build_authorizer(self._current_ticket(), self._global_id, authorize, self._rng)

    def _current_ticket(self) -> Ticket:
        if self._ticket is None:
            raise LocalError("an authorizer exchange begins with start()")
        return self._ticket
