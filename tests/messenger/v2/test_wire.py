"""Banner and control frames: codecs, truncation, noise (docs/protocol.md §4.2, §4.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.layout import MOST_CHOICES
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.v2.wire import (
    CONTROL_FRAMES,
    MESSAGE_HEADER,
    SIGNATURE_SIZE,
    Ack,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    ClientIdent,
    ControlFrame,
    Hello,
    IdentMissingFeatures,
    KeepAlive2,
    KeepAlive2Ack,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
    Wait,
    decode_banner,
    decode_control,
    encode_banner,
    printable_message,
    tag_name,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.lists(U32, max_size=4)
BYTES = st.binary(max_size=60)
ADDR = st.builds(
    EntityAddr,
    type=st.sampled_from(list(AddressType)),
    nonce=U32,
    port=st.integers(0, 65535),
    ip=st.sampled_from([4, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
)
ADDRS = st.lists(ADDR, max_size=3).map(lambda addrs: AddrVec(tuple(addrs)))
FRAMES: st.SearchStrategy[ControlFrame] = st.one_of(
    st.builds(Hello, st.sampled_from(list(EntityType)), ADDR),
    st.builds(AuthRequest, U32, NUMBERS, BYTES),
    st.builds(AuthBadMethod, U32, st.integers(-(2**31), 2**31 - 1), NUMBERS, NUMBERS),
    st.builds(AuthReplyMore, BYTES),
    st.builds(AuthRequestMore, BYTES),
    st.builds(AuthDone, U64, U32, BYTES),
    st.builds(AuthSignature, st.binary(min_size=SIGNATURE_SIZE, max_size=SIGNATURE_SIZE)),
    st.builds(ClientIdent, ADDRS, ADDR, I64, U64, U64, U64, U64, U64),
    st.builds(ServerIdent, ADDRS, I64, U64, U64, U64, U64, U64),
    st.builds(IdentMissingFeatures, U64),
    st.builds(SessionReconnect, ADDRS, U64, U64, U64, U64, U64),
    st.builds(SessionReset, st.booleans()),
    st.builds(SessionRetry, U64),
    st.builds(SessionRetryGlobal, U64),
    st.builds(SessionReconnectOk, U64),
    st.builds(Wait),
    st.builds(KeepAlive2, U32, U32),
    st.builds(KeepAlive2Ack, U32, U32),
    st.builds(Ack, U64),
)


@given(FRAMES)
def test_control_frames_survive_a_round_trip(frame: ControlFrame) -> None:
    assert decode_control(frame.TAG, (frame.encode(), b"", b"", b"")) == frame


@given(FRAMES, BYTES)
def test_trailing_bytes_are_ignored(frame: ControlFrame, more: bytes) -> None:
    assert decode_control(frame.TAG, (frame.encode() + more, b"", b"", b"")) == frame


@given(FRAMES)
def test_a_truncated_payload_is_malformed_at_every_byte(frame: ControlFrame) -> None:
    payload = frame.encode()
    for size in range(len(payload)):
        with pytest.raises(DecodeError) as caught:
            decode_control(frame.TAG, (payload[:size], b"", b"", b""))
        assert caught.value.reason is FaultReason.MALFORMED
        assert frame.TAG.name in caught.value.detail


@given(st.sampled_from(sorted(CONTROL_FRAMES)), st.binary(max_size=200))
def test_random_payloads_never_raise_anything_else(tag: int, payload: bytes) -> None:
    try:
        frame = decode_control(tag, (payload, b"", b"", b""))
    except DecodeError:
        return
    assert tag == frame.TAG
    frame.printable()


@pytest.mark.parametrize(
    ("frame", "payload"),
    [
        (AuthRequest(2, [2, 1], b"xy"), "02000000 02000000 02000000 01000000 02000000 7879"),
        (AuthBadMethod(2, -13, [2], [1, 2]), "02000000 f3ffffff 01000000 02000000 02000000 01000000 02000000"),
        (AuthDone(4100, 1, b""), "0410000000000000 01000000 00000000"),
        (SessionReset(full=True), "01"),
        (SessionRetry(7), "0700000000000000"),
        (KeepAlive2(1, 2), "01000000 02000000"),
        (IdentMissingFeatures(1 << 59), "0000000000000008"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layouts_of_control_frames(frame: ControlFrame, payload: str) -> None:
    assert frame.encode() == bytes.fromhex(payload)


@pytest.mark.parametrize("count", [1 << 31, 0xFFFFFFFF, 2])
def test_a_list_longer_than_its_bytes_is_malformed(count: int) -> None:
    payload = bytes(4) + count.to_bytes(4, "little") + bytes(4)
    with pytest.raises(DecodeError):
        decode_control(Tag.AUTH_REQUEST, (payload, b"", b"", b""))


def test_a_list_of_choices_has_a_limit() -> None:
    longest = AuthRequest(2, [1] * MOST_CHOICES, b"")
    assert decode_control(Tag.AUTH_REQUEST, (longest.encode(), b"", b"", b"")) == longest
    too_long = AuthRequest(2, [1] * (MOST_CHOICES + 1), b"").encode()
    with pytest.raises(DecodeError, match=f"count {MOST_CHOICES + 1}, at most {MOST_CHOICES} are accepted"):
        decode_control(Tag.AUTH_REQUEST, (too_long, b"", b"", b""))


@pytest.mark.parametrize("tag", [0, 23, 128, 255, -1])
def test_unknown_tags_are_named(tag: int) -> None:
    with pytest.raises(PeerError) as caught:
        decode_control(tag, (b"", b"", b"", b""))
    assert caught.value.reason is FaultReason.UNKNOWN_TAG
    assert str(tag) in caught.value.detail


def test_a_message_is_no_control_frame() -> None:
    with pytest.raises(PeerError) as caught:
        decode_control(Tag.MESSAGE, (bytes(8), b"", b"", b""))
    assert caught.value.reason is FaultReason.UNEXPECTED_FRAME
    assert caught.value.detail == "MESSAGE"


@pytest.mark.parametrize("extra", [1, 2, 3])
def test_a_control_frame_has_one_segment(extra: int) -> None:
    segments = [Ack(5).encode(), b"", b"", b""]
    segments[extra] = b"x"
    with pytest.raises(PeerError) as caught:
        decode_control(Tag.ACK, tuple(segments))
    assert caught.value.reason is FaultReason.FRAME


@given(FRAMES)
def test_printed_frames_hold_no_secrets_and_no_bytes(frame: ControlFrame) -> None:
    for value in frame.printable().values():
        assert isinstance(value, str | int | bool | list)


def test_tag_names() -> None:
    assert tag_name(17) == "MESSAGE"
    assert tag_name(99) == "99"


# ---- the message header


def test_message_headers_print_their_fields() -> None:
    header = MESSAGE_HEADER.pack(5, 9, 15, 127, 3, 0, 0, 4, 3, 1, 0)
    printed = printable_message((header, b"fr", b"", b"data"))
    assert printed == {
        "type": 15,
        "name": "mon_subscribe",
        "seq": 5,
        "tid": 9,
        "ack_seq": 4,
        "priority": 127,
        "version": 3,
        "compat_version": 1,
        "front": 2,
        "middle": 0,
        "data": 4,
    }


@pytest.mark.parametrize("size", [0, 1, 40])
def test_a_short_message_header_does_not_print(size: int) -> None:
    with pytest.raises(DecodeError):
        printable_message((bytes(size), b"", b"", b""))


# ---- the banner

BANNER = bytes.fromhex("63657068207632 0a 1000 0100000000000000 0000000000000000")


def test_the_banner_is_that_of_the_protocol() -> None:
    assert encode_banner(1, 0) == BANNER
    assert decode_banner(memoryview(BANNER)) == (26, 1, 0)


@given(U64, U64, BYTES)
def test_banners_survive_a_round_trip_with_any_bytes_behind(supported: int, required: int, more: bytes) -> None:
    assert decode_banner(memoryview(encode_banner(supported, required) + more)) == (26, supported, required)


def test_an_incomplete_banner_is_awaited() -> None:
    for size in range(len(BANNER)):
        assert decode_banner(memoryview(BANNER[:size])) is None


@given(st.binary(max_size=40))
def test_random_bytes_are_no_banner(raw: bytes) -> None:
    try:
        banner = decode_banner(memoryview(raw))
    except PeerError:
        return
    assert banner is None or raw.startswith(b"ceph v2\n")
