"""Keys of links, as an observer with keys learns them: hostile handshakes and MAuth messages.

See docs/protocol.md §4.7, §3.3, §5.

An input is a list of steps, each something that passes on the link. What is sealed on the wire an input may bring
as plaintext, which is sealed here with the keys that the listener has, so that fuzzing gets behind the ciphers.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.ciphers import KeyUsage
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import (
    Authenticate,
    AuthMode,
    Authorize,
    AuthorizeReply,
    ExpiringCryptoKey,
    Prelude,
    RequestHeader,
    RequestType,
    RotatingSecrets,
    ServiceTicketInfo,
    TicketBlob,
)
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.auth import MAuth, MAuthReply
from messenger.v1.wire import REPLY_TAGS, Connect, ConnectReply
from messenger.v2 import wire
from tests.fuzz.seeds import ADMIN, KEYS, grant, session_reply
from tests.fuzz.target import BrokenPromise, Cursor, Target
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook, LinkKeys

_TYPES = tuple(KEYS)
_DIRECTIONS = tuple(Direction)
_REPLIES = tuple(sorted(REPLY_TAGS))
_MOST_STEPS = 12
_LONGEST_PHRASE = 250


class _Listener:
    """One link, and the generator of its frames."""

    def __init__(self, options: int) -> None:
        self._key = KEYS[_TYPES[options & 1]]
        self._session_key = self._key
        services = {service: {1: self._key} for service in EntityType}
        self.link = LinkKeys(KeyBook({ADMIN: self._key}, services if options & 2 else None))

    def step(self, cursor: Cursor) -> None:
        """Something passes."""
        steps = (self._control, self._control, self._connect, self._reply, self._asked, self._answered)
        choice = cursor.number()
        direction = _DIRECTIONS[choice >> 7]
        steps[(choice & 127) % len(steps)](direction, cursor)

    def _control(self, direction: Direction, cursor: Cursor) -> None:
        makers: tuple[Callable[[int, bytes], wire.ControlFrame], ...] = (
            lambda n, payload: wire.AuthRequest(n, [1, 2], payload),
            lambda _n, payload: wire.AuthReplyMore(payload),
            lambda _n, payload: wire.AuthRequestMore(payload),
            lambda n, payload: wire.AuthDone(4100, n, payload),
            lambda n, _payload: wire.AuthBadMethod(n, -13, [2], [1, 2]),
        )
        make = makers[cursor.number() % len(makers)]
        number = cursor.number()
        self.link.control(direction, make(number, self._payload(cursor)))

    def _connect(self, direction: Direction, cursor: Cursor) -> None:
        method = cursor.number()
        connect = Connect(ALL_FEATURES, EntityType.CLIENT, 1, 0, 24, method, 0, self._payload(cursor))
        self.link.v1_piece(direction, connect)

    def _reply(self, direction: Direction, cursor: Cursor) -> None:
        tag = _REPLIES[cursor.number() % len(_REPLIES)]
        features = ALL_FEATURES if cursor.number() & 1 else cursor.number(8)
        self.link.v1_piece(direction, ConnectReply(tag, features, authorizer=self._payload(cursor)))

    def _asked(self, direction: Direction, cursor: Cursor) -> None:
        if cursor.number() & 1:
            self.link.message(direction, MAuth.TYPE, cursor.counted(2))
            return
        front = Encoder()
        MAuth(cursor.number() & 3, self._payload(cursor)).encode(front, ALL_FEATURES)
        self.link.message(direction, MAuth.TYPE, front.getvalue())

    def _answered(self, direction: Direction, cursor: Cursor) -> None:
        if cursor.number() & 1:
            self.link.message(direction, MAuthReply.TYPE, cursor.counted(2))
            return
        front = Encoder()
        MAuthReply(2, 0, 4100, self._payload(cursor)).encode(front, ALL_FEATURES)
        self.link.message(direction, MAuthReply.TYPE, front.getvalue())

    def _payload(self, cursor: Cursor) -> bytes:
        makers = (self._raw, self._authorizer, self._service_reply, self._rotating, self._session)
        return makers[cursor.number() % len(makers)](cursor)

    def _raw(self, cursor: Cursor) -> bytes:
        return cursor.counted(2)

    def _authorizer(self, cursor: Cursor) -> bytes:
        info, authorize = cursor.counted(), cursor.counted()
        with suppress(DecodeError):
            self._session_key = ServiceTicketInfo.decode(Decoder(info)).session_key
        ticket = TicketBlob(cursor.number(), _sealed(self._key, KeyUsage.TICKET_INFO, info))
        sealed = _sealed(self._session_key, KeyUsage.AUTHORIZE, authorize)
        return bytes([AuthMode.AUTHORIZER]) + encoded(Authorizer(4100, cursor.number(), ticket, sealed))

    def _service_reply(self, cursor: Cursor) -> bytes:
        return _blob(_sealed(self._session_key, KeyUsage.AUTHORIZE_REPLY, cursor.counted()))

    def _rotating(self, cursor: Cursor) -> bytes:
        header = RequestHeader(RequestType.GET_ROTATING_KEY)
        sealed = _sealed(self._key, KeyUsage.ROTATING_SECRETS, cursor.counted(2))
        return encoded(header) + bytes(4) + _blob(sealed)

    def _session(self, cursor: Cursor) -> bytes:
        return session_reply(_TYPES[cursor.number() & 1])

    def check(self) -> None:
        """Known keys of the link can be used, and the reason for each missing one is reported."""
        link = self.link
        if not link.missing.isprintable() or len(link.missing) > _LONGEST_PHRASE:
            raise BrokenPromise(f"not one clear phrase: {link.missing!r}")
        if link.connection_secret is not None and len(link.connection_secret) != len(bytes(64)):
            raise BrokenPromise(f"connection secret of {len(link.connection_secret)} bytes")
        link.signature_verdict(wire.AuthSignature(bytes(32)), b"all that was received")
        if link.signer is not None:
            link.signer(1, 2, 3, 4, 5, 6, 7, 8)


def _sealed(key: CryptoKey, usage: KeyUsage, content: bytes) -> bytes:
    """Keys of unknown types, which an input may bring, seal nothing."""
    with suppress(DecodeError):
        return key.seal(usage, content, Random(1))
    return content


def _blob(content: bytes) -> bytes:
    encoder = Encoder()
    encoder.blob(content)
    return encoder.getvalue()


def run(data: bytes) -> None:
    """Listen to all steps."""
    cursor = Cursor(data)
    listener = _Listener(cursor.number())
    for _ in range(_MOST_STEPS):
        if not cursor:
            break
        listener.step(cursor)
        listener.check()


def _counted(raw: bytes, size_bytes: int = 2) -> bytes:
    return len(raw).to_bytes(size_bytes, "little") + raw


def seeds() -> Iterator[bytes]:
    """Logins at monitors and services on both protocols, and the renewals in messages."""
    prelude = encoded(Prelude(AuthMode.MON, ADMIN, 0))
    proof = encoded(RequestHeader(RequestType.GET_AUTH_SESSION_KEY), Authenticate(1, 2, TicketBlob(1, b"x"), 0x35))
    for number, key_type in enumerate(_TYPES):
        blob = grant(key_type, EntityType.OSD).blob
        assert blob is not None
        info = encoded(KEYS[key_type].unseal(KeyUsage.TICKET_INFO, blob.blob, ServiceTicketInfo.decode))
        shown = b"\1" + _counted(info, 1) + _counted(encoded(Authorize(7)), 1) + bytes([1, EntityType.OSD])
        reply = b"\2" + _counted(encoded(AuthorizeReply(8, bytes(64))), 1)
        ask, done = bytes([0, 0, 2]), bytes([128, 3, 2])
        rotating = encoded(RotatingSecrets({3: ExpiringCryptoKey(KEYS[key_type], UTime(60))}, 3))
        login = ask + b"\0" + _counted(prelude) + bytes([0, 2, 0, 0]) + _counted(proof)
        yield bytes([number]) + login + done + bytes([4, number])
        yield bytes([number]) + login + done + bytes([4, 1 - number])
        yield bytes([2 + number]) + ask + shown + done + reply
        yield bytes([2 + number, 2, 2]) + shown + bytes([131, 0, 1]) + reply
        renewals = bytes([4, 0, 2, 0]) + _counted(proof) + bytes([133, 0, 4, number])
        yield bytes([number]) + renewals + bytes([133, 0, 3]) + _counted(rotating)


TARGETS = (Target(name="keys", run=run, seeds=seeds, mutations=300),)
