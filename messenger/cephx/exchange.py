"""The interface between the handshake and an authentication method (docs/protocol.md §4.7).

One exchange object lives for one link's authentication. The handshake frames what it returns, takes care of
connection modes and signatures, and turns the errors it raises into AUTH_BAD_METHOD or a fault.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

from messenger.cephx.ciphers import KeyType
from messenger.denc.entity import AuthName, EntityType
from messenger.randomness import RandomSource


class AuthMethod(IntEnum):
    """Method numbers on the wire (§4.3)."""

    UNKNOWN = 0
    NONE = 1
    CEPHX = 2
    GSS = 4


class ConMode(IntEnum):
    """Connection modes on the wire (§4.3)."""

    UNKNOWN = 0
    CRC = 1
    SECURE = 2


@dataclass(frozen=True, slots=True)
class AuthOpening:
    """What the client side puts into AUTH_REQUEST."""

    method: AuthMethod
    payload: bytes


@dataclass(frozen=True, slots=True)
class AuthResult:
    """What a finished exchange leaves on either side."""

    global_id: int
    session_key: bytes = b""
    """HMAC key of the two AUTH_SIGNATURE frames; empty with auth none (§4.7). Signs messages on v1 (§3.7)."""
    connection_secret: bytes = b""
    """Key and nonces of secure mode (§4.6); empty in crc mode."""
    name: AuthName | None = None
    """Server side: the entity that the peer authenticated as."""
    caps: bytes = b""
    """Server side: the capabilities of the peer's ticket, as encoded by the monitor."""
    session_key_type: KeyType = KeyType.NONE
    server_challenge: int = 0
    """Between client and monitor: what a renewal of the AUTH ticket on this session answers again (§5.5)."""
    ticket_expires_s: float | None = None
    """Unix time at which the ticket that was shown expires; None where none was."""


@dataclass(frozen=True, slots=True)
class AuthMore:
    """Server side: another round is needed; the payload goes into AUTH_REPLY_MORE."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class AuthDone:
    """Server side: the peer is in; the payload goes into AUTH_DONE."""

    payload: bytes
    result: AuthResult


AuthStep = AuthMore | AuthDone


class ClientExchange(Protocol):
    """The connector's half of one authentication. Every method may raise AuthError or DecodeError.

    On v1 the same methods serve: :meth:`start` for a CONNECT, :meth:`more` for CHALLENGE_AUTHORIZER, :meth:`done`
    for any other reply that carries an authorizer, :meth:`bad_method` for BADAUTHORIZER, :meth:`repeated` for a
    CONNECT that carries the last authorizer again (§3.3).
    """

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again."""

    def start(self) -> AuthOpening:
        """The first attempt."""

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """The next attempt after AUTH_BAD_METHOD; ``result`` is the negative errno it carried."""

    def more(self, payload: bytes) -> bytes:
        """The answer to AUTH_REPLY_MORE."""

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        """Check AUTH_DONE and take the keys out of it."""


class ServerExchange(Protocol):
    """The acceptor's half of one authentication. Every method may raise AuthError or DecodeError."""

    allowed_methods: tuple[AuthMethod, ...]
    """In order of preference, for AUTH_BAD_METHOD."""

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        """Judge AUTH_REQUEST; ``method`` is one of the allowed ones."""

    def more(self, payload: bytes) -> AuthStep:
        """Judge AUTH_REQUEST_MORE."""

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:
        """Judge the authorizer in a CONNECT of v1, each of a link's; ``challenge`` whether the peer knows those.

        Called by :func:`messenger.cephx.v1.judge_connect`.
        """


@runtime_checkable
class AuthClient(Protocol):
    """An identity that can authenticate to peers; it outlives links and keeps tickets."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        """A new exchange with a peer of that type. ``wall_time_s`` is unix time."""


@runtime_checkable
class AuthServer(Protocol):
    """The accepting side's judge of identities."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ServerExchange:
        """A new exchange with a peer that called itself ``peer_type`` in HELLO."""
