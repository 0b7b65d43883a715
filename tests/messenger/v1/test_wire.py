"""Pieces of the v1 stream, byte by byte (docs/protocol.md §1.3, §3.1, §3.2)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, PeerError
from messenger.v1.wire import (
    BANNER,
    REPLY_TAGS,
    Ack,
    Banner,
    ClientIdentify,
    Close,
    Connect,
    ConnectReply,
    Frame,
    KeepAlive,
    KeepAlive2,
    KeepAlive2Ack,
    Seq,
    ServerIdentify,
    Tag,
    as_legacy,
    cut_small,
    tag_name,
)

LIMIT = 4096
FORM_A = bytes.fromhex("000000004433221100021a850a010203") + bytes(120)
"""10.1.2.3:6789/0x11223344 (§10)."""
ADDR = EntityAddr.parse("v1:10.1.2.3:6789/287454020")

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
CONNECTS = st.builds(
    Connect,
    U64,
    st.sampled_from(list(EntityType)),
    U32,
    U32,
    U32,
    U32,
    st.integers(0, 255),
    st.binary(max_size=200),
)
REPLIES = st.builds(
    ConnectReply,
    st.sampled_from(sorted(REPLY_TAGS)),
    U64,
    U32,
    U32,
    U32,
    st.integers(0, 255),
    st.binary(max_size=200),
)
SMALL = st.one_of(
    st.builds(Ack, U64),
    st.builds(KeepAlive),
    st.builds(KeepAlive2, U32, U32),
    st.builds(KeepAlive2Ack, U32, U32),
    st.builds(Close),
)


def refused(cut: Callable[[], object]) -> FaultReason:
    with pytest.raises(PeerError) as raised:
        cut()
    return raised.value.reason


# ---- known bytes


def test_the_banner() -> None:
    assert Banner().encode() == b"ceph v027"


def test_addresses_are_in_form_a() -> None:
    assert ClientIdentify(ADDR).encode() == FORM_A
    assert ServerIdentify(ADDR, EntityAddr()).encode() == FORM_A + bytes(136)
    assert ClientIdentify.cut(memoryview(FORM_A)) == (136, ClientIdentify(ADDR))
    assert ServerIdentify.cut(memoryview(FORM_A * 2)) == (272, ServerIdentify(ADDR, ADDR))


def test_address_with_first_byte_1_is_read_in_form_a() -> None:
    assert ClientIdentify.cut(memoryview(b"\x01" + FORM_A[1:])) == (136, ClientIdentify(ADDR))


def test_connect() -> None:
    raw = bytes.fromhex("8877665544332211 08000000 01000000 02000000 18000000 02000000 03000000 01") + b"abc"
    frame = Connect(0x1122334455667788, EntityType.CLIENT, 1, 2, 24, 2, 1, b"abc")
    assert len(raw) == 33 + 3
    assert frame.encode() == raw
    assert Connect.cut(memoryview(raw + b"more"), LIMIT) == (36, frame)


def test_connect_reply() -> None:
    raw = bytes.fromhex("0d 8877665544332211 01000000 02000000 18000000 03000000 01") + b"abc"
    frame = ConnectReply(Tag.SEQ, 0x1122334455667788, 1, 2, 24, 1, b"abc")
    assert len(raw) == 26 + 3
    assert frame.encode() == raw
    assert ConnectReply.cut(memoryview(raw + b"more"), LIMIT) == (29, frame)


@pytest.mark.parametrize(
    ("frame", "raw"),
    [
        (Ack(5), "08 0500000000000000"),
        (KeepAlive(), "09"),
        (KeepAlive2(0x65000000, 0x075BCD15), "0e 00000065 15cd5b07"),
        (KeepAlive2Ack(0x65000000, 0x075BCD15), "0f 00000065 15cd5b07"),
        (Close(), "06"),
    ],
)
def test_small_frames(frame: Frame, raw: str) -> None:
    assert frame.encode() == bytes.fromhex(raw)
    assert cut_small(memoryview(frame.encode()), 0, len(frame.encode())) == (len(frame.encode()), frame)


def test_tags_have_names() -> None:
    assert [tag_name(number) for number in (0, 1, 7, 13, 16, 17)] == [
        "0",
        "READY",
        "MSG",
        "SEQ",
        "CHALLENGE_AUTHORIZER",
        "17",
    ]


def test_printed_frames_show_no_secrets() -> None:
    assert Connect(1, EntityType.OSD, 2, 3, 24, 2, authorizer=b"secret").printable() == {
        "features": 1,
        "host_type": "osd",
        "global_seq": 2,
        "connect_seq": 3,
        "protocol_version": 24,
        "authorizer_protocol": 2,
        "flags": 0,
        "authorizer": "6 bytes",
    }
    assert ConnectReply(Tag.WAIT, 1, authorizer=b"secret").printable()["authorizer"] == "6 bytes"
    assert "secret" not in repr(Connect(1, EntityType.OSD, 2, 3, 24, 2, authorizer=b"secret"))


# ---- strangers


@pytest.mark.parametrize(
    ("head", "reason", "words"),
    [
        (b"ceph v2\n", FaultReason.V2_PEER, "v2 port"),
        (b"HTTP/1.1 400", FaultReason.NOT_MSGR, "HTTP server"),
        (b"GET / HTTP", FaultReason.NOT_MSGR, "HTTP client"),
        (b"SSH-2.0-x", FaultReason.NOT_MSGR, "ssh"),
        (b"\x16\x03\x01", FaultReason.NOT_MSGR, "TLS"),
        (b"ceph v028", FaultReason.NOT_MSGR, "ceph v028"),
    ],
)
def test_another_banner_is_recognised(head: bytes, reason: FaultReason, words: str) -> None:
    with pytest.raises(PeerError, match=words) as raised:
        Banner.cut(memoryview(head))
    assert raised.value.reason is reason


@pytest.mark.parametrize("size", range(9))
def test_a_part_of_a_banner_is_waited_for(size: int) -> None:
    assert Banner.cut(memoryview(BANNER[:size])) is None
    if size < 8:
        assert Banner.cut(memoryview(b"ceph v2\n"[:size])) is None


def test_a_wrong_byte_is_noticed_at_once() -> None:
    assert refused(lambda: Banner.cut(memoryview(b"X"))) is FaultReason.NOT_MSGR


# ---- limits and refusals


def test_long_authorizers_are_refused_before_they_arrive() -> None:
    connect = Connect(1, EntityType.OSD, 1, 0, 0, 2, authorizer=bytes(LIMIT + 1)).encode()[:33]
    reply = ConnectReply(Tag.READY, 1, authorizer=bytes(LIMIT + 1)).encode()[:26]
    assert refused(lambda: Connect.cut(memoryview(connect), LIMIT)) is FaultReason.OVERSIZE
    assert refused(lambda: ConnectReply.cut(memoryview(reply), LIMIT)) is FaultReason.OVERSIZE


@pytest.mark.parametrize("tag", range(256))
def test_only_tags_of_replies_are_accepted_in_a_reply(tag: int) -> None:
    raw = memoryview(bytes([tag]) + ConnectReply(Tag.READY, 1).encode()[1:])
    if tag in REPLY_TAGS:
        assert ConnectReply.cut(raw, LIMIT) is not None
    else:
        known = tag in list(Tag)
        expected = FaultReason.UNEXPECTED_FRAME if known else FaultReason.UNKNOWN_TAG
        assert refused(lambda: ConnectReply.cut(raw, LIMIT)) is expected


@pytest.mark.parametrize("tag", [tag for tag in range(256) if tag not in (6, 7, 8, 9, 14, 15)])
def test_the_stream_carries_no_other_tags(tag: int) -> None:
    expected = FaultReason.UNEXPECTED_FRAME if tag in list(Tag) else FaultReason.UNKNOWN_TAG
    assert refused(lambda: cut_small(memoryview(bytes([tag] * 9)), 0, 9)) is expected


def test_a_connector_of_no_known_type_is_refused() -> None:
    raw = bytearray(Connect(1, EntityType.OSD, 1, 0, 0).encode())
    raw[8] = 3
    assert refused(lambda: Connect.cut(memoryview(raw), LIMIT)) is FaultReason.MALFORMED


def test_the_type_of_an_address_does_not_survive() -> None:
    assert as_legacy(EntityAddr.parse("any:10.0.0.1:0/7")).type is AddressType.LEGACY
    assert as_legacy(EntityAddr(AddressType.ANY, 7)) == EntityAddr(AddressType.NONE, 7)


# ---- any frame, any bytes


@given(CONNECTS)
def test_connect_survives_the_wire(frame: Connect) -> None:
    raw = frame.encode()
    assert Connect.cut(memoryview(raw), LIMIT) == (len(raw), frame)
    assert all(Connect.cut(memoryview(raw)[:size], LIMIT) is None for size in range(len(raw)))


@given(REPLIES)
def test_replies_survive_the_wire(frame: ConnectReply) -> None:
    raw = frame.encode()
    assert ConnectReply.cut(memoryview(raw), LIMIT) == (len(raw), frame)
    assert all(ConnectReply.cut(memoryview(raw)[:size], LIMIT) is None for size in range(len(raw)))


@given(SMALL)
def test_small_frames_survive_the_wire(frame: Frame) -> None:
    raw = memoryview(b"before" + frame.encode() + b"behind")
    size = len(frame.encode())
    assert cut_small(raw, 6, len(raw)) == (6 + size, frame)
    assert all(cut_small(raw, 6, 6 + part) is None for part in range(1, size))


@given(U64)
def test_seqs_survive_the_wire(seq: int) -> None:
    assert Seq.cut(memoryview(Seq(seq).encode() + b"behind")) == (8, Seq(seq))
    assert Seq.cut(memoryview(Seq(seq).encode()[:7])) is None


@given(
    st.binary(max_size=600), st.sampled_from([Banner, ServerIdentify, ClientIdentify, Connect, ConnectReply, Seq])
)
def test_any_bytes_are_a_piece_or_a_typed_fault(raw: bytes, kind: type[Frame]) -> None:
    limit = (LIMIT,) if kind in (Connect, ConnectReply) else ()
    try:
        found = kind.cut(memoryview(raw), *limit)  # type: ignore[attr-defined]
    except PeerError:
        return
    if found is not None:
        size, frame = found
        assert size <= len(raw)
        assert kind.cut(memoryview(frame.encode()), *limit) == (size, frame)  # type: ignore[attr-defined]
