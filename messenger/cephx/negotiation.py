"""Several authentication methods on one side, and the choice among them (docs/protocol.md §4.7)."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from messenger.cephx.exchange import (
    AuthClient,
    AuthMethod,
    AuthOpening,
    AuthResult,
    AuthServer,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.cephx.refusal import Refusal, method_label
from messenger.denc.entity import EntityType
from messenger.errors import AuthError, LocalError
from messenger.randomness import RandomSource


class ClientAuth:
    """An identity with several methods, in order of preference.

    After a monitor has accepted one method, only that method is used with other peers: the cluster has one method,
    and its tickets come from that monitor.

    Raises:
        LocalError: there are no methods.
    """

    def __init__(self, methods: Mapping[AuthMethod, AuthClient]) -> None:
        if not methods:
            raise LocalError("an identity needs at least one authentication method")
        self._methods = dict(methods)
        self._agreed: AuthMethod | None = None

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        """A new exchange with a peer of that type."""
        methods = self._methods
        if peer_type is not EntityType.MON and self._agreed is not None:
            methods = {self._agreed: methods[self._agreed]}
        attempts = [(method, client.exchange(peer_type, wall_time_s, rng)) for method, client in methods.items()]
        return NegotiatingExchange(attempts, self.agree if peer_type is EntityType.MON else None)

    @property
    def methods(self) -> Mapping[AuthMethod, AuthClient]:
        """The methods in order of preference, and the identity that each uses."""
        return MappingProxyType(self._methods)

    def agree(self, method: AuthMethod) -> None:
        """Record that a monitor has accepted this identity with ``method``."""
        self._agreed = method


class NegotiatingExchange:
    """One authentication that tries the next method when the peer refuses one."""

    def __init__(
        self,
        attempts: Sequence[tuple[AuthMethod, ClientExchange]],
        agreed: Callable[[AuthMethod], None] | None = None,
    ) -> None:
        self._attempts = iter(attempts)
        self._method, self._exchange = next(self._attempts)
        self._agreed = agreed

    def start(self) -> AuthOpening:
        """Start the attempt with the preferred method."""
        return self._exchange.start()

    def repeated(self) -> None:
        """v1: the last authorizer is sent again, and the peer may challenge it again."""
        self._exchange.repeated()

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """Start the attempt with the next method that the peer allows, whatever the errno of the refusal.

        Raises:
            RefusedError: no method is left: REFUSED or NO_COMMON_METHOD for the last one tried.
        """
        try:
            return self._exchange.bad_method(result, allowed_methods)
        except AuthError as error:
            refused = error
        for method, exchange in self._attempts:
            if method in allowed_methods:
                self._method, self._exchange = method, exchange
                return exchange.start()
        raise refused

    def more(self, payload: bytes) -> bytes:
        """Answer with the current method."""
        return self._exchange.more(payload)

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        """Finish with the current method."""
        result = self._exchange.done(global_id, con_mode, payload)
        if self._agreed is not None:
            self._agreed(self._method)
        return result


class ServerAuth:
    """Authenticates peers with several methods, in order of preference.

    Raises:
        LocalError: there are no methods.
    """

    def __init__(self, methods: Mapping[AuthMethod, AuthServer]) -> None:
        if not methods:
            raise LocalError("a service needs at least one authentication method")
        self._methods = dict(methods)

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ServerExchange:
        """A new exchange with a peer that announced ``peer_type`` in HELLO."""
        return JudgingExchange(
            {method: server.exchange(peer_type, wall_time_s, rng) for method, server in self._methods.items()}
        )


class JudgingExchange:
    """One authentication with the method that the peer chooses; after a refusal it may choose another."""

    def __init__(self, exchanges: Mapping[AuthMethod, ServerExchange]) -> None:
        self.allowed_methods: tuple[AuthMethod, ...] = tuple(exchanges)
        self._exchanges = exchanges
        self._current: ServerExchange | None = None

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: METHOD_NOT_ALLOWED; or as the method's exchange.
        """
        self._current = self._exchange_of(method)
        return self._current.start(method, con_mode, payload)

    def more(self, payload: bytes) -> AuthStep:
        """Check AUTH_REQUEST_MORE.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: NO_CHALLENGE: there was no AUTH_REQUEST; or as the method's exchange.
        """
        if self._current is None:
            raise Refusal.NO_CHALLENGE.error("another round of no exchange")
        return self._current.more(payload)

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:
        """Check the authorizer of a CONNECT.

        Raises:
            DecodeError: the payload is malformed.
            RefusedError: METHOD_NOT_ALLOWED; or as the method's exchange.
        """
        return self._exchange_of(method).authorize(method, payload, challenge=challenge)

    def _exchange_of(self, method: AuthMethod) -> ServerExchange:
        exchange = self._exchanges.get(method)
        if exchange is None:
            raise Refusal.METHOD_NOT_ALLOWED.error(f"{method_label(method)} is not allowed here")
        return exchange
