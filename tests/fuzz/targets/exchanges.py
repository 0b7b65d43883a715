"""Authentication to a service, both sides, with arbitrary payloads at each step (docs/protocol.md §5.7, §5.9).

Fuzzing does not break ciphers, so an input brings plaintext: what is sealed in a payload is sealed here with
the right key, around bytes of the input. The first byte of an input chooses between that and a raw payload.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from messenger.cephx.authorizer import Authorizer, build_authorizer, open_authorizer, successor
from messenger.cephx.ciphers import CIPHERS, KeyType, KeyUsage, unwrap, wrap
from messenger.cephx.exchange import AuthMethod, AuthMore, AuthStep, ConMode, ServerExchange
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.service import CephxService
from messenger.cephx.session_reply import decode_session_reply
from messenger.cephx.structures import (
    AuthMode,
    Authorize,
    AuthorizeChallenge,
    AuthorizeReply,
    Prelude,
    ServiceTicketInfo,
)
from messenger.cephx.tickets import ServiceKey, Ticket, TicketBlob, decode_ticket_reply, open_ticket
from messenger.cephx.v1 import judge_connect
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.denc.layout import encoded
from messenger.errors import DecodeError, PeerError
from tests.fuzz.seeds import ADMIN, KEYS, NOW_S, grant, session_reply
from tests.fuzz.target import Cursor, Target

_MODES = (ConMode.CRC, ConMode.SECURE)
_TYPES = tuple(KEYS)
_ENVELOPE_SIZE = len(wrap(b""))


def _sealed(key: CryptoKey, usage: KeyUsage, content: bytes) -> bytes:
    return key.seal(usage, content, Random(1))


def _blob(content: bytes) -> bytes:
    encoder = Encoder()
    encoder.blob(content)
    return encoder.getvalue()


# ---- a service and a client that presents an authorizer to it


def run_service(data: bytes) -> None:
    """The service's half: options, the ticket's content, then two rounds of AUTHORIZE or of anything."""
    cursor = Cursor(data)
    options = cursor.number()
    key = KEYS[_TYPES[options >> 1 & 1]]
    con_mode = _MODES[options >> 2 & 1]
    server = ServerAuth({AuthMethod.CEPHX: CephxService(EntityType.OSD, {1: key}), AuthMethod.NONE: NoneServer()})
    exchange = server.exchange(EntityType.CLIENT, NOW_S, Random(1))
    if options & 1:
        method = tuple(AuthMethod)[cursor.number() % len(AuthMethod)]
        steps: list[Callable[[], Any]] = [partial(exchange.start, method, con_mode, cursor.counted(2))]
        steps += [partial(exchange.more, cursor.counted(2))] * 2
    else:
        info = cursor.counted(2)
        first, second = [_authorizer(key, info, cursor) for _ in range(2)]
        steps = [partial(exchange.start, AuthMethod.CEPHX, con_mode, first), partial(exchange.more, second)]
    if options & 8:
        steps = [
            partial(_judge, exchange, features=step_features) for step_features in (ALL_FEATURES, 0, ALL_FEATURES)
        ]
        payload = cursor.rest() if options & 1 else first
        steps = [partial(step, authorizer=payload) for step in steps]
    for step in steps:
        try:
            answer = step()
        except PeerError:
            continue
        repr(answer)


def _judge(exchange: ServerExchange, *, authorizer: bytes, features: int) -> AuthStep:
    """The same in the CONNECT of msgr v1."""
    return judge_connect(
        exchange,
        EntityType.OSD,
        EntityType.CLIENT,
        protocol=AuthMethod.CEPHX,
        authorizer=authorizer,
        features=features,
    )


def _authorizer(key: CryptoKey, info: bytes, cursor: Cursor) -> bytes:
    """An authorizer whose ticket holds ``info``, and what is sealed in it the next bytes of the input."""
    session_key = key
    try:
        session_key = ServiceTicketInfo.decode(Decoder(info)).session_key
        authorize = _sealed(session_key, KeyUsage.AUTHORIZE, cursor.counted())
    except DecodeError:  # also of a key type that seals nothing
        authorize = cursor.counted()
    global_id = 4100 if (choice := cursor.number()) < 250 else choice
    ticket = TicketBlob(1, _sealed(key, KeyUsage.TICKET_INFO, info))
    return bytes([AuthMode.AUTHORIZER]) + encoded(Authorizer(global_id, EntityType.OSD, ticket, authorize))


def _info(key_type: KeyType) -> bytes:
    """Return the content of a proper ticket."""
    blob = grant(key_type, EntityType.OSD).blob
    assert blob is not None
    return encoded(open_ticket(blob, {1: KEYS[key_type]}))


def service_seeds() -> Iterator[bytes]:
    """Proper first and second authorizers by both types of keys, and the payloads as they are on the wire."""
    for number, key_type in enumerate(_TYPES):
        info = _info(key_type)
        first, challenge = encoded(Authorize(7)), _challenge_of(key_type)
        second = encoded(Authorize(7, have_challenge=True, server_challenge_plus_one=successor(challenge)))
        for mode in range(2):
            rounds = bytes([len(first)]) + first + b"\0" + bytes([len(second)]) + second + b"\0"
            yield bytes([2 * number + 8 * mode]) + len(info).to_bytes(2, "little") + info + rounds
            yield bytes([2 * number + 4 * mode]) + len(info).to_bytes(2, "little") + info + rounds
        ticket = Ticket.received(grant(key_type, EntityType.OSD), NOW_S)
        raw = build_authorizer(ticket, 4100, Authorize(7), Random(1))
        yield bytes([1 + 2 * number, 2]) + (len(raw).to_bytes(2, "little") + raw) * 2
    prelude = encoded(Prelude(AuthMode.AUTHORIZER, ADMIN, 4100))
    yield bytes([1, 1]) + len(prelude).to_bytes(2, "little") + prelude


def _challenge_of(key_type: KeyType) -> int:
    """The challenge that a service with the fixed randomness of a run gives."""
    exchange = CephxService(EntityType.OSD, {1: KEYS[key_type]}).exchange(EntityType.CLIENT, NOW_S, Random(1))
    ticket = Ticket.received(grant(key_type, EntityType.OSD), NOW_S)
    answer = exchange.start(AuthMethod.CEPHX, ConMode.CRC, build_authorizer(ticket, 4100, Authorize(7), Random(1)))
    assert isinstance(answer, AuthMore)
    return ticket.session_key.unseal(
        KeyUsage.AUTHORIZE_CHALLENGE, answer.payload, AuthorizeChallenge.decode
    ).server_challenge


# ---- a client


def run_client(data: bytes) -> None:
    """The client's half towards a service: its challenge and its reply, or a refusal."""
    cursor = Cursor(data)
    options = cursor.number()
    key = KEYS[_TYPES[options >> 1 & 1]]
    client = ClientAuth(
        {
            AuthMethod.CEPHX: MintingClient(ADMIN, 4100, {EntityType.OSD: ServiceKey(1, key)}),
            AuthMethod.NONE: NoneClient(ADMIN),
        }
    )
    exchange = client.exchange(EntityType.OSD, NOW_S, Random(1))
    opening = exchange.start()
    session_key = open_authorizer(opening.payload, {EntityType.OSD: {1: key}}).info.session_key
    for _ in range(4):
        if not cursor:
            return
        kind, content = cursor.number() % 4, cursor.counted(2)
        try:
            if kind == 0:
                sealed = content if options & 1 else _sealed(session_key, KeyUsage.AUTHORIZE_CHALLENGE, content)
                exchange.more(sealed)
            elif kind == 1:
                reply = content if options & 1 else _blob(_sealed(session_key, KeyUsage.AUTHORIZE_REPLY, content))
                repr(exchange.done(4100, _MODES[options >> 2 & 1], reply))
            else:
                exchange.bad_method(-kind if kind == 2 else cursor.number(4) - (1 << 31), list(content))
        except PeerError:
            continue


def client_seeds() -> Iterator[bytes]:
    """A proper challenge and a reply, each sealed by the run; a refusal."""
    challenge = encoded(AuthorizeChallenge(5))
    nonce = Random(1).getrandbits(64)
    for options in (0, 2, 4, 6):
        reply = encoded(AuthorizeReply(successor(nonce), bytes(64 if options & 4 else 0)))
        steps = ((0, challenge), (1, reply), (2, b"\1"))
        yield bytes([options]) + b"".join(
            bytes([kind]) + len(content).to_bytes(2, "little") + content for kind, content in steps
        )


# ---- what is sealed


def run_sealed(data: bytes) -> None:
    """Ciphertext as it is: unsealing, tickets and whole replies, with keys of both types."""
    cursor = Cursor(data)
    options, ciphertext = cursor.number(), cursor.rest()
    key = KEYS[_TYPES[options & 1]]
    attempts: tuple[Callable[[], object], ...] = (
        lambda: key.unseal(KeyUsage.TICKET_INFO, ciphertext, ServiceTicketInfo.decode),
        lambda: CIPHERS[key.type].decrypt(key.secret, KeyUsage.AUTHORIZE, ciphertext),
        lambda: unwrap(ciphertext),
        lambda: open_ticket(TicketBlob(1, ciphertext), {1: key}),
        lambda: decode_ticket_reply(Decoder(ciphertext), key, key if options & 2 else None),
        lambda: decode_session_reply(ciphertext, key, key if options & 2 else None),
    )
    for attempt in attempts:
        try:
            repr(attempt())
        except PeerError:
            continue


def sealed_seeds() -> Iterator[bytes]:
    """Sealed tickets and replies."""
    for number, key_type in enumerate(_TYPES):
        blob = grant(key_type).blob
        assert blob is not None
        yield bytes([number]) + blob.blob
        yield bytes([number]) + session_reply(key_type)
    yield b"\0" + wrap(b"content")
    yield b"\0" + bytes(_ENVELOPE_SIZE - 1)


TARGETS = (
    Target(name="cephx-service", run=run_service, seeds=service_seeds, max_bytes=600),
    Target(name="cephx-client", run=run_client, seeds=client_seeds, max_bytes=400),
    Target(name="cephx-sealed", run=run_sealed, seeds=sealed_seeds, max_bytes=600),
)
