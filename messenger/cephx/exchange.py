"""The interface between the handshake and an authentication method (docs/protocol.md §4.7).

One exchange object serves the authentication of one link. The handshake puts its payloads into frames, handles
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
    """Method and payload of the client's AUTH_REQUEST."""

    method: AuthMethod
    payload: bytes


@dataclass(frozen=True, slots=True)
class AuthResult:
    """The result of a successful authentication, on either side."""

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
    """Between client and monitor: the challenge that a renewal of the AUTH ticket answers again (§5.5)."""
    ticket_expires_s: float | None = None
    """Unix time at which the presented ticket expires; None if none was presented."""


@dataclass(frozen=True, slots=True)
class AuthMore:
    """Server side: another round is needed; the payload is for AUTH_REPLY_MORE."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class AuthDone:
    """Server side: the peer has authenticated; the payload is for AUTH_DONE."""

    payload: bytes
    result: AuthResult


AuthStep = AuthMore | AuthDone


class ClientExchange(Protocol):
    """The connector's half of one authentication. Every method may raise AuthError or DecodeError.

    With v1 the same methods are used: :meth:`start` for a CONNECT, :meth:`more` for CHALLENGE_AUTHORIZER,
    :meth:`done` for any other reply with an authorizer reply, :meth:`bad_method` for BADAUTHORIZER,
    :meth:`repeated` for a CONNECT with the last authorizer again (§3.3).
    """

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again."""

    def start(self) -> AuthOpening:
        """Start the first attempt."""

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """Start the next attempt after AUTH_BAD_METHOD; ``result`` is its negative errno."""

    def more(self, payload: bytes) -> bytes:
        """Answer AUTH_REPLY_MORE."""

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        """Check AUTH_DONE and return the keys."""


class ServerExchange(Protocol):
    """The acceptor's half of one authentication. Every method may raise AuthError or DecodeError."""

    allowed_methods: tuple[AuthMethod, ...]
    """The allowed methods in order of preference, for AUTH_BAD_METHOD."""

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST; ``method`` is one of the allowed ones."""

    def more(self, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST_MORE."""

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:
        """Check the authorizer of a v1 CONNECT; ``challenge`` is True if the peer supports challenges.

        Called for each CONNECT by :func:`messenger.cephx.v1.judge_connect`.
        """


@runtime_checkable
class AuthClient(Protocol):
    """An identity that can authenticate to peers; it outlives links and stores tickets."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        """A new exchange with a peer of that type. ``wall_time_s`` is unix time."""


@runtime_checkable
class AuthServer(Protocol):
    """Authenticates the peers of an acceptor."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ServerExchange:
        """A new exchange with a peer that announced ``peer_type`` in HELLO."""
