"""Authentication on the replayed side: by our own cephx if the keys are known, else as recorded."""

from collections.abc import Iterator

from messenger.cephx.exchange import (
    AuthDone,
    AuthMethod,
    AuthMore,
    AuthOpening,
    AuthResult,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.denc.entity import EntityType
from messenger.errors import AuthError, FaultReason
from messenger.randomness import RandomSource
from messenger.v1.wire import ConnectReply, Tag
from messenger.v2.wire import AuthBadMethod, AuthReplyMore, ControlFrame
from messenger.v2.wire import AuthDone as AuthDoneFrame
from toolkit.replay.cephx import (
    RecordedRandom,
    client_exchange,
    same_authorizer,
    same_challenge,
    same_reply,
    service_exchange,
    service_keys,
    service_random,
)
from toolkit.replay.handshake import Handshake

_METHODS = frozenset(map(int, AuthMethod))


def _method(number: int) -> AuthMethod:
    if number not in _METHODS:
        raise AuthError(FaultReason.AUTH_METHOD, f"method {number}")
    return AuthMethod(number)


class RecordedClient:
    """A connector's half: the recorded payloads, in their order.

    Args:
        handshake: handshake of the link.
        own: our own exchange, whose payloads are sent if their content differs; None if there is none.
    """

    def __init__(self, handshake: Handshake, own: ClientExchange | None) -> None:
        self._requests = list(handshake.requests)
        self._result = handshake.result
        self._key = handshake.session_key
        self._own = own

    def _next(self) -> tuple[int, bytes]:
        if not self._requests:
            raise AuthError(FaultReason.AUTH_DENIED, "the record has no further request")
        return self._requests.pop(0)

    def _settled(self, own: bytes, recorded: bytes) -> bytes:
        return recorded if same_authorizer(own, recorded, self._key) else own

    def repeated(self) -> None:
        """v1: the last authorizer is sent again."""
        self._next()
        if self._own is not None:
            self._own.repeated()

    def start(self) -> AuthOpening:
        """Return the first attempt."""
        method, payload = self._next()
        if self._own is None:
            return AuthOpening(_method(method), payload)
        opening = self._own.start()
        return AuthOpening(opening.method, self._settled(opening.payload, payload))

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        """Return the next attempt, if the record has one."""
        if self._own is not None and not self._requests:
            return self._own.bad_method(result, allowed_methods)
        self._own = None
        return self.start()

    def more(self, payload: bytes) -> bytes:
        """Return the answer to AUTH_REPLY_MORE, or to a challenge."""
        recorded = self._next()[1]
        return recorded if self._own is None else self._settled(self._own.more(payload), recorded)

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        """Return the keys."""
        return self._result if self._own is None else self._own.done(global_id, con_mode, payload)


class RecordedServer:
    """An acceptor's half: the recorded answers, in their order.

    Args:
        handshake: handshake of the link.
        replies: the remaining answers; a second exchange of the link continues with them.
        own: our own exchange, whose answers are sent if their content differs; None if there is none.
    """

    def __init__(
        self,
        handshake: Handshake,
        replies: Iterator[ControlFrame | ConnectReply],
        own: ServerExchange | None,
    ) -> None:
        self._replies = replies
        self._result = handshake.result
        self._key = handshake.session_key
        self._own = own
        self.allowed_methods = tuple(_allowed(handshake))

    def _next(self) -> ControlFrame | ConnectReply:
        found = next(self._replies, None)
        if found is None:
            raise AuthError(FaultReason.AUTH_BUSY, "the record has no further answer")
        return found

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        """Return the answer to AUTH_REQUEST."""
        recorded = self._recorded()
        return self._settled(self._own.start(method, con_mode, payload), recorded) if self._own else recorded

    def more(self, payload: bytes) -> AuthStep:
        """Return the answer to AUTH_REQUEST_MORE."""
        recorded = self._recorded()
        return self._settled(self._own.more(payload), recorded) if self._own else recorded

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:
        """v1: return the answer to an authorizer."""
        recorded = self._recorded()
        if self._own is None:
            return recorded
        return self._settled(self._own.authorize(method, payload, challenge=challenge), recorded)

    def _recorded(self) -> AuthStep:
        """Return the next recorded answer.

        Raises:
            AuthError: the answer is a refusal.
        """
        reply = self._next()
        if isinstance(reply, AuthBadMethod):
            raise AuthError(FaultReason.AUTH_DENIED, "as in the record", -reply.result)
        if isinstance(reply, AuthReplyMore):
            return AuthMore(bytes(reply.auth_payload))
        if isinstance(reply, AuthDoneFrame):
            return AuthDone(bytes(reply.auth_payload), self._result)
        assert isinstance(reply, ConnectReply)
        if reply.tag is Tag.BADAUTHORIZER:
            raise AuthError(FaultReason.AUTH_DENIED, "as in the record")
        if reply.tag is Tag.CHALLENGE_AUTHORIZER:
            return AuthMore(reply.authorizer)
        return AuthDone(reply.authorizer, self._result)

    def _settled(self, own: AuthStep, recorded: AuthStep) -> AuthStep:
        """Return our own answer, in the recorded bytes if the content is the same."""
        key = self._key
        if key is None or type(own) is not type(recorded):
            return own
        if isinstance(own, AuthMore):
            return recorded if same_challenge(own.payload, recorded.payload, key) else own
        return AuthDone(recorded.payload, own.result) if same_reply(own.payload, recorded.payload, key) else own


def _allowed(handshake: Handshake) -> Iterator[AuthMethod]:
    """Yield methods by preference: those of AUTH_BAD_METHOD, else those of the requests."""
    for reply in handshake.replies:
        if isinstance(reply, AuthBadMethod):
            yield from (AuthMethod(number) for number in reply.allowed_methods if number in _METHODS)
            return
    yield from dict.fromkeys(AuthMethod(number) for number, _ in handshake.requests if number in _METHODS)


class RecordedAuth:
    """Both sides of authentication for the link with the handshake ``current``."""

    def __init__(self, current: Handshake) -> None:
        self.current = current
        self.computed: set[int] = set()
        """Ids of handshakes for which our own cephx computed the payloads."""

    def client(self) -> "_Clients":
        """Return the client side, for links that are dialled."""
        return _Clients(self)

    def server(self) -> "_Servers":
        """Return the server side, for links that are accepted."""
        return _Servers(self)


class _Clients:
    def __init__(self, auth: RecordedAuth) -> None:
        self._auth = auth

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:  # noqa: ARG002
        """Return the connector's half for the current link."""
        handshake = self._auth.current
        own = client_exchange(handshake.requests, handshake.session_key, handshake.book, wall_time_s)
        if own is not None:
            self._auth.computed.add(id(handshake))
        return RecordedClient(handshake, own)


class _Servers:
    def __init__(self, auth: RecordedAuth) -> None:
        self._auth = auth
        self._replies: dict[int, Iterator[ControlFrame | ConnectReply]] = {}
        """Answers of each link, by the id of its handshake."""
        self._random: dict[int, RecordedRandom] = {}

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ServerExchange:  # noqa: ARG002
        """Return the acceptor's half for the current link."""
        handshake = self._auth.current
        replies = self._replies.setdefault(id(handshake), iter(handshake.replies))
        return RecordedServer(handshake, replies, self._own(handshake, wall_time_s))

    def _own(self, handshake: Handshake, wall_time_s: float) -> ServerExchange | None:
        key, first = handshake.session_key, next(iter(handshake.requests), (0, b""))
        if key is None or first[0] != AuthMethod.CEPHX:
            return None
        keys = service_keys(first[1], handshake.book)
        if not keys:
            return None
        self._auth.computed.add(id(handshake))
        if id(handshake) not in self._random:
            self._random[id(handshake)] = service_random(*handshake.service_payloads, key)
        return service_exchange(keys, wall_time_s, self._random[id(handshake)])
