"""Authentication to a monitor, both sides, in the handshake of v2 and by MAuth messages.

See docs/protocol.md §5.5, §5.6.

As with services, an input brings plaintext, which is sealed here with the keys that both sides have.
"""

from collections.abc import Iterator
from contextlib import suppress
from random import Random

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.ciphers import KeyType, KeyUsage
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod, ConMode, ServerExchange
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import Introduction
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.structures import (
    NO_TICKET,
    Authenticate,
    AuthMode,
    Authorize,
    Prelude,
    RequestHeader,
    RequestType,
    RotatingSecrets,
    ServiceTicket,
    ServiceTicketRequest,
    TicketBlob,
)
from messenger.cephx.tickets import open_ticket
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, PeerError
from tests.fuzz.seeds import ADMIN, KEYS, NOW_S, grant, session_reply, structure_seeds
from tests.fuzz.target import Cursor, Target
from tests.support.cephx import OSD_0, Cluster

_MODES = (ConMode.CRC, ConMode.SECURE)
_TYPES = tuple(KEYS)
_MOST_STEPS = 6


def _sealed(key: CryptoKey, usage: KeyUsage, content: bytes) -> bytes:
    return key.seal(usage, content, Random(1))


def _blob(content: bytes) -> bytes:
    encoder = Encoder()
    encoder.blob(content)
    return encoder.getvalue()


# ---- a client


def run_monitor_client(data: bytes) -> None:
    """The client's half towards a monitor: its challenge, then its tickets, sealed or not."""
    cursor = Cursor(data)
    options = cursor.number()
    key = KEYS[_TYPES[options >> 1 & 1]]
    client = CephxClient(ADMIN, key)
    for _ in range(1 + (options >> 3 & 1)):  # the second time it proves its global_id
        exchange = client.exchange(EntityType.MON, NOW_S, Random(1))
        exchange.start()
        try:
            exchange.more(cursor.take(9))
            payload = cursor.counted(2) if options & 1 else _tickets(key, cursor)
            repr(exchange.done(cursor.number(), _MODES[options >> 2 & 1], payload))
        except PeerError:
            continue
    repr(client.tickets)


def _tickets(key: CryptoKey, cursor: Cursor) -> bytes:
    """The answer to GET_AUTH_SESSION_KEY around plaintext of the input: header, tickets, secret, more tickets."""
    encoder = Encoder()
    encoder.raw(cursor.take(6))
    session_key = _ticket_list(encoder, key, cursor) or key
    if cursor.number() & 1:
        sealed = _sealed_if_possible(session_key, KeyUsage.AUTH_CONNECTION_SECRET, cursor.counted())
        encoder.blob(_blob(sealed))
        extra = Encoder()
        _ticket_list(extra, session_key, cursor)
        encoder.blob(extra.getvalue())
    return encoder.getvalue()


def _ticket_list(encoder: Encoder, key: CryptoKey, cursor: Cursor) -> CryptoKey | None:
    """Tickets whose plaintext is the input's; returns the session key in the first one."""
    encoder.u8(1)
    count = cursor.number() % 4
    encoder.u32(count)
    first = None
    for _ in range(count):
        encoder.u32(cursor.number())
        encoder.u8(1)
        plain = cursor.counted()
        encoder.blob(_sealed_if_possible(key, KeyUsage.SERVICE_TICKET, plain))
        encoder.boolean(bool(cursor.number() & 1))
        encoder.blob(cursor.counted())
        if first is None:
            with suppress(DecodeError):
                first = ServiceTicket.decode(Decoder(plain)).session_key
    return first


def _sealed_if_possible(key: CryptoKey, usage: KeyUsage, content: bytes) -> bytes:
    """Keys of unknown types, which an input may bring, seal nothing."""
    with suppress(DecodeError):
        return _sealed(key, usage, content)
    return content


def monitor_client_seeds() -> Iterator[bytes]:
    """A monitor's reply as it is on the wire, and from its parts, also with a session key of an unknown type."""
    challenge = b"\1" + bytes([9, 0, 0, 0, 0, 0, 0, 0])
    header = b"\0\1\0\0\0\0"
    for number, key_type in enumerate(_TYPES):
        raw = session_reply(key_type)
        for options in (1, 5):
            yield bytes([options + 2 * number]) + challenge + _counted(raw) + b"\7"
        grants = _grants(key_type)
        yield bytes([2 * number]) + challenge + header + grants + b"\0\7"
        yield bytes([2 * number]) + challenge + header + grants + b"\1\4\0\0\0\0" + grants + b"\7"
    strange, blob = encoded(ServiceTicket(CryptoKey(77, b"secret"), UTime(60))), encoded(TicketBlob(1, b"sealed"))
    grants = bytes([1, EntityType.AUTH, len(strange)]) + strange + bytes([0, len(blob)]) + blob
    yield b"\0" + challenge + header + grants + b"\0\7"


# ---- a client that renews


def run_mauth_client(data: bytes) -> None:
    """Replies to a client's MAuth, in any order, and the passing of time."""
    cursor = Cursor(data)
    options = cursor.number()
    key = KEYS[_TYPES[options & 1]]
    identity = ClientAuth({AuthMethod.CEPHX: CephxClient(ADMIN, key), AuthMethod.NONE: NoneClient(ADMIN)})
    rotating = RotatingKeyring(EntityType.OSD) if options & 2 else None
    client = MonAuthClient(identity, Random(1), rotating=rotating)
    client.start(NOW_S)
    now_s = NOW_S
    for _ in range(_MOST_STEPS):
        if not cursor:
            return
        kind = cursor.number() % 4
        if kind == 3:
            now_s += cursor.number(2) * 60.0
            for _ in range(8):
                if client.due(now_s) is None:
                    break
            continue
        protocol, result, global_id = cursor.number() & 7, cursor.number(), cursor.number()
        payload = _mauth_payload(kind, key, client, cursor)
        try:
            client.handle(protocol, -result, 4100 + global_id if global_id < 250 else 0, payload, now_s)
        except PeerError:
            continue


def _mauth_payload(kind: int, key: CryptoKey, client: MonAuthClient, cursor: Cursor) -> bytes:
    if kind == 0:
        return cursor.counted(2)
    if kind == 1:
        return _tickets(key, cursor)
    encoder = Encoder()
    encoder.raw(cursor.take(6))
    if cursor.number() & 1:
        encoder.blob(_sealed(key, KeyUsage.ROTATING_SECRETS, cursor.counted(2)))
    else:
        held = client._auth.methods[AuthMethod.CEPHX].tickets.get(EntityType.AUTH)
        _ticket_list(encoder, held.session_key if held else key, cursor)
    return encoder.getvalue()


def mauth_client_seeds() -> Iterator[bytes]:
    """A login on v1 with renewals of everything, from its parts."""
    challenge = b"\1" + bytes([9, 0, 0, 0, 0, 0, 0, 0])
    introduced = bytes([0, AuthMethod.CEPHX, 0, 0, 9, 0]) + challenge
    for number, key_type in enumerate(_TYPES):
        grants = _grants(key_type)
        session = bytes([1, AuthMethod.CEPHX, 0, 0]) + b"\0\1\0\0\0\0" + grants + b"\0"
        tickets = bytes([2, AuthMethod.CEPHX, 0, 0]) + b"\0\2\0\0\0\0" + b"\0" + grants
        secrets = structure_seeds(RotatingSecrets)[0]
        rotating = bytes([2, AuthMethod.CEPHX, 0, 0]) + b"\0\4\0\0\0\0" + b"\1" + _counted(secrets)
        for options in (number, number | 2):
            yield bytes([options]) + introduced + session + tickets + rotating + bytes([3, 200, 20])
            yield bytes([options]) + introduced + session + bytes([3, 200, 0]) + rotating + tickets
            yield bytes([options]) + introduced + bytes([0, 2, 13, 0, 0, 0, 3, 1, 0])
    yield bytes([0, 0, AuthMethod.NONE, 0, 0, 0, 0])


def _grants(key_type: KeyType) -> bytes:
    """The part of an input that stands for one proper ticket."""
    ticket, blob = grant(key_type).ticket, grant(key_type).blob
    assert blob is not None
    plain, sealed = encoded(ticket), encoded(blob)
    return bytes([1, EntityType.AUTH, len(plain)]) + plain + bytes([0, len(sealed)]) + sealed


def _counted(raw: bytes) -> bytes:
    return len(raw).to_bytes(2, "little") + raw


# ---- a monitor


def run_monitor(data: bytes) -> None:
    """Introductions, proofs and requests of an entity, by either way, in any order."""
    cursor = Cursor(data)
    options = cursor.number()
    cluster = Cluster(_TYPES[options & 1], _TYPES[options >> 1 & 1])
    name = OSD_0 if options & 4 else ADMIN
    peer_type = EntityType.MON if options & 8 else name.type
    exchange = cluster.server.exchange(peer_type, NOW_S, Random(1))
    session = MonAuthSession(cluster.server, Random(1))
    challenge = 0
    for _ in range(_MOST_STEPS):
        if not cursor:
            return
        kind = cursor.number()
        payload = _request(kind % 4, cluster, name, challenge, cursor, over_mauth=bool(options & 16))
        if options & 16:
            # Whatever is wrong is in the answer.
            answer = session.handle(AuthMethod.UNKNOWN if kind % 4 == 0 else AuthMethod.CEPHX, payload, NOW_S)
            reply = b"" if answer is None else answer.payload
        else:
            reply = _handshake_step(exchange, payload, options, first=kind % 4 == 0 or kind > 127)
        if kind % 4 == 0:
            challenge = int.from_bytes(reply[1:9], "little")


def _handshake_step(exchange: ServerExchange, payload: bytes, options: int, *, first: bool) -> bytes:
    try:
        if first:
            step = exchange.start(AuthMethod.CEPHX, _MODES[options >> 5 & 1], payload)
        else:
            step = exchange.more(payload)
    except PeerError:
        return b""
    return step.payload


def _request(
    kind: int, cluster: Cluster, name: AuthName, challenge: int, cursor: Cursor, *, over_mauth: bool
) -> bytes:
    """A payload: an introduction, a proof of the own key, a request for tickets, or anything."""
    if kind == 0:
        claimed = cursor.number(2)
        if over_mauth:
            return encoded(Introduction(frozenset({1, 2}), name, claimed))
        return encoded(Prelude(AuthMode.MON, name, claimed))
    if kind == 1:
        header = RequestHeader(cursor.number() << 8)
        mine = cursor.number(8)
        key = cluster.key(name).challenge_response(challenge, mine) ^ cursor.number()
        old = TicketBlob(cursor.number(), _old_ticket(cluster, cursor)) if cursor.number() & 1 else NO_TICKET
        return encoded(header, Authenticate(mine, key, old, cursor.number(), 3 - cursor.number() % 3))
    if kind == 2:
        ticket = TicketBlob(cursor.number(), _old_ticket(cluster, cursor))
        sealed = _sealed(cluster.key(name), KeyUsage.AUTHORIZE, cursor.counted())
        authorizer = encoded(Authorizer(cursor.number(2), EntityType.AUTH, ticket, sealed))
        head = encoded(RequestHeader(RequestType.GET_PRINCIPAL_SESSION_KEY)) + bytes([AuthMode.AUTHORIZER])
        return head + authorizer + encoded(ServiceTicketRequest(cursor.number()))
    return cursor.counted(2)


def _old_ticket(cluster: Cluster, cursor: Cursor) -> bytes:
    """An AUTH ticket whose plaintext is the input's."""
    cluster.keys.rotate(NOW_S)
    plain = cursor.counted()
    return _sealed(cluster.keys.secrets(EntityType.AUTH)[1], KeyUsage.TICKET_INFO, plain)


def monitor_seeds() -> Iterator[bytes]:
    """A login, then requests for session keys, tickets and rotating keys, over both ways."""
    login = bytes([0, 0, 0, 1, 1]) + bytes(8) + bytes([0, 0, 0x3D, 0])
    reclaim = bytes([0, 4, 16])
    rotating = bytes([3, 2, 0, 0, 4])
    for options in (0, 1, 2, 4, 8, 16, 17, 18, 20, 32):
        key_type = _TYPES[options & 1]
        blob = grant(key_type).blob
        assert blob is not None
        info = encoded(open_ticket(blob, {1: KEYS[key_type]}))
        proof = bytes([1, 1]) + bytes(8) + bytes([0, 1, 1, len(info)]) + info + bytes([0x3D, 0])
        authorize = encoded(Authorize(7))
        tickets = bytes([2, 1, len(info)]) + info + bytes([len(authorize)]) + authorize + bytes([4, 16, 4])
        yield bytes([options]) + login + tickets + rotating
        yield bytes([options]) + reclaim + proof
    yield bytes([16, 3, 30, 0]) + bytes(30)


TARGETS = (
    Target(name="cephx-monitor-client", run=run_monitor_client, seeds=monitor_client_seeds, max_bytes=900),
    Target(name="cephx-mauth-client", run=run_mauth_client, seeds=mauth_client_seeds, max_bytes=900),
    Target(name="cephx-monitor", run=run_monitor, seeds=monitor_seeds, mutations=200, max_bytes=500),
)
