"""Authentication out of the record: what one side sent is sent again, and its keys are those of the record."""

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
from toolkit.replay.handshake import Handshake

_METHODS = frozenset(map(int, AuthMethod))


def _method(number: int) -> AuthMethod:
    if number not in _METHODS:
        raise AuthError(FaultReason.AUTH_METHOD, f"method {number}")
    return AuthMethod(number)


class RecordedClient:
    """What a dialler sent to authenticate, in that order."""

    def __init__(self, handshake: Handshake) -> None:
        self._requests: Iterator[tuple[int, bytes]] = iter(handshake.requests)
        self._result = handshake.result

    def _next(self) -> tuple[int, bytes]:
        found = next(self._requests, None)
        if found is None:
            raise AuthError(FaultReason.AUTH_DENIED, "the record has no further request")
        return found

    def repeated(self) -> None:
        """v1: the last authorizer is sent again."""
        self._next()

    def start(self) -> AuthOpening:
        """The first attempt."""
        method, payload = self._next()
        return AuthOpening(_method(method), payload)

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:  # noqa: ARG002 - it is recorded
        """The next attempt."""
        return self.start()

    def more(self, payload: bytes) -> bytes:  # noqa: ARG002 - the answer is recorded
        """The answer to AUTH_REPLY_MORE, or to a challenge."""
        return self._next()[1]

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:  # noqa: ARG002 - see above
        """The keys."""
        return self._result


class RecordedServer:
    """What the accepting side answered, in that order.

    Args:
        handshake: of the link.
        replies: those that were not given yet; a second exchange of the link goes on with them.
    """

    def __init__(self, handshake: Handshake, replies: Iterator[ControlFrame | ConnectReply]) -> None:
        self._replies = replies
        self._result = handshake.result
        self.allowed_methods = tuple(_allowed(handshake))

    def _next(self) -> ControlFrame | ConnectReply:
        found = next(self._replies, None)
        if found is None:
            raise AuthError(FaultReason.AUTH_BUSY, "the record has no further answer")
        return found

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:  # noqa: ARG002 - recorded
        """The answer to AUTH_REQUEST."""
        return self.more(payload)

    def more(self, payload: bytes) -> AuthStep:  # noqa: ARG002 - the answer is recorded
        """The answer to AUTH_REQUEST_MORE."""
        reply = self._next()
        if isinstance(reply, AuthReplyMore):
            return AuthMore(bytes(reply.auth_payload))
        if isinstance(reply, AuthBadMethod):
            raise AuthError(FaultReason.AUTH_DENIED, "as in the record", -reply.result)
        assert isinstance(reply, AuthDoneFrame)
        return AuthDone(bytes(reply.auth_payload), self._result)

    def authorize(self, method: AuthMethod, payload: bytes, *, challenge: bool) -> AuthStep:  # noqa: ARG002 - see above
        """v1: the authorizer of the next reply."""
        reply = self._next()
        assert isinstance(reply, ConnectReply)
        if reply.tag is Tag.CHALLENGE_AUTHORIZER:
            return AuthMore(reply.authorizer)
        if reply.tag is Tag.BADAUTHORIZER:
            raise AuthError(FaultReason.AUTH_DENIED, "as in the record")
        return AuthDone(reply.authorizer, self._result)


def _allowed(handshake: Handshake) -> Iterator[AuthMethod]:
    """Methods by preference: those of AUTH_BAD_METHOD, else the one that was taken."""
    for reply in handshake.replies:
        if isinstance(reply, AuthBadMethod):
            yield from (AuthMethod(number) for number in reply.allowed_methods if number in _METHODS)
            return
    yield from dict.fromkeys(AuthMethod(number) for number, _ in handshake.requests if number in _METHODS)


class RecordedAuth:
    """Both sides of authentication for the link whose handshake is ``current``."""

    def __init__(self, current: Handshake) -> None:
        self.current = current

    def client(self) -> "_Clients":
        """For links that are dialled."""
        return _Clients(self)

    def server(self) -> "_Servers":
        """For links that are accepted."""
        return _Servers(self)


class _Clients:
    def __init__(self, auth: RecordedAuth) -> None:
        self._auth = auth

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:  # noqa: ARG002
        """The dialler's half for the current link."""
        return RecordedClient(self._auth.current)


class _Servers:
    def __init__(self, auth: RecordedAuth) -> None:
        self._auth = auth
        self._replies: dict[int, Iterator[ControlFrame | ConnectReply]] = {}
        """Of each link, by its handshake's id."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ServerExchange:  # noqa: ARG002
        """The accepting side's half for the current link."""
        handshake = self._auth.current
        return RecordedServer(handshake, self._replies.setdefault(id(handshake), iter(handshake.replies)))
