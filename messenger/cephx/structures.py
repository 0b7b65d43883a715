"""The structures of cephx, with Ceph's names less the prefix CephX (docs/protocol.md §5.3).

:mod:`messenger.cephx.tickets` and :mod:`messenger.cephx.authorizer` encrypt and decrypt their contents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Self

from messenger.cephx.keys import CryptoKey
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName
from messenger.denc.layout import I32, U8, U16, U32, U64, Blob, Bool, Kind, Since, Structure
from messenger.denc.utime import EPOCH, UTime

NAMED_KEY_SECRET_ID = (1 << 64) - 1
"""secret_id of a ticket sealed with the service's own key (``mon.``) instead of a rotating one (§5.7)."""

NO_AUID = (1 << 64) - 1
"""Value of the field in AuthTicket that contained user ids, which were dropped."""


class AuthMode(IntEnum):
    """The first byte of AUTH_REQUEST's payload: the kind of peer that the client expects (§5)."""

    AUTHORIZER = 1
    MON = 10


class RequestType(IntEnum):
    """Requests to the monitor's ticket service."""

    GET_AUTH_SESSION_KEY = 0x0100
    GET_PRINCIPAL_SESSION_KEY = 0x0200
    GET_ROTATING_KEY = 0x0400


@dataclass(frozen=True, slots=True)
class Prelude(Structure):
    """A client's introduction: to a monitor with any method (§5.5), to any peer with method none (§5.9)."""

    VERSION = 0
    mode: U8
    name: AuthName
    global_id: U64
    """0 requests a new one from a monitor."""


@dataclass(frozen=True, slots=True)
class ServerChallenge(Structure):
    """The monitor's challenge, never 0."""

    server_challenge: U64


@dataclass(frozen=True, slots=True)
class RequestHeader(Structure):
    """Header of every request to the ticket service."""

    VERSION = 0
    request_type: U16


@dataclass(frozen=True, slots=True)
class ResponseHeader(Structure):
    """Header of every response of the ticket service."""

    VERSION = 0
    request_type: U16
    status: I32 = 0
    """0, or a negative errno."""


@dataclass(frozen=True, slots=True)
class TicketBlob(Structure):
    """A ticket as its holder sees it: ciphertext that only the service can decrypt, and the id of its key."""

    secret_id: U64 = 0
    blob: Blob = b""


NO_TICKET = TicketBlob()
"""Placeholder where there is no ticket to present."""


@dataclass(frozen=True, slots=True)
class Authenticate(Structure):
    """The client's answer to the monitor's challenge, and its request for tickets."""

    client_challenge: int
    key: int
    """The challenge response (§5.4)."""
    old_ticket: TicketBlob = NO_TICKET
    """Proves the claim to an existing global_id; empty if and only if a new one is requested."""
    other_keys: int = 0
    """Mask of the services for which tickets are requested."""
    version: int = 3
    """Below 3, monitors may be configured to accept a global_id without proof (§5.5)."""

    # Encoded by hand, because here the version has a meaning besides the layout.
    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        encoder.u8(self.version)
        encoder.u64(self.client_challenge)
        encoder.u64(self.key)
        self.old_ticket.encode(encoder)
        if self.version >= 2:
            encoder.u32(self.other_keys)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one structure; raises DecodeError."""
        version = decoder.u8()
        client_challenge, key = decoder.u64(), decoder.u64()
        old_ticket = TicketBlob.decode(decoder)
        return cls(client_challenge, key, old_ticket, decoder.u32() if version >= 2 else 0, version)


@dataclass(frozen=True, slots=True)
class ServiceTicketRequest(Structure):
    """Requests tickets on an established session (§5.6)."""

    keys: U32
    """Mask of services."""


@dataclass(frozen=True, slots=True)
class ServiceTicket(Structure):
    """The holder's part of a ticket reply: session key and validity."""

    session_key: CryptoKey
    validity: UTime
    """A duration."""


@dataclass(frozen=True, slots=True)
class AuthCapsInfo(Structure):
    """Capabilities at one service."""

    allow_all: Bool = False
    caps: Blob = b""
    """Empty, or an encoded string with the capability text."""

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Encode capabilities such as ``allow *``; an empty text gives none."""
        encoder = Encoder()
        if text:
            encoder.string(text)
        return cls(caps=encoder.getvalue())


NO_CAPS = AuthCapsInfo()


@dataclass(frozen=True, slots=True)
class AuthTicket(Structure):
    """Identity and capabilities of a ticket's holder, certified by the monitor."""

    VERSION = 2
    name: AuthName
    global_id: U64
    old_auid: U64 = NO_AUID
    created: UTime = EPOCH
    expires: UTime = EPOCH
    caps: AuthCapsInfo = NO_CAPS
    flags: U32 = 0


@dataclass(frozen=True, slots=True)
class ServiceTicketInfo(Structure):
    """The service's part of a ticket, sealed inside :class:`TicketBlob`."""

    ticket: AuthTicket
    session_key: CryptoKey


@dataclass(frozen=True, slots=True)
class Authorize(Structure):
    """Proof that the presenter of a ticket has its session key."""

    VERSION = 2
    nonce: U64
    have_challenge: Annotated[Bool, Since(2)] = False
    server_challenge_plus_one: Annotated[U64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class AuthorizeChallenge(Structure):
    """The service's challenge, which prevents the replay of a recorded authorizer."""

    server_challenge: U64


@dataclass(frozen=True, slots=True)
class AuthorizeReply(Structure):
    """The service's proof that it could open the ticket; version 2 only if there is a secret."""

    nonce_plus_one: U64
    connection_secret: Annotated[Blob, Since(2)] = field(default=b"", repr=False)
    """Key material of secure mode."""

    def struct_v(self) -> int:
        """The version to encode for these values."""
        return 2 if self.connection_secret else 1


@dataclass(frozen=True, slots=True)
class ExpiringCryptoKey(Structure):
    """A rotating service key and its expiration."""

    key: CryptoKey
    expiration: UTime


_EXPIRING_KEY_MIN_SIZE = 1 + 12 + 8
_ExpiringKeys = Annotated[
    Mapping[int, ExpiringCryptoKey],
    Kind(
        lambda e, v: e.mapping(v, e.u64, lambda key: key.encode(e)),
        lambda d: d.mapping(d.u64, lambda: ExpiringCryptoKey.decode(d), 8 + _EXPIRING_KEY_MIN_SIZE),
    ),
]


@dataclass(frozen=True, slots=True)
class RotatingSecrets(Structure):
    """The rotating keys of one service by their secret_id: previous, current and next (§5.6)."""

    secrets: _ExpiringKeys
    max_ver: U64
