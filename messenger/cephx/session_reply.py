"""The payload of a monitor's AUTH_DONE: session key, connection secret and tickets (docs/protocol.md §5.5).

Pure functions over bytes and keys, shared by clients, monitors and decoders with the principal's key.
"""

from dataclasses import dataclass, field

from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.refusal import Refusal, errno_name
from messenger.cephx.structures import RequestType, ResponseHeader
from messenger.cephx.tickets import TicketGrant, decode_ticket_reply, encode_ticket_reply
from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.errors import DecodeError
from messenger.randomness import RandomSource


@dataclass(frozen=True, slots=True)
class SessionReply:
    """The response to GET_AUTH_SESSION_KEY."""

    auth: TicketGrant
    """The ticket for the monitor's ticket service; its session key is that of the connection."""
    connection_secret: bytes = field(default=b"", repr=False)
    """Key material of secure mode, empty in crc mode."""
    services: tuple[TicketGrant, ...] = ()
    """Tickets for the other requested services."""


def encode_session_reply(
    reply: SessionReply,
    principal_key: CryptoKey,
    rng: RandomSource,
    old_session_key: CryptoKey | None = None,
    *,
    other_keys: int = EntityType.AUTH,
    over_mauth: bool = False,
) -> bytes:
    """Encode the payload of a monitor's AUTH_DONE, or of the MAuthReply to the same request.

    Args:
        reply: the granted tickets and secret.
        principal_key: the client's key.
        rng: for key types that encrypt with a confounder.
        old_session_key: session key of the old ticket, if the client reclaimed its global_id with one.
        other_keys: the mask that the client sent; 0 comes from clients older than Nautilus, which expect nothing
            after the first ticket.
        over_mauth: True for an MAuthReply, which contains no connection secret, not even an empty one (§5.6).
    """
    encoder = Encoder()
    ResponseHeader(RequestType.GET_AUTH_SESSION_KEY).encode(encoder)
    encoder.raw(encode_ticket_reply([reply.auth], principal_key, rng, old_session_key))
    if not other_keys:
        return encoder.getvalue()
    session_key = reply.auth.ticket.session_key
    sealed = Encoder()
    if not over_mauth:
        secret = Encoder()
        secret.blob(reply.connection_secret)
        sealed.blob(session_key.seal(KeyUsage.AUTH_CONNECTION_SECRET, secret.getvalue(), rng))
    encoder.blob(sealed.getvalue())
    encoder.blob(encode_ticket_reply(reply.services, session_key, rng) if reply.services else b"")
    return encoder.getvalue()


def decode_session_reply(
    payload: Buffer, principal_key: CryptoKey, old_session_key: CryptoKey | None = None
) -> SessionReply:
    """Decode the payload of a monitor's AUTH_DONE.

    Args:
        payload: the payload of the frame.
        principal_key: the client's key.
        old_session_key: session key of the ticket that the client presented, if it did. Without it the new AUTH
            ticket of a reclaim stays encrypted (``auth.blob`` is None); everything else can be decrypted.

    Raises:
        DecodeError: the payload is malformed.
        SealError: it is not sealed with these keys.
        RefusedError: REFUSED: the response contains an error; BAD_REPLY: it has no AUTH ticket.
    """
    decoder = Decoder(payload)
    header = ResponseHeader.decode(decoder)
    if header.request_type != RequestType.GET_AUTH_SESSION_KEY:
        raise DecodeError(f"response to request 0x{header.request_type:x}, expected GET_AUTH_SESSION_KEY")
    if header.status:
        raise Refusal.REFUSED.error(f"monitor answered {errno_name(header.status)}", code=abs(header.status))
    grants = decode_ticket_reply(decoder, principal_key, old_session_key)
    auth = next((grant for grant in grants if grant.service_id == EntityType.AUTH), None)
    if auth is None:
        raise Refusal.BAD_REPLY.error("monitor's reply has no ticket for its ticket service")
    if not decoder.remaining:  # the client requested no other keys
        return SessionReply(auth)
    session_key = auth.ticket.session_key
    sealed_secret, extra = Decoder(decoder.blob()), decoder.blob()
    secret = b""
    if sealed_secret.remaining:  # MAuthReply has none: v1 is never secure (§5.6)
        secret = session_key.unseal(KeyUsage.AUTH_CONNECTION_SECRET, sealed_secret.blob(), Decoder.blob)
    services = decode_ticket_reply(Decoder(extra), session_key) if extra else []
    return SessionReply(auth, secret, tuple(services))
