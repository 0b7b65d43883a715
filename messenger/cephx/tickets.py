"""Tickets: minting, opening, and the monitor's reply with them (docs/protocol.md §5.5).

Pure functions over bytes and keys, shared by clients, services, monitors and decoders with keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from messenger.cephx.ciphers import CIPHERS, KeyType, KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.refusal import Refusal
from messenger.cephx.structures import (
    NAMED_KEY_SECRET_ID,
    NO_TICKET,
    AuthCapsInfo,
    AuthTicket,
    ServiceTicket,
    ServiceTicketInfo,
    TicketBlob,
)
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.randomness import RandomSource

_REPLY_VERSION = 1
_MIN_GRANT_SIZE = 4 + 1 + 4 + 1 + 4


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """One of the keys that a service shares with the monitors, and its id."""

    secret_id: int
    """Version of a rotating key, or ``NAMED_KEY_SECRET_ID`` for the service's own key."""
    key: CryptoKey


@dataclass(frozen=True, slots=True)
class TicketGrant:
    """One ticket as its holder receives it."""

    service_id: int
    ticket: ServiceTicket
    blob: TicketBlob | None
    """None if it is encrypted with the holder's previous session key, which the decoder does not have."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket as its holder stores it."""

    service: EntityType
    session_key: CryptoKey
    blob: TicketBlob
    expires_s: float
    """Unix time after which the service may no longer have the key of the blob."""
    renew_after_s: float
    """Unix time from which a new one should be requested: when three quarters of the validity have passed."""

    @classmethod
    def received(cls, grant: TicketGrant, wall_time_s: float) -> "Ticket":
        """The ticket of a grant that arrived at ``wall_time_s``.

        Raises:
            DecodeError: the service does not exist.
            RefusedError: BAD_REPLY: the blob could not be decrypted, or its session key is of an unsupported type.
        """
        service = EntityType.from_wire(grant.service_id)
        if grant.blob is None:
            raise Refusal.BAD_REPLY.error(f"{service.label} ticket encrypted with an unknown key")
        if grant.ticket.session_key.type not in CIPHERS:
            raise Refusal.BAD_REPLY.error(
                f"{service.label} ticket with a session key of type {grant.ticket.session_key.type}"
            )
        validity_s = grant.ticket.validity.to_seconds()
        expires_s = wall_time_s + validity_s
        return cls(service, grant.ticket.session_key, grant.blob, expires_s, expires_s - validity_s / 4)


def mint_ticket(
    service_key: ServiceKey,
    service_id: int,
    name: AuthName,
    global_id: int,
    *,
    caps: str = "allow *",
    validity_s: float = 3600.0,
    session_key_type: KeyType | None = None,
    wall_time_s: float,
    rng: RandomSource,
) -> TicketGrant:
    """Create a ticket with a new session key, as monitors do (§5.5, §5.7).

    Args:
        service_key: seals the service's part.
        service_id: entity type of the service.
        name: name of the holder.
        global_id: global_id of the holder; 0 between monitors.
        caps: capabilities at that service.
        validity_s: lifetime of the ticket in seconds.
        session_key_type: type of the holder's own key (§5.1); by default that of the service key.
        wall_time_s: current unix time.
        rng: source of the session key.
    """
    session_key = CryptoKey.generate(rng, wall_time_s, session_key_type or KeyType(service_key.key.type))
    ticket = AuthTicket(
        name,
        global_id,
        created=UTime.from_seconds(wall_time_s),
        expires=UTime.from_seconds(wall_time_s + validity_s),
        caps=AuthCapsInfo.from_text(caps),
    )
    info = encoded(ServiceTicketInfo(ticket, session_key))
    blob = TicketBlob(service_key.secret_id, service_key.key.seal(KeyUsage.TICKET_INFO, info, rng))
    return TicketGrant(service_id, ServiceTicket(session_key, UTime.from_seconds(validity_s)), blob)


def open_ticket(blob: TicketBlob, secrets: Mapping[int, CryptoKey]) -> ServiceTicketInfo:
    """Decrypt the service's part of a ticket.

    Args:
        blob: from an authorizer, or the old ticket of a reclaim.
        secrets: the service's keys by secret_id.

    Raises:
        SealError: it was sealed with another key, or tampered with.
        RefusedError: UNKNOWN_SECRET: there is no key with that secret_id.
    """
    key = secrets.get(blob.secret_id)
    if key is None:
        known = ", ".join(map(_secret_label, sorted(secrets))) or "none"
        detail = f"ticket sealed with secret {_secret_label(blob.secret_id)}, those known are {known}"
        raise Refusal.UNKNOWN_SECRET.error(detail)
    return key.unseal(KeyUsage.TICKET_INFO, blob.blob, ServiceTicketInfo.decode)


def _secret_label(secret_id: int) -> str:
    return "-1" if secret_id == NAMED_KEY_SECRET_ID else str(secret_id)


def encode_ticket_reply(
    grants: Sequence[TicketGrant], key: CryptoKey, rng: RandomSource, old_session_key: CryptoKey | None = None
) -> bytes:
    """Encode tickets for their holder.

    Args:
        grants: the tickets; each must have its blob.
        key: the holder's key: the principal's key, or the AUTH session key for service tickets.
        rng: for key types that encrypt with a confounder.
        old_session_key: if given, encrypts the blobs, as monitors do for a reclaimed global_id.
    """
    encoder = Encoder()
    encoder.u8(_REPLY_VERSION)
    encoder.u32(len(grants))
    for grant in grants:
        encoder.u32(grant.service_id)
        encoder.u8(_REPLY_VERSION)
        encoder.blob(key.seal(KeyUsage.SERVICE_TICKET, encoded(grant.ticket), rng))
        encoder.boolean(old_session_key is not None)
        blob = Encoder()
        blob.blob(encoded(grant.blob or NO_TICKET))
        if old_session_key is None:
            encoder.raw(blob.getvalue())
        else:
            encoder.blob(old_session_key.seal(KeyUsage.TICKET_BLOB, blob.getvalue(), rng))
    return encoder.getvalue()


def decode_ticket_reply(
    decoder: Decoder, key: CryptoKey, old_session_key: CryptoKey | None = None
) -> list[TicketGrant]:
    """Decode the tickets of :func:`encode_ticket_reply`.

    Raises:
        DecodeError: the bytes are malformed.
        SealError: ``key`` does not open a ticket, or ``old_session_key`` an encrypted blob.
    """
    decoder.u8()

    def grant() -> TicketGrant:
        service_id = decoder.u32()
        decoder.u8()
        ticket = key.unseal(KeyUsage.SERVICE_TICKET, decoder.blob(), ServiceTicket.decode)
        encrypted, content = decoder.boolean(), decoder.blob()
        if not encrypted:
            return TicketGrant(service_id, ticket, TicketBlob.decode(Decoder(content)))
        if old_session_key is None:
            return TicketGrant(service_id, ticket, None)
        blob = old_session_key.unseal(
            KeyUsage.TICKET_BLOB, content, lambda inner: TicketBlob.decode(Decoder(inner.blob()))
        )
        return TicketGrant(service_id, ticket, blob)

    return decoder.sequence(grant, _MIN_GRANT_SIZE)
