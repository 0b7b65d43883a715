"""Auth none: every claimed identity is accepted (docs/protocol.md §5.9).

There is no session key: AUTH_SIGNATURE contains zeros, and secure mode is impossible.
"""

from itertools import count

from messenger.cephx.exchange import (
    AuthDone,
    AuthMethod,
    AuthOpening,
    AuthResult,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.cephx.refusal import Refusal, refusal
from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import DecodeError, check_kind
from messenger.randomness import RandomSource

_FIRST_GLOBAL_ID = 4100
"""First global_id assigned, as by the monitors of a new cluster."""


class NoneClient:
    """An entity that only announces its name. A monitor may assign a global_id, which it then keeps."""

    def __init__(self, name: AuthName, global_id: int = 0) -> None:
        check_kind("name", name, AuthName, "AuthName.parse('client.admin')")
        self.name = name
        self.global_id = global_id

    def exchange(
        self,
        peer_type: EntityType,
        wall_time_s: float,  # noqa: ARG002 - nothing expires
        rng: RandomSource,  # noqa: ARG002 - nothing is secret
    ) -> ClientExchange:
        """A new exchange with a peer of that type."""
        return NoneClientExchange(self, peer_type)


class NoneClientExchange:
    """One authentication: it consists of the introduction."""

    def __init__(self, client: NoneClient, peer_type: EntityType) -> None:
        self._client = client
        self._mode = AuthMode.MON if peer_type is EntityType.MON else AuthMode.AUTHORIZER
        self._claimed_id = 0
        """The global_id that it sent: the client may get another one from a monitor before the answer comes."""

    def start(self) -> AuthOpening:
        """Send name and global_id."""
        self._claimed_id = self._client.global_id
        prelude = Prelude(self._mode, self._client.name, self._claimed_id)
        return AuthOpening(AuthMethod.NONE, encoded(prelude))

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again. Nothing to prepare."""

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """End this exchange; always raises RefusedError."""
        raise refusal(AuthMethod.NONE, result, allowed_methods)

    def more(self, payload: bytes) -> bytes:  # noqa: ARG002 - whatever it is
        """Always raises RefusedError: there is no second round."""
        raise Refusal.UNEXPECTED_REPLY.error("auth none has no second round")

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:  # noqa: ARG002 - empty
        """Store the global_id if a monitor assigns one.

        Raises:
            RefusedError: METHOD_NOT_ALLOWED: a mode that needs keys.
        """
        require_crc(con_mode)
        if self._mode == AuthMode.AUTHORIZER:
            return AuthResult(self._claimed_id)
        self._client.global_id = global_id
        return AuthResult(global_id)


class NoneServer:
    """Accepts every client. At a monitor it also assigns global_ids."""

    def __init__(self) -> None:
        self._new_global_ids = count(_FIRST_GLOBAL_ID)

    def exchange(
        self,
        peer_type: EntityType,  # noqa: ARG002 - the peer announces its name
        wall_time_s: float,  # noqa: ARG002 - nothing expires
        rng: RandomSource,  # noqa: ARG002 - nothing is secret
    ) -> ServerExchange:
        """A new exchange."""
        return NoneServerExchange(self)

    def global_id_for(self, prelude: Prelude) -> int:
        """The global_id that the peer claims, or a new one if it requests that."""
        if prelude.mode == AuthMode.MON and not prelude.global_id:
            return next(self._new_global_ids)
        return prelude.global_id


class NoneServerExchange:
    """One authentication, which accepts the introduction."""

    allowed_methods: tuple[AuthMethod, ...] = (AuthMethod.NONE,)

    def __init__(self, server: NoneServer) -> None:
        self._server = server

    def start(
        self,
        method: AuthMethod,  # noqa: ARG002 - there is one
        con_mode: ConMode,
        payload: bytes,
    ) -> AuthStep:
        """Accept the name that the peer announces.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: METHOD_NOT_ALLOWED: a mode that needs keys.
        """
        require_crc(con_mode)
        prelude = Prelude.decode(Decoder(payload))
        if prelude.mode not in (AuthMode.AUTHORIZER, AuthMode.MON):
            raise DecodeError(f"auth mode {prelude.mode} is neither a service's nor a monitor's")
        return AuthDone(b"", AuthResult(self._server.global_id_for(prelude), name=prelude.name))

    def more(self, payload: bytes) -> AuthStep:  # noqa: ARG002 - whatever it is
        """Always raises RefusedError: there is no second round."""
        raise Refusal.NO_CHALLENGE.error("auth none has no second round")

    def authorize(
        self,
        method: AuthMethod,
        payload: bytes,
        *,
        challenge: bool,  # noqa: ARG002 - there is none
    ) -> AuthStep:
        """Accept the name of a CONNECT; raises DecodeError."""
        return self.start(method, ConMode.CRC, payload)


def require_crc(con_mode: ConMode) -> None:
    """Raise RefusedError METHOD_NOT_ALLOWED for a mode that needs keys."""
    if con_mode == ConMode.SECURE:
        raise Refusal.METHOD_NOT_ALLOWED.error("auth none has no keys for secure mode")
