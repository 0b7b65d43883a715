"""cephx with recorded random values: our own exchanges, given the recorded keys, nonces, challenges and secrets.

Their payloads equal those of the real side except for confounders (of aes256k keys). Two payloads with the same
content count as equal, and the recorded one is sent.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from messenger.cephx.authorizer import Authorizer, open_challenge, open_reply
from messenger.cephx.authorizer_exchange import AuthorizerExchange
from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.client import CephxClient, MonitorExchange
from messenger.cephx.connection_secret import CONNECTION_SECRET_SIZE
from messenger.cephx.exchange import AuthMethod, ClientExchange
from messenger.cephx.keys import CryptoKey
from messenger.cephx.service import CephxServiceExchange
from messenger.cephx.structures import NO_TICKET, Authenticate, AuthMode, Authorize, Prelude, RequestHeader
from messenger.cephx.tickets import Ticket
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityType
from messenger.errors import PeerError
from messenger.randomness import RandomSource
from toolkit.dissect.keys import KeyBook

_NEVER_S = float("inf")
_MODE = bytes([AuthMode.AUTHORIZER])


@dataclass(slots=True)
class RecordedRandom:
    """A random source that returns the recorded random values of one link, in order; zeros for confounders."""

    numbers: list[int] = field(default_factory=list)
    secret: bytes = b""

    def getrandbits(self, _bits: int, /) -> int:
        """Return the next nonce or challenge; 1 if the record has no more."""
        return self.numbers.pop(0) if self.numbers else 1

    def randbytes(self, size: int, /) -> bytes:
        """Return the connection secret, or a confounder."""
        return self.secret if size == CONNECTION_SECRET_SIZE == len(self.secret) else bytes(size)


@dataclass(slots=True)
class _OneTicket:
    """A ticket holder with only the recorded ticket."""

    global_id: int
    ticket: Ticket

    def ticket_for(self, service: EntityType, wall_time_s: float, rng: RandomSource) -> Ticket:  # noqa: ARG002 - one
        """Return the ticket."""
        return self.ticket

    def ticket_refused(self, ticket: Ticket) -> None:
        """Do nothing: there is no other ticket."""


def client_exchange(
    requests: Sequence[tuple[int, bytes]], session_key: CryptoKey | None, book: KeyBook, wall_time_s: float
) -> ClientExchange | None:
    """Return the exchange of a connector that sent such requests; None if a key for it is unknown.

    Args:
        requests: methods and payloads of the requests.
        session_key: session key of the link; None if it is unknown.
        book: keys of entities.
        wall_time_s: current Unix time in seconds.
    """
    if not requests or requests[0][0] != AuthMethod.CEPHX:
        return None
    with suppress(PeerError):
        if requests[0][1][:1] == _MODE:
            return _to_service(requests[0][1], session_key, wall_time_s)
        return _to_monitor([payload for _, payload in requests], book, wall_time_s)
    return None


def _to_service(payload: bytes, session_key: CryptoKey | None, wall_time_s: float) -> ClientExchange | None:
    if session_key is None:
        return None
    shown, authorize = _opened(payload, session_key)
    service = EntityType.from_wire(shown.service_id)
    ticket = Ticket(service, session_key, shown.ticket, _NEVER_S, _NEVER_S)
    return AuthorizerExchange(
        _OneTicket(shown.global_id, ticket), service, wall_time_s, RecordedRandom([authorize.nonce])
    )


def _to_monitor(payloads: Sequence[bytes], book: KeyBook, wall_time_s: float) -> ClientExchange | None:
    prelude = Prelude.decode(Decoder(payloads[0]))
    keys = book.keys_of(prelude.name)
    if prelude.global_id or len(keys) != 1 or len(payloads) < 2:
        return None
    decoder = Decoder(payloads[1])
    RequestHeader.decode(decoder)
    proof = Authenticate.decode(decoder)
    if proof.old_ticket != NO_TICKET:
        return None
    client = CephxClient(prelude.name, keys[0][1], proof.other_keys)
    return MonitorExchange(client, wall_time_s, RecordedRandom([proof.client_challenge]))


def service_keys(payload: bytes, book: KeyBook) -> dict[EntityType, dict[int, CryptoKey]]:
    """Return the key that decrypts the ticket of an authorizer, by service and secret_id; empty if unknown."""
    with suppress(PeerError):
        if payload[:1] == _MODE:
            shown = _authorizer(payload)
            keys = book.service_keys(shown.service_id, shown.ticket.secret_id)
            if len(keys) == 1:
                return {EntityType.from_wire(shown.service_id): {shown.ticket.secret_id: keys[0]}}
    return {}


def service_random(challenges: Sequence[bytes], done: bytes, session_key: CryptoKey) -> RecordedRandom:
    """Return the random values of a service, from its challenges and its last answer."""
    random = RecordedRandom()
    with suppress(PeerError):
        random.numbers = [open_challenge(session_key, payload) for payload in challenges]
        random.secret = open_reply(session_key, done).connection_secret
    return random


def service_exchange(
    keys: dict[EntityType, dict[int, CryptoKey]], wall_time_s: float, random: RecordedRandom
) -> CephxServiceExchange:
    """Return the exchange of a service."""
    return CephxServiceExchange(keys, wall_time_s, random)


# ---- comparing


def same_authorizer(one: bytes, other: bytes, session_key: CryptoKey | None) -> bool:
    """True if two payloads of a connector have the same content."""
    if one == other:
        return True
    if session_key is None or not one[:1] == other[:1] == _MODE:
        return False
    with suppress(PeerError):
        (first, ours), (second, theirs) = _opened(one, session_key), _opened(other, session_key)
        shown = first.global_id, first.service_id, first.ticket
        return shown == (second.global_id, second.service_id, second.ticket) and ours == theirs
    return False


def answers_an_old_challenge(real: bytes, mine: bytes, session_key: CryptoKey | None) -> bool:
    """True if two authorizers differ only in that the real one already answers a challenge."""
    if session_key is None or not real[:1] == mine[:1] == _MODE:
        return False
    with suppress(PeerError):
        (first, ours), (second, theirs) = _opened(real, session_key), _opened(mine, session_key)
        shown = first.global_id, first.service_id, first.ticket, ours.nonce
        same = shown == (second.global_id, second.service_id, second.ticket, theirs.nonce)
        return same and ours.have_challenge and not theirs.have_challenge
    return False


def same_challenge(one: bytes, other: bytes, session_key: CryptoKey) -> bool:
    """True if two challenges of a service have the same content."""
    with suppress(PeerError):
        return one == other or open_challenge(session_key, one) == open_challenge(session_key, other)
    return False


def same_reply(one: bytes, other: bytes, session_key: CryptoKey) -> bool:
    """True if two answers of a service have the same content."""
    with suppress(PeerError):
        return one == other or open_reply(session_key, one) == open_reply(session_key, other)
    return False


def _authorizer(payload: bytes) -> Authorizer:
    decoder = Decoder(payload)
    decoder.u8()  # its version, and the auth mode
    return Authorizer.decode(decoder)


def _opened(payload: bytes, session_key: CryptoKey) -> tuple[Authorizer, Authorize]:
    shown = _authorizer(payload)
    return shown, session_key.unseal(KeyUsage.AUTHORIZE, shown.sealed_authorize, Authorize.decode)
