"""The client of cephx for an entity with its own key (docs/protocol.md §5.5, §5.7)."""

from collections.abc import Iterable, Mapping
from errno import EOPNOTSUPP
from types import MappingProxyType

from messenger.cephx.authorizer_exchange import AuthorizerExchange
from messenger.cephx.ciphers import KeyType, SealError
from messenger.cephx.connection_secret import usable_connection_secret
from messenger.cephx.exchange import AuthMethod, AuthOpening, AuthResult, ClientExchange, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.refusal import Refusal, refusal
from messenger.cephx.session_reply import SessionReply, decode_session_reply
from messenger.cephx.structures import (
    NO_TICKET,
    Authenticate,
    AuthMode,
    Prelude,
    RequestHeader,
    RequestType,
    ServerChallenge,
)
from messenger.cephx.tickets import Ticket, TicketGrant
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import LocalError, check_kind
from messenger.randomness import RandomSource

CLIENT_SERVICES = EntityType.AUTH | EntityType.MGR | EntityType.OSD | EntityType.MON
"""Services for which a RADOS client and an OSD request tickets (§5.3)."""
METADATA_SERVICES = CLIENT_SERVICES | EntityType.MDS
"""Services for which an MDS and a manager request tickets (§5.3)."""


class CephxClient:
    """An entity with a key: it gets tickets from monitors and presents them to services.

    To a monitor it proves its key and, after the first time, that its global_id is its own. It presents the
    tickets that it received last, so when several monitors are dialled at once, those of the last one to answer.

    Args:
        name: name of the entity, as in the keyring.
        key: the key of ``name``.
        wanted_services: mask of the services for which tickets are requested; AUTH is always included.

    Raises:
        LocalError: a name or key of another type, a key of an unsupported algorithm, or a mask that is not u32.
    """

    def __init__(self, name: AuthName, key: CryptoKey, wanted_services: int = CLIENT_SERVICES) -> None:
        check_kind("name", name, AuthName, "AuthName.parse('client.admin')")
        check_kind("key", key, CryptoKey, "a CryptoKey, such as Keyring.load(path).key(name)")
        key.require_usable(str(name))
        if not 0 <= wanted_services < 1 << 32:
            raise LocalError(f"mask of wanted services 0x{wanted_services:x} is not 32 bits")
        self.name = name
        self.key = key
        self.wanted_services = wanted_services | EntityType.AUTH
        self.global_id = 0
        """Assigned by the monitors; 0 before that."""
        self._tickets: dict[EntityType, Ticket] = {}

    @property
    def tickets(self) -> Mapping[EntityType, Ticket]:
        """The tickets by service; expired ones are kept until they are replaced."""
        return MappingProxyType(self._tickets)

    def needs_renewal(self, service: EntityType, wall_time_s: float) -> bool:
        """True if a new ticket for ``service`` should be requested."""
        ticket = self._tickets.get(service)
        return ticket is None or wall_time_s >= ticket.renew_after_s

    def services_to_renew(self, wall_time_s: float) -> int:
        """Mask of the wanted services for which :meth:`needs_renewal` is True."""
        wanted = (service for service in EntityType if service is not EntityType.ANY)
        return sum(
            service
            for service in wanted
            if service & self.wanted_services and self.needs_renewal(service, wall_time_s)
        )

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        """A new exchange: with a monitor to get tickets, with any other peer to present one."""
        if peer_type is EntityType.MON:
            return MonitorExchange(self, wall_time_s, rng)
        return AuthorizerExchange(self, peer_type, wall_time_s, rng)

    def ticket_for(self, service: EntityType, wall_time_s: float, rng: RandomSource) -> Ticket:  # noqa: ARG002 - others mint
        """The ticket to present to ``service``.

        Raises:
            RefusedError: NO_TICKET or OWN_TICKET_EXPIRED.
        """
        ticket = self._tickets.get(service)
        if ticket is None:
            held = ", ".join(held.label for held in sorted(self._tickets)) or "none"
            detail = f"{self.name} has no ticket for {service.label} from a monitor; it holds: {held}"
            raise Refusal.NO_TICKET.error(detail)
        if wall_time_s >= ticket.expires_s:
            late_s = wall_time_s - ticket.expires_s
            detail = f"{self.name}'s ticket for {service.label} expired {late_s:.0f} s ago"
            raise Refusal.OWN_TICKET_EXPIRED.error(detail)
        return ticket

    def ticket_refused(self, ticket: Ticket) -> None:
        """Drop a ticket that its service refused, unless it has been replaced already (§5.8)."""
        if self._tickets.get(ticket.service) is ticket:
            del self._tickets[ticket.service]

    def old_ticket(self, wall_time_s: float) -> Ticket | None:
        """The AUTH ticket that proves the global_id; None if there is no valid one, so a new id is needed."""
        ticket = self._tickets.get(EntityType.AUTH)
        return ticket if ticket is not None and wall_time_s < ticket.expires_s else None

    def prove(self, server_challenge: int, old_ticket: Ticket | None, other_keys: int, rng: RandomSource) -> bytes:
        """Build the request for an AUTH session key, which answers a monitor's challenge (§5.4, §5.5)."""
        client_challenge = rng.getrandbits(64)
        authenticate = Authenticate(
            client_challenge,
            self.key.challenge_response(server_challenge, client_challenge),
            old_ticket.blob if old_ticket else NO_TICKET,
            other_keys,
        )
        return encoded(RequestHeader(RequestType.GET_AUTH_SESSION_KEY), authenticate)

    def open_session_reply(self, payload: bytes, old_ticket: Ticket | None) -> SessionReply:
        """Open the reply to :meth:`prove`, which only a monitor that knows our key can have made.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: BAD_REPLY: not sealed with our keys; REFUSED: it contains an error.
        """
        try:
            return decode_session_reply(payload, self.key, old_ticket.session_key if old_ticket else None)
        except SealError as error:
            raise Refusal.BAD_REPLY.error(f"tickets: {error.detail}") from None

    def accept(self, global_id: int, grants: Iterable[TicketGrant], wall_time_s: float) -> None:
        """Store the tickets that a monitor granted; drop those of another global_id, which are useless.

        Raises:
            DecodeError, RefusedError: a ticket is unusable; then nothing is changed.
        """
        granted = [Ticket.received(grant, wall_time_s) for grant in grants]
        if global_id != self.global_id:
            self._tickets.clear()
        self.global_id = global_id
        self._tickets.update({ticket.service: ticket for ticket in granted})


class MonitorExchange:
    """One authentication to a monitor: introduction, answer to the challenge, tickets."""

    def __init__(self, client: CephxClient, wall_time_s: float, rng: RandomSource) -> None:
        self._client = client
        self._wall_time_s = wall_time_s
        self._rng = rng
        self._old_ticket = client.old_ticket(wall_time_s)
        self._server_challenge = 0

    def start(self) -> AuthOpening:
        """Build the introduction; it contains a known global_id only if there is a ticket that proves it."""
        global_id = self._client.global_id if self._old_ticket else 0
        prelude = Prelude(AuthMode.MON, self._client.name, global_id)
        return AuthOpening(AuthMethod.CEPHX, encoded(prelude))

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again. Nothing to prepare."""

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """End this exchange, and drop the ticket that proves the global_id: it may be the reason for the refusal.

        Raises:
            RefusedError: always; REFUSED or NO_COMMON_METHOD.
        """
        if self._old_ticket is not None and result != -EOPNOTSUPP:
            self._client.ticket_refused(self._old_ticket)
        raise refusal(AuthMethod.CEPHX, result, allowed_methods)

    def more(self, payload: bytes) -> bytes:
        """Answer the monitor's challenge, with the old ticket and the wanted services.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: BAD_CHALLENGE: it is 0; UNEXPECTED_REPLY: a second challenge.
        """
        if self._server_challenge:
            raise Refusal.UNEXPECTED_REPLY.error("monitor challenged twice")
        self._server_challenge = open_server_challenge(payload)
        client = self._client
        return client.prove(self._server_challenge, self._old_ticket, client.wanted_services, self._rng)

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        """Store the tickets, which only a monitor that knows our key can have made.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: BAD_REPLY: not sealed with our keys, or global_id 0; UNEXPECTED_REPLY: without a
                challenge; BAD_CONNECTION_SECRET; REFUSED: the reply contains an error.
        """
        if not self._server_challenge:
            raise Refusal.UNEXPECTED_REPLY.error("monitor finished without a challenge")
        if not global_id:
            raise Refusal.BAD_REPLY.error("monitor finished with global_id 0")
        reply = self._client.open_session_reply(payload, self._old_ticket)
        secret = usable_connection_secret(reply.connection_secret, con_mode)
        self._client.accept(global_id, (reply.auth, *reply.services), self._wall_time_s)
        session_key = reply.auth.ticket.session_key
        return AuthResult(
            global_id,
            session_key.secret,
            secret,
            session_key_type=KeyType(session_key.type),
            server_challenge=self._server_challenge,
        )


def open_server_challenge(payload: bytes) -> int:
    """The monitor's challenge.

    Raises:
        DecodeError: the payload is malformed.
        RefusedError: BAD_CHALLENGE: it is 0.
    """
    server_challenge = ServerChallenge.decode(Decoder(payload)).server_challenge
    if not server_challenge:
        raise Refusal.BAD_CHALLENGE.error("monitor's challenge is 0")
    return server_challenge
