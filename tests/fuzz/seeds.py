"""Seeds of fuzzing: captured bytes of real daemons, and conversations of our own endpoints.

They are built from the files of the checkout on each run, with equal results; ``python -m tests.fuzz --seed`` adds
them to the corpus.
"""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from messenger.cephx.ciphers import KeyType, KeyUsage
from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import Introduction
from messenger.cephx.session_reply import SessionReply, encode_session_reply
from messenger.cephx.structures import (
    Authenticate,
    AuthMode,
    ExpiringCryptoKey,
    Prelude,
    RequestHeader,
    RequestType,
    RotatingSecrets,
    ServerChallenge,
    ServiceTicketInfo,
    ServiceTicketRequest,
)
from messenger.cephx.tickets import ServiceKey, TicketGrant, mint_ticket
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.errors import PeerError
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.registry import decode_payload
from messenger.v2.wire import AuthBadMethod, ControlFrame, SessionReset
from tests.fuzz.decoders import packages, structures
from tests.support.fronts import captured
from tests.support.network import Pair, Wire
from tests.support.node import numbered
from tests.support.payloads import values_of
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower

DATA = Path(__file__).parent.parent / "messenger" / "messages" / "data"
SECURITY = (("none", ConMode.CRC), ("cephx", ConMode.CRC), ("cephx", ConMode.SECURE))
NOW_S = 1_700_000_000.0
LONGEST_SEED = 1600
"""Longer captures are left to the tests of their modules: the corpus stays small."""
_MADE_UP = 4

# ---- captured


@cache
def captured_messages() -> list[Message]:
    """Messages with the fronts that real daemons and clients sent."""
    plain = [
        Message(kind, front, version=version, compat_version=compat) for kind, version, compat, front in captured()
    ]
    lines = (DATA / "osd_messages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return plain + [
        Message(int(kind), _unhex(front), data=_unhex(data), version=int(version), compat_version=int(compat))
        for kind, version, compat, front, data in rows
    ]


def _unhex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


@cache
def captured_files(pattern: str) -> list[bytes]:
    """The captured files whose path fits, shortest first."""
    return sorted((path.read_bytes() for path in DATA.rglob(pattern)), key=len)


def made_up(kind: Any) -> list[Any]:
    """A few values of a payload or structure of which there is no capture, always the same."""
    found: list[Any] = []

    @settings(
        derandomize=True,
        max_examples=_MADE_UP,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(values_of(kind))
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


# ---- conversations

Chunk = tuple[Direction, bytes]


@cache
def conversation(auth: str, mode: ConMode, protocol: Protocol = Protocol.V2) -> list[Chunk]:
    """Return the bytes that two endpoints send on one link from the banners on, in the order of arrival."""
    chunks: list[Chunk] = []

    def listen(wire: Wire) -> None:
        for pipe, direction in zip(wire.pipes, (Direction.TO_SERVER, Direction.TO_CLIENT), strict=True):
            pipe.edit = lambda _at, raw, direction=direction: chunks.append((direction, raw)) or raw

    pair = Pair(auth=auth, mode=mode, protocol=protocol)
    pair.opened = listen
    mine, theirs = pair.established()
    pair.a.send(mine, 1, 2)
    pair.b.send(theirs, 3, size_bytes=100)
    pair.drive()
    pair.a.endpoint.send(mine, captured_messages()[0], pair.a.now)
    pair.a.endpoint.send_keepalive(mine, pair.a.now)
    pair.b.endpoint.send(theirs, numbered(4, 0), pair.b.now)
    pair.drive()
    return chunks


@cache
def reconnection() -> list[Chunk]:
    """A second link of the same two, after the first was cut."""
    chunks: list[Chunk] = []
    pair = Pair()
    mine, _ = pair.established()
    pair.a.send(mine, 1, 2)
    pair.drive()

    def listen(wire: Wire) -> None:
        for pipe, direction in zip(wire.pipes, (Direction.TO_SERVER, Direction.TO_CLIENT), strict=True):
            pipe.edit = lambda _at, raw, direction=direction: chunks.append((direction, raw)) or raw

    pair.opened = listen
    pair.wire.cut()
    pair.a.send(mine, 3)
    pair.pass_time(1.0)
    return chunks


def one_way(chunks: list[Chunk], direction: Direction) -> bytes:
    """Everything that went in one direction."""
    return b"".join(raw for way, raw in chunks if way is direction)


# ---- cephx

KEYS = {
    key_type: CryptoKey(key_type, bytes(range(size)))
    for key_type, size in ((KeyType.AES, 16), (KeyType.AES256KRB5, 32))
}
SERVICE_KEY = ServiceKey(1, KEYS[KeyType.AES])
ADMIN = AuthName(EntityType.CLIENT, "admin")


def grant(key_type: KeyType = KeyType.AES, service: EntityType = EntityType.AUTH) -> TicketGrant:
    """A ticket as a monitor makes it, always the same."""
    return mint_ticket(ServiceKey(1, KEYS[key_type]), service, ADMIN, 4100, wall_time_s=NOW_S, rng=Random(1))


def session_reply(key_type: KeyType = KeyType.AES) -> bytes:
    """A monitor's AUTH_DONE payload, always the same."""
    reply = SessionReply(grant(key_type), bytes(64), (grant(key_type, EntityType.OSD),))
    return encode_session_reply(reply, KEYS[key_type], Random(1))


# ---- structures out of all of these


@contextmanager
def _harvest(found: dict[type, dict[bytes, None]]) -> Iterator[None]:
    """Note what each structure is decoded from, wherever it is nested, while the block runs."""
    owners: dict[CodeType, list[type]] = {}
    for package in packages():
        for structure in structures(package).values():
            function = inspect.unwrap(getattr(structure.decode, "__func__", structure.decode))
            owners.setdefault(function.__code__, []).append(structure)
    begun: list[tuple[Any, int]] = []

    def watch(frame: FrameType, event: str, result: object) -> None:
        if frame.f_code not in owners:
            return
        if event == "call":
            arguments = (frame.f_locals[name] for name in frame.f_code.co_varnames[: frame.f_code.co_argcount])
            source = next(value for value in arguments if isinstance(value, Decoder | bytes | memoryview))
            begun.append((source, source._offset if isinstance(source, Decoder) else 0))
        elif event == "return":
            source, start = begun.pop()
            if result is not None:
                whole = source._view[start : source._offset] if isinstance(source, Decoder) else source
                found.setdefault(type(result), {})[bytes(whole)] = None

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


@cache
def _harvested() -> dict[type, dict[bytes, None]]:
    found: dict[type, dict[bytes, None]] = {}
    with _harvest(found):
        for message in captured_messages():
            with suppress(PeerError):
                decode_payload(message, CLIENT_FEATURES)
        for raw in captured_files("*full*.bin") + captured_files("osdmap*.bin"):
            OSDMap.decode(raw)
        for raw in captured_files("incremental*.bin"):
            Incremental.decode(raw)
        for chunks in (*(conversation(*security) for security in SECURITY), reconnection()):
            follower = LinkFollower()
            for direction, raw in chunks:
                follower.feed(direction, raw)
    for value in _made():
        raw = value.encode() if isinstance(value, ControlFrame) else encoded(value)
        found.setdefault(type(value), {})[raw] = None
    return found


def _made() -> Iterator[Any]:
    """Structures that appear in sealed parts only, or in no conversation of ours."""
    made = grant()
    blob = made.blob
    assert blob is not None
    info = KEYS[KeyType.AES].unseal(KeyUsage.TICKET_INFO, blob.blob, ServiceTicketInfo.decode)
    yield from (made.ticket, blob, info, info.ticket, info.ticket.caps, info.session_key, ADMIN)
    yield from (ServerChallenge(7), RequestHeader(RequestType.GET_AUTH_SESSION_KEY), ServiceTicketRequest(0x35))
    yield from (AuthBadMethod(2, -13, [2], [1, 2]), SessionReset(full=True))
    yield Introduction(frozenset({1, 2}), ADMIN, 0)
    yield Prelude(AuthMode.MON, ADMIN, 0)
    yield Authenticate(1, 2, blob, 0x35)
    yield RotatingSecrets({1: ExpiringCryptoKey(KEYS[KeyType.AES], UTime(1))}, 1)


def structure_seeds(structure: type) -> list[bytes]:
    """Encodings of a structure, shortest first, not too long and not too many."""
    fitting = sorted((raw for raw in _harvested().get(structure, {}) if len(raw) <= LONGEST_SEED), key=len)
    return fitting[:: max(1, len(fitting) // 6)][:8]
