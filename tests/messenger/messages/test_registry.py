"""Every payload class: the bytes of real peers, round trips, cuts, and noise."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.errors import DecodeError
from messenger.messages.auth import MAuth
from messenger.messages.layout import Rest, layout_of
from messenger.messages.message import Message
from messenger.messages.mon import MMonSubscribe, Subscription
from messenger.messages.ping import MPing
from messenger.messages.registry import KNOWN_TYPES, PAYLOADS, decode_payload
from tests.support.fronts import captured
from tests.support.payloads import values_of
from tests.support.refusals import read_or_refused

PAYLOAD_TYPES = sorted(PAYLOADS.values(), key=lambda payload: payload.__name__)
REST_CODEC = Rest.__metadata__[0]
LUMINOUS = CLIENT_FEATURES & ~(Feature.SERVER_NAUTILUS & ~Feature.SERVER_MIMIC) & ~(1 << 28)
JEWEL = Feature.SERVER_JEWEL | Feature.PGID64
FEATURES = (CLIENT_FEATURES, LUMINOUS, JEWEL)
OPTIONAL_END_BYTES = {MAuth: 4}
"""Length of a last field that some peers leave out, so that the cut before it is not to be noticed."""
EXAMPLES = settings(max_examples=20, deadline=None)

VERSIONS = {
    "MPing": "1/1",
    "MMonMap": "1/1",
    "MMonGetMap": "1/1",
    "MMonGetOSDMap": "1/1",
    "MStatfs": "2/1",
    "MStatfsReply": "1/1",
    "MMonSubscribe": "3/1",
    "MMonSubscribeAck": "1/1",
    "MAuth": "1/1",
    "MAuthReply": "1/1",
    "MMonGetVersion": "1/1",
    "MMonGetVersionReply": "2/2",
    "MMonCommand": "1/1",
    "MMonCommandAck": "1/1",
    "MLog": "1/1",
    "MLogAck": "1/1",
    "MPoolOp": "4/2",
    "MPoolOpReply": "1/1",
    "MGetPoolStats": "1/1",
    "MGetConfig": "1/1",
    "MConfig": "1/1",
    "MKVData": "1/1",
    "MMgrMap": "1/1",
    "MServiceMap": "1/1",
    "MMonPing": "1/1",
    "MMonUsedPendingKeys": "1/1",
    "MRoute": "3/3",
    "MForward": "4/4",
    "MCommand": "1/1",
    "MCommandReply": "1/1",
    "MMgrCommand": "1/1",
    "MMgrCommandReply": "1/1",
    "MMgrOpen": "3/1",
    "MMgrConfigure": "4/1",
    "MMgrReport": "9/1",
    "MMgrClose": "1/1",
    "MOSDMap": "4/3",
    "MOSDPing": "5/4",
    "MOSDOp": "9/3",
    "MOSDOpReply": "8/2",
    "MOSDBackoff": "1/1",
    "MWatchNotify": "3/1",
    "MOSDBoot": "7/7",
    "MOSDAlive": "1/1",
    "MOSDPGTemp": "2/1",
    "MOSDBeacon": "3/1",
    "MOSDPGNotify": "6/6",
    "MOSDPGInfo": "5/5",
    "MOSDPGQuery": "4/4",
    "MPGStats": "2/1",
    "MOSDRepOp": "3/1",
    "MOSDRepOpReply": "2/1",
    "MOSDPGNotify2": "1/1",
    "MOSDPGQuery2": "1/1",
    "MOSDPGInfo2": "1/1",
    "MOSDPGLease": "1/1",
    "MOSDPGLeaseAck": "1/1",
}
"""Version and compat version in the header, by the tables of docs/protocol.md §6.2 to §6.4."""


KNOWN_CAPTURED = [pytest.param(*row, id=f"{row[0]}-v{row[1]}-{len(row[3])}") for row in captured()]


def image_of(payload, features: int = ALL_FEATURES) -> bytes:
    message = Message.of(payload)
    message.encode_front(features)
    return bytes(message.front)


def version_for(payload_type, features: int) -> int:
    """Return the version of the layout for peers with these features."""
    return payload_type.version_for(features) if hasattr(payload_type, "version_for") else payload_type.VERSION


def read(payload_type, front: bytes, features: int = ALL_FEATURES):
    message = Message(
        payload_type.TYPE,
        memoryview(front),
        version=version_for(payload_type, features),
        compat_version=payload_type.COMPAT_VERSION,
    )
    return decode_payload(message, features)


def ends_open(payload_type) -> bool:
    """True if the last field takes all remaining bytes, so that no cut in it can be noticed."""
    with contextlib.suppress(TypeError):
        layout = layout_of(payload_type)
        return bool(layout) and layout[-1].codec is REST_CODEC
    return False


def test_header_versions():
    actual = {p.__name__: f"{p.VERSION}/{p.COMPAT_VERSION}" for p in PAYLOAD_TYPES}
    assert {name: actual.get(name) for name in VERSIONS} == VERSIONS


def test_every_type_has_one_payload():
    assert {kind: payload.TYPE for kind, payload in PAYLOADS.items()} == {kind: kind for kind in KNOWN_TYPES}
    assert len(PAYLOAD_TYPES) == len(set(PAYLOAD_TYPES)) == len(KNOWN_TYPES)


@pytest.mark.parametrize(("kind", "version", "compat_version", "front"), KNOWN_CAPTURED)
def test_real_fronts_decode_and_encode_to_the_same_bytes(kind, version, compat_version, front):
    """Those of an older version are the beginning of ours, since fields are only ever appended."""
    message = Message(kind, memoryview(front), version=version, compat_version=compat_version)
    reply = Message.of(decode_payload(message, CLIENT_FEATURES))
    reply.encode_front(CLIENT_FEATURES)
    assert reply.compat_version == compat_version
    assert reply.front[: len(front)] == front
    if version == reply.version:
        assert reply.front == front


@pytest.mark.parametrize(("kind", "version", "compat_version", "front"), KNOWN_CAPTURED)
def test_real_fronts_cut_anywhere_are_refused(kind, version, compat_version, front):
    step = max(1, len(front) // 100)
    for size in range(0, len(front), step):
        message = Message(kind, memoryview(front)[:size], version=version, compat_version=compat_version)
        # where the last field takes all that is left, its cut is not to be noticed
        with contextlib.suppress(DecodeError) if ends_open(PAYLOADS[kind]) else pytest.raises(DecodeError):
            decode_payload(message, CLIENT_FEATURES)


@pytest.mark.parametrize("payload_type", PAYLOAD_TYPES)
@given(data=st.data())
@EXAMPLES
def test_fronts_roundtrip_and_changed_ones_decode_or_are_refused(payload_type, data):
    """All that is asked of a payload is asked of each one drawn, because drawing takes longer than decoding."""
    payload = data.draw(values_of(payload_type))
    front = image_of(payload)
    assert read(payload_type, front) == payload
    _require_roundtrip_for_peers_of_any_age(payload)
    if not ends_open(payload_type):
        assert read(payload_type, front + b"what a newer version appends") == payload
    if front and not ends_open(payload_type):
        whole = len(front) - OPTIONAL_END_BYTES.get(payload_type, 0)
        size = data.draw(st.integers(0, len(front) - 1).filter(lambda size: size != whole))
        with pytest.raises(DecodeError):
            read(payload_type, front[:size])
    mutated = bytearray(front) or bytearray(1)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    decoded = read_or_refused(lambda: read(payload_type, bytes(mutated)), DecodeError)
    assert decoded is None or isinstance(decoded, payload_type)


def _require_roundtrip_for_peers_of_any_age(payload):
    for features in FEATURES:
        front = image_of(payload, features)
        assert image_of(read(type(payload), front, features), features) == front


@pytest.mark.parametrize("payload_type", PAYLOAD_TYPES)
@given(front=st.binary(max_size=200), version=st.integers(0, 65535))
@EXAMPLES
def test_arbitrary_fronts_decode_or_are_refused(payload_type, front, version):
    message = Message(payload_type.TYPE, front, version=version, compat_version=1)
    payload = read_or_refused(lambda: decode_payload(message, CLIENT_FEATURES), DecodeError)
    assert payload is None or isinstance(payload, payload_type)


def test_unknown_types_pass_through():
    assert decode_payload(Message(900, b"anything"), CLIENT_FEATURES) is None


@pytest.mark.parametrize(("version", "compat_version"), [(9, 4), (4, 0)])
def test_a_payload_for_newer_decoders_is_refused(version, compat_version):
    message = Message.of(MMonSubscribe())
    message.encode_front(CLIENT_FEATURES)
    message.version, message.compat_version = version, compat_version
    with pytest.raises(DecodeError, match="mon_subscribe needs a decoder of version 4, this one knows 3"):
        decode_payload(message, CLIENT_FEATURES)


def test_newer_payload_with_a_supported_compat_version_is_read():
    message = Message.of(MMonSubscribe({"monmap": Subscription()}, "host"))
    message.encode_front(CLIENT_FEATURES)
    message.version, message.compat_version = 9, 3
    assert decode_payload(message, CLIENT_FEATURES) == MMonSubscribe({"monmap": Subscription()}, "host")


def test_the_oldest_senders_leave_compat_version_out():
    message = Message.of(MPing())
    message.compat_version = 0
    assert decode_payload(message, CLIENT_FEATURES) == MPing()
