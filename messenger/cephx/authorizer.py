"""Authorizers: mutual authentication of the holder of a ticket and a service (docs/protocol.md §5.7).

Pure functions over bytes and keys, shared by clients, services and decoders with keys: given a service's keys,
:func:`open_authorizer` returns the session key of the client's payload; given the session key, :func:`open_reply`
returns the connection secret of AUTH_DONE.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from messenger.cephx.ciphers import KeyUsage, SealError
from messenger.cephx.keys import CryptoKey, same_u64
from messenger.cephx.refusal import Refusal
from messenger.cephx.structures import (
    AuthMode,
    Authorize,
    AuthorizeChallenge,
    AuthorizeReply,
    ServiceTicketInfo,
    TicketBlob,
)
from messenger.cephx.tickets import Ticket, open_ticket
from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.layout import U32, U64, Blob, Structure, encoded
from messenger.randomness import RandomSource

_U64_MASK = (1 << 64) - 1
_MODE = bytes([AuthMode.AUTHORIZER])


@dataclass(frozen=True, slots=True)
class Authorizer(Structure):
    """The authorizer that a client presents to a service, after the bytes for version and auth mode."""

    VERSION = 0
    global_id: U64
    service_id: U32
    ticket: TicketBlob
    sealed_authorize: Blob
    """An :class:`Authorize`, sealed with the ticket's session key."""


@dataclass(frozen=True, slots=True)
class OpenedAuthorizer:
    """An authorizer and its decrypted contents."""

    authorizer: Authorizer
    info: ServiceTicketInfo
    """The contents of the ticket, which the monitor vouches for; ``info.session_key`` opens the rest."""
    authorize: Authorize


def build_authorizer(ticket: Ticket, global_id: int, authorize: Authorize, rng: RandomSource) -> bytes:
    """Build the payload that presents ``ticket`` to its service."""
    sealed = ticket.session_key.seal(KeyUsage.AUTHORIZE, encoded(authorize), rng)
    return _MODE + encoded(Authorizer(global_id, ticket.service, ticket.blob, sealed))


def open_authorizer(
    payload: Buffer, service_keys: Mapping[EntityType, Mapping[int, CryptoKey]]
) -> OpenedAuthorizer:
    """Open an authorizer with the keys of the service, and check it in the order of §5.7.

    Args:
        payload: the payload of AUTH_REQUEST, AUTH_REQUEST_MORE or the CONNECT of v1.
        service_keys: by service, the keys by secret_id.

    Raises:
        DecodeError: the payload is malformed.
        RefusedError: NOT_AN_AUTHORIZER, WRONG_SERVICE, UNKNOWN_SECRET, BAD_TICKET, WRONG_GLOBAL_ID,
            BAD_AUTHORIZE.
    """
    return read_authorizer(Decoder(payload), service_keys)


def read_authorizer(
    decoder: Decoder, service_keys: Mapping[EntityType, Mapping[int, CryptoKey]]
) -> OpenedAuthorizer:
    """As :func:`open_authorizer`, for an authorizer that is followed by more, as in ticket requests (§5.6)."""
    mode = decoder.u8()
    if mode != AuthMode.AUTHORIZER:
        raise Refusal.NOT_AN_AUTHORIZER.error(
            f"auth mode {mode} is not an authorizer's; was the client looking for a monitor?"
        )
    authorizer = Authorizer.decode(decoder)
    if authorizer.service_id not in service_keys:
        known = ", ".join(service.label for service in service_keys)
        raise Refusal.WRONG_SERVICE.error(f"authorizer for service 0x{authorizer.service_id:x}, this is {known}")
    try:
        info = open_ticket(authorizer.ticket, service_keys[EntityType(authorizer.service_id)])
    except SealError as error:
        raise Refusal.BAD_TICKET.error(f"ticket: {error.detail}") from None
    if info.ticket.global_id != authorizer.global_id:
        raise Refusal.WRONG_GLOBAL_ID.error(
            f"global_id {authorizer.global_id}, but the ticket is for {info.ticket.global_id}"
        )
    try:
        authorize = info.session_key.unseal(KeyUsage.AUTHORIZE, authorizer.sealed_authorize, Authorize.decode)
    except SealError as error:
        raise Refusal.BAD_AUTHORIZE.error(f"authorizer: {error.detail}") from None
    return OpenedAuthorizer(authorizer, info, authorize)


def seal_challenge(session_key: CryptoKey, server_challenge: int, rng: RandomSource) -> bytes:
    """Build the service's AUTH_REPLY_MORE payload."""
    return session_key.seal(KeyUsage.AUTHORIZE_CHALLENGE, encoded(AuthorizeChallenge(server_challenge)), rng)


def open_challenge(session_key: CryptoKey, payload: bytes) -> int:
    """The server challenge of an AUTH_REPLY_MORE payload; raises SealError."""
    challenge = session_key.unseal(KeyUsage.AUTHORIZE_CHALLENGE, payload, AuthorizeChallenge.decode)
    return challenge.server_challenge


def seal_reply(session_key: CryptoKey, reply: AuthorizeReply, rng: RandomSource) -> bytes:
    """Build the service's AUTH_DONE payload."""
    encoder = Encoder()
    encoder.blob(session_key.seal(KeyUsage.AUTHORIZE_REPLY, encoded(reply), rng))
    return encoder.getvalue()


def open_reply(session_key: CryptoKey, payload: bytes) -> AuthorizeReply:
    """The contents of an AUTH_DONE payload; raises SealError and DecodeError."""
    return session_key.unseal(KeyUsage.AUTHORIZE_REPLY, Decoder(payload).blob(), AuthorizeReply.decode)


def successor(value: int) -> int:
    """The value that answers a challenge or nonce, and so proves that it was decrypted: plus one, modulo 2^64."""
    return (value + 1) & _U64_MASK


def answers_challenge(authorize: Authorize, server_challenge: int) -> bool:
    """True if the authorizer of the second round answers ``server_challenge``."""
    expected = successor(server_challenge)
    return authorize.have_challenge and same_u64(authorize.server_challenge_plus_one, expected)
