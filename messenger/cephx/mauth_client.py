"""The client's side of authentication by MAuth: the whole login with v1, renewals with v2 (docs/protocol.md §5.6).

The owner of a connection sends what :meth:`MonAuthClient.start` (v1 only), :meth:`MonAuthClient.handle` and
:meth:`MonAuthClient.due` return. It calls the last periodically, and at once when a service has refused a ticket.
"""

from collections import deque
from enum import IntEnum

from messenger.cephx.authorizer import build_authorizer
from messenger.cephx.ciphers import KeyUsage, SealError
from messenger.cephx.client import CephxClient, open_server_challenge
from messenger.cephx.exchange import AuthClient, AuthMethod, AuthResult
from messenger.cephx.mauth import Introduction, MAuthRequest
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import Refusal, errno_name
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.structures import (
    Authorize,
    RequestHeader,
    RequestType,
    ResponseHeader,
    RotatingSecrets,
    ServiceTicketRequest,
)
from messenger.cephx.tickets import Ticket, decode_ticket_reply
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityType
from messenger.denc.layout import encoded
from messenger.errors import LocalError
from messenger.randomness import RandomSource

RETRY_S = 10.0
"""Seconds after which missing tickets are requested again: a MonClient's tick, ``mon_client_ping_interval``."""
_ROTATING_RETRY_S = 1.0
_NEVER_S = float("-inf")


class _Asked(IntEnum):
    """Pending requests; all except the first have the number that their reply repeats."""

    METHOD = 0
    SESSION_KEY = RequestType.GET_AUTH_SESSION_KEY
    TICKETS = RequestType.GET_PRINCIPAL_SESSION_KEY
    ROTATING_KEYS = RequestType.GET_ROTATING_KEY


class MonAuthClient:
    """Authentication and renewal on one connection to a monitor.

    Received tickets are stored in the identity, as in the handshake of v2.

    Args:
        auth: the identity: a CephxClient, a NoneClient, or a ClientAuth of those.
        rng: source of nonces and challenges.
        rotating: rotating keys of a daemon, which are renewed too.
        established: the result of the v2 handshake. Without it, call :meth:`start` first.

    Raises:
        LocalError: an identity of another kind.
    """

    def __init__(
        self,
        auth: AuthClient,
        rng: RandomSource,
        *,
        rotating: RotatingKeyring | None = None,
        established: AuthResult | None = None,
    ) -> None:
        self._auth = auth
        self._identities = dict(auth.methods) if isinstance(auth, ClientAuth) else {_method_of(auth): auth}
        self._rng = rng
        self._rotating = rotating
        self._asked: deque[_Asked] = deque()
        self._old_ticket: Ticket | None = None
        self._tickets_asked_at_s = self._rotating_asked_at_s = _NEVER_S
        self._method = AuthMethod.UNKNOWN
        self._server_challenge = self._global_id = 0
        self.authenticated = established is not None
        """True once other messages may be sent on this connection."""
        if established is not None:
            self._method = AuthMethod.CEPHX if established.session_key else AuthMethod.NONE
            self._server_challenge = established.server_challenge
            self._global_id = established.global_id

    def start(self, wall_time_s: float) -> MAuthRequest:
        """The first MAuth of a v1 connection: name, methods, and the global_id if it can be proved."""
        cephx = self._cephx
        self._old_ticket = cephx.old_ticket(wall_time_s) if cephx else None
        identity = cephx or self._none
        assert identity is not None
        claimed = identity.global_id if cephx is None or self._old_ticket else 0
        self._asked = deque([_Asked.METHOD])
        introduction = Introduction(frozenset(self._identities), identity.name, claimed)
        return MAuthRequest(AuthMethod.UNKNOWN, encoded(introduction))

    @property
    def is_current(self) -> bool:
        """True if the identity's tickets are those of this connection.

        False if it has authenticated to another monitor since. Its AUTH ticket cannot be renewed here then, so of
        several connections opened at once keep the current one.
        """
        identity = self._cephx if self._method is AuthMethod.CEPHX else self._none
        return identity is not None and identity.global_id == self._global_id

    def due(self, wall_time_s: float) -> MAuthRequest | None:
        """The next request for tickets or rotating keys to renew; call it again until it returns None."""
        cephx = self._cephx
        if not self.authenticated or cephx is None or self._method is not AuthMethod.CEPHX:
            return None
        return self._due_tickets(cephx, wall_time_s) or self._due_rotating_keys(wall_time_s)

    def handle(
        self, protocol: int, result: int, global_id: int, payload: bytes, wall_time_s: float
    ) -> MAuthRequest | None:
        """Process one MAuthReply.

        Returns:
            The next request; None if there is nothing to request now.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: REFUSED, NO_COMMON_METHOD, or a reply that is not genuine. Before :attr:`authenticated`
                the connection is of no further use. Later it is: the request will be repeated after a while, and
                    the
                current tickets are valid until they expire.
        """
        asked = self._answered(payload)
        if result:
            self._refused(asked, result)
        if asked is _Asked.METHOD:
            return self._handle_method(protocol, global_id, payload)
        assert self._cephx is not None
        if asked is _Asked.SESSION_KEY:
            return self._handle_session_key(self._cephx, global_id, payload, wall_time_s)
        if asked is _Asked.TICKETS:
            self._handle_tickets(self._cephx, payload, wall_time_s)
        else:
            self._handle_rotating_keys(self._cephx, payload)
        return self.due(wall_time_s)

    # ---- requests

    @property
    def _cephx(self) -> CephxClient | None:
        identity = self._identities.get(AuthMethod.CEPHX)
        return identity if isinstance(identity, CephxClient) else None

    @property
    def _none(self) -> NoneClient | None:
        identity = self._identities.get(AuthMethod.NONE)
        return identity if isinstance(identity, NoneClient) else None

    def _due_tickets(self, cephx: CephxClient, wall_time_s: float) -> MAuthRequest | None:
        needed = cephx.services_to_renew(wall_time_s)
        if not self.is_current:
            needed &= ~EntityType.AUTH
        if not needed or 0 <= wall_time_s - self._tickets_asked_at_s < RETRY_S:  # 0 <=: the clock may be set back
            return None
        self._tickets_asked_at_s = wall_time_s
        auth_ticket = cephx.tickets.get(EntityType.AUTH)
        if auth_ticket is not None and not needed & EntityType.AUTH:
            return self._tickets_request(cephx, auth_ticket, needed)
        self._old_ticket = auth_ticket
        return self._session_key_request(cephx, needed) if self.is_current else None

    def _session_key_request(self, cephx: CephxClient, needed: int) -> MAuthRequest:
        self._asked.append(_Asked.SESSION_KEY)
        proof = cephx.prove(self._server_challenge, self._old_ticket, needed, self._rng)
        return MAuthRequest(AuthMethod.CEPHX, proof)

    def _tickets_request(self, cephx: CephxClient, auth_ticket: Ticket, needed: int) -> MAuthRequest:
        self._asked.append(_Asked.TICKETS)
        nonce = self._rng.getrandbits(64)
        authorizer = build_authorizer(auth_ticket, cephx.global_id, Authorize(nonce), self._rng)
        header = encoded(RequestHeader(RequestType.GET_PRINCIPAL_SESSION_KEY))
        return MAuthRequest(AuthMethod.CEPHX, header + authorizer + encoded(ServiceTicketRequest(needed)))

    def _due_rotating_keys(self, wall_time_s: float) -> MAuthRequest | None:
        rotating = self._rotating
        if rotating is None or not rotating.needs_refresh(wall_time_s):
            return None
        if 0 <= wall_time_s - self._rotating_asked_at_s < _ROTATING_RETRY_S:
            return None
        self._rotating_asked_at_s = wall_time_s
        self._asked.append(_Asked.ROTATING_KEYS)
        return MAuthRequest(AuthMethod.CEPHX, encoded(RequestHeader(RequestType.GET_ROTATING_KEY)))

    # ---- replies

    def _answered(self, payload: bytes) -> _Asked:
        """The request that a reply answers: by its header, or the oldest one if it has none, as many errors."""
        if not self._asked:
            raise Refusal.UNEXPECTED_REPLY.error("MAuthReply to no request")
        asked = self._asked[0]
        if asked is not _Asked.METHOD and payload:
            kind = ResponseHeader.decode(Decoder(payload)).request_type
            if kind not in self._asked:
                raise Refusal.UNEXPECTED_REPLY.error(f"response to request 0x{kind:x}, which was not made")
            asked = _Asked(kind)
        self._asked.remove(asked)
        return asked

    def _refused(self, asked: _Asked, result: int) -> None:
        what = asked.name.lower().replace("_", " ")
        refusal = Refusal.NO_COMMON_METHOD if asked is _Asked.METHOD else Refusal.REFUSED
        claimed = None if self.authenticated else self._old_ticket
        if asked is _Asked.SESSION_KEY and self._cephx is not None and claimed is not None:
            self._cephx.ticket_refused(claimed)  # the claim may be the reason for the refusal
        raise refusal.error(f"{what} refused with {errno_name(result)}", code=abs(result))

    def _handle_method(self, protocol: int, global_id: int, payload: bytes) -> MAuthRequest | None:
        if protocol not in self._identities:
            raise Refusal.NO_COMMON_METHOD.error(f"the monitor chose method {protocol}, which was not offered")
        if not global_id:
            raise Refusal.BAD_REPLY.error("the monitor gave global_id 0")
        self._global_id = global_id
        self._method = AuthMethod(protocol)
        if self._method is AuthMethod.NONE:
            assert self._none is not None
            self._none.global_id = global_id
            self._finish()
            return None
        assert self._cephx is not None
        self._server_challenge = open_server_challenge(payload)
        return self._session_key_request(self._cephx, self._cephx.wanted_services)

    def _handle_session_key(
        self, cephx: CephxClient, global_id: int, payload: bytes, wall_time_s: float
    ) -> MAuthRequest | None:
        if global_id != self._global_id:
            raise Refusal.BAD_REPLY.error(f"global_id {global_id} instead of {self._global_id}")
        reply = cephx.open_session_reply(payload, self._old_ticket)
        # The other tickets of the reply are not used: Ceph's clients request them separately (§5.6).
        cephx.accept(global_id, [reply.auth], wall_time_s)
        self._finish()
        self._tickets_asked_at_s = _NEVER_S
        return self.due(wall_time_s)

    def _finish(self) -> None:
        if not self.authenticated and isinstance(self._auth, ClientAuth):
            self._auth.agree(self._method)
        self.authenticated = True

    def _handle_tickets(self, cephx: CephxClient, payload: bytes, wall_time_s: float) -> None:
        auth_ticket = cephx.tickets.get(EntityType.AUTH)
        if auth_ticket is None:
            return  # refused in the meantime, so its session key is gone
        decoder = _response(payload)
        try:
            grants = decode_ticket_reply(decoder, auth_ticket.session_key)
        except SealError as error:
            raise Refusal.BAD_REPLY.error(f"tickets: {error.detail}") from None
        cephx.accept(cephx.global_id, grants, wall_time_s)
        if not cephx.services_to_renew(wall_time_s):
            self._tickets_asked_at_s = _NEVER_S  # a ticket refused from now on is requested again at once

    def _handle_rotating_keys(self, cephx: CephxClient, payload: bytes) -> None:
        assert self._rotating is not None
        decoder = _response(payload)
        try:
            secrets = cephx.key.unseal(KeyUsage.ROTATING_SECRETS, decoder.blob(), RotatingSecrets.decode)
        except SealError as error:
            raise Refusal.BAD_REPLY.error(f"rotating keys: {error.detail}") from None
        self._rotating.install(secrets)


def _method_of(identity: AuthClient) -> AuthMethod:
    if isinstance(identity, CephxClient):
        return AuthMethod.CEPHX
    if isinstance(identity, NoneClient):
        return AuthMethod.NONE
    raise LocalError(f"{type(identity).__name__} cannot authenticate to a monitor")


def _response(payload: bytes) -> Decoder:
    """The body of a response.

    Raises:
        DecodeError: the payload is malformed.
        RefusedError: REFUSED: it contains an error.
    """
    decoder = Decoder(payload)
    header = ResponseHeader.decode(decoder)
    if header.status:
        raise Refusal.REFUSED.error(f"monitor answered {errno_name(header.status)}", code=abs(header.status))
    return decoder
