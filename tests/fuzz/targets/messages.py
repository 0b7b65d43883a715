"""Every registered message payload, and what becomes of its type, version and features.

An input is type, version and compat_version (u16 each), the selector of a feature mask (u8), the length of the
data segment (u16), then the front and the data. Payloads are found in the registry, so a new one is covered as
soon as it is listed there; its seeds are the captured fronts of its type.
"""

from collections.abc import Iterator

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES
from messenger.errors import DecodeError
from messenger.messages.mds_session import MClientReconnect, ReconnectState
from messenger.messages.message import Message, Payload
from messenger.messages.registry import PAYLOADS, decode_payload
from tests.fuzz.seeds import LONGEST_SEED, captured_messages, made_up
from tests.fuzz.target import Cursor, Target, require_stable
from tests.fuzz.targets.structures import FEATURES


def run(data: bytes) -> None:
    """Decode a message, and encode what it means for peers of every age."""
    cursor = Cursor(data)
    kind, version, compat_version = cursor.number(2), cursor.number(2), cursor.number(2)
    features = FEATURES[cursor.number() % len(FEATURES)]
    data_size, rest = cursor.number(2), cursor.rest()
    front = rest[: max(0, len(rest) - data_size)]
    message = Message(kind, front, data=rest[len(front) :], version=version, compat_version=compat_version)
    try:
        payload = decode_payload(message, features)
    except DecodeError:
        return
    repr(message), repr(payload)
    if payload is None:
        assert kind not in PAYLOADS
        return
    for peer_features in FEATURES:
        _check_encoding(message, payload, peer_features)
    if isinstance(payload, MClientReconnect):
        _check_state(message, features)


def _check_state(message: Message, features: int) -> None:
    """Decode the data segment of an MClientReconnect, and encode what it means."""
    try:
        state = ReconnectState.decode(Decoder(message.data), message.version, features)
    except DecodeError:
        return

    def encode(what: ReconnectState) -> bytes:
        encoder = Encoder()
        what.encode(encoder, features)
        return encoder.getvalue()

    def decode(raw: bytes) -> ReconnectState:
        return ReconnectState.decode(Decoder(raw), ReconnectState.VERSION, features)

    require_stable(state, encode, decode, lossy=True)


def _check_encoding(message: Message, payload: Payload, features: int) -> None:
    """Check that a decoded message decodes to itself; old versions, and peers without MSG_ADDR2, lose some."""
    kind, version = type(payload), 0

    def encode(what: Payload) -> bytes:
        nonlocal version
        copy = Message.of(what, data=message.data)
        copy.encode_front(features)
        version = copy.version
        return bytes(copy.front)

    def decode(front: bytes) -> Payload:
        copy = Message(kind.TYPE, front, data=message.data, version=version, compat_version=kind.COMPAT_VERSION)
        decoded = decode_payload(copy, features)
        assert decoded is not None
        return decoded

    require_stable(payload, encode, decode, lossy=True)


def head(message: Message, features: int) -> bytes:
    """The first bytes of the input for a message."""
    numbers = (message.type, message.version, message.compat_version)
    selector = FEATURES.index(features)
    return (
        b"".join(n.to_bytes(2, "little") for n in numbers)
        + bytes([selector])
        + len(message.data).to_bytes(2, "little")
    )


def seeds() -> Iterator[bytes]:
    """The captured messages, made-up ones of types without, and zeros for every type."""
    captured = [message for message in captured_messages() if len(message.front) <= LONGEST_SEED]
    for message in captured:
        yield head(message, CLIENT_FEATURES) + bytes(message.front) + bytes(message.data)
    for kind, payload in PAYLOADS.items():
        if all(message.type != kind for message in captured):
            for value in made_up(payload):
                message = Message.of(value)
                message.encode_front(ALL_FEATURES)
                yield head(message, ALL_FEATURES) + bytes(message.front)
        empty = Message(kind, version=payload.VERSION, compat_version=payload.COMPAT_VERSION)
        yield from (head(empty, ALL_FEATURES) + bytes(size) for size in (0, 64))
    for state in made_up(ReconnectState):
        encoder = Encoder()
        state.encode(encoder, ALL_FEATURES)
        message = Message.of(MClientReconnect(), data=encoder.getvalue())
        message.encode_front(ALL_FEATURES)
        yield head(message, ALL_FEATURES) + bytes(message.front) + bytes(message.data)


TARGETS = (Target(name="messages", run=run, seeds=seeds, label=lambda data: data[:2], coarse=True, mutations=600),)
