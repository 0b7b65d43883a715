"""The pieces of a v1 stream as layers: the bytes of the messenger's codecs, both ways (docs/protocol.md §3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet, Padding

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.messages.mon import MMonSubscribe
from messenger.v1 import wire
from messenger.v1.framing import COMPLETE, MessageWriter
from toolkit.dissect.layers import (
    MSGR1,
    MSGR1_Ack,
    MSGR1_Banner,
    MSGR1_ClientIdentify,
    MSGR1_Close,
    MSGR1_Connect,
    MSGR1_ConnectReply,
    MSGR1_KeepAlive,
    MSGR1_KeepAlive2,
    MSGR1_KeepAlive2Ack,
    MSGR1_Message,
    MSGR1_Seq,
    MSGR1_ServerIdentify,
)

SERVER = EntityAddr.parse("v1:10.0.0.1:6789/7")
CLIENT = EntityAddr.parse("v1:[fd00::2]:40000/0")
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
PARTS = st.tuples(*[st.one_of(st.just(b""), st.binary(max_size=50))] * 3)

PIECES: list[tuple[wire.Frame, Packet]] = [
    (wire.Banner(), MSGR1_Banner()),
    (wire.ServerIdentify(SERVER, CLIENT), MSGR1_ServerIdentify(server_addr=SERVER, client_addr=CLIENT)),
    (wire.ClientIdentify(CLIENT), MSGR1_ClientIdentify(client_addr="v1:[fd00::2]:40000/0")),
    (
        wire.Connect(1 << 60, EntityType.OSD, 2, 3, 24, 2, 1, b"authorizer"),
        MSGR1_Connect(
            features=1 << 60,
            host_type="osd",
            global_seq=2,
            connect_seq=3,
            protocol_version=24,
            authorizer_protocol="cephx",
            flags="LOSSY",
            authorizer=b"authorizer",
        ),
    ),
    *(
        (
            wire.ConnectReply(tag, 5, 6, 7, 8, 1, b"challenge"),
            MSGR1_ConnectReply(
                tag=tag.name,
                features=5,
                global_seq=6,
                connect_seq=7,
                protocol_version=8,
                flags=1,
                authorizer=b"challenge",
            ),
        )
        for tag in sorted(wire.REPLY_TAGS)
    ),
    (wire.Seq(1 << 63), MSGR1_Seq(seq=1 << 63)),
    (wire.Ack(77), MSGR1() / MSGR1_Ack(seq=77)),
    (wire.KeepAlive(), MSGR1() / MSGR1_KeepAlive()),
    (wire.KeepAlive2(1, 2), MSGR1() / MSGR1_KeepAlive2(seconds=1, nanoseconds=2)),
    (wire.KeepAlive2Ack(1, 2), MSGR1() / MSGR1_KeepAlive2Ack(seconds=1, nanoseconds=2)),
    (wire.Close(), MSGR1() / MSGR1_Close()),
]
pieces = pytest.mark.parametrize(("piece", "layer"), PIECES, ids=[layer.summary()[6:30] for _, layer in PIECES])


@pieces
def test_a_piece_is_built_as_the_codec_encodes(piece: wire.Frame, layer: Packet) -> None:
    assert bytes(layer) == piece.encode()


@pieces
def test_a_piece_is_dissected(piece: wire.Frame, layer: Packet) -> None:
    again = type(layer)(piece.encode())
    assert bytes(again) == piece.encode()
    assert again.layers() == layer.layers()
    assert again.summary() == type(layer)(bytes(layer)).summary()
    for name, value in piece.printable().items():
        shown = again.lastlayer().getfieldval(name)
        if name.endswith("addr"):
            assert str(shown) == value.replace("cidr:", "")
        elif isinstance(value, int):
            assert shown == value


@pieces
def test_a_piece_cut_short_is_built_as_it_was(piece: wire.Frame, layer: Packet) -> None:
    raw = piece.encode()
    for size in range(1, len(raw)):
        again = type(layer)(raw[:size])
        assert bytes(again) == raw[:size]
        again.show(dump=True)
        again.summary()


@pieces
def test_bytes_after_a_v1_frame_are_padding(piece: wire.Frame, layer: Packet) -> None:
    again = type(layer)(piece.encode() + b"more")
    assert again[Padding].load == b"more"
    assert bytes(again) == piece.encode() + b"more"


def test_addresses_follow_the_banner() -> None:
    raw = wire.Banner().encode() + wire.ServerIdentify(SERVER, CLIENT).encode()
    assert MSGR1_Banner(raw).server_addr == SERVER
    assert MSGR1_Banner(raw).client_addr.with_type(AddressType.LEGACY) == CLIENT
    assert MSGR1_ClientIdentify in MSGR1_Banner(wire.Banner().encode() + wire.ClientIdentify(CLIENT).encode())


def test_the_length_of_an_authorizer_may_be_wrong_on_purpose() -> None:
    raw = bytes(MSGR1_Connect(authorizer=b"abc", authorizer_len=1000))
    assert raw[28:32] == (1000).to_bytes(4, "little")
    assert (MSGR1_Connect(raw).authorizer, bytes(MSGR1_Connect(raw))) == (b"abc", raw)


# ---- messages


def written(parts: tuple[bytes, bytes, bytes], seq: int = 1, **options: bool) -> bytes:
    out: list[Buffer] = []
    MessageWriter(**options).message(out, (seq, 2, 42, 127, 3), parts, 9, (EntityType.OSD, 5), 1)
    return b"".join(out)


def crafted(parts: tuple[bytes, bytes, bytes], seq: int = 1, **more: object) -> Packet:
    front, middle, data = parts
    src = {"src_type": "osd", "src_num": 5}
    head = {"seq": seq, "tid": 2, "type": "osd_op", "version": 3, "data_off": 9}
    return MSGR1() / MSGR1_Message(front=front, middle=middle, data=data, **src, **head, **more)


@given(PARTS, U64)
def test_messages(parts: tuple[bytes, bytes, bytes], seq: int) -> None:
    raw = written(parts, seq)
    assert bytes(crafted(parts, seq)) == raw
    again = MSGR1(raw)[MSGR1_Message]
    assert (again.seq, again.front, again.middle, again.data) == (seq, *parts)
    assert again.crc_ok
    assert bytes(MSGR1(raw)) == raw


@given(PARTS)
def test_a_footer_without_signature(parts: tuple[bytes, bytes, bytes]) -> None:
    raw = written(parts, msg_auth=False)
    assert bytes(crafted(parts, sig=None)) == raw
    again = MSGR1(raw)[MSGR1_Message]
    assert (again.sig, again.footer_flags, again.crc_ok) == (None, COMPLETE, True)
    assert bytes(MSGR1(raw)) == raw


def test_no_crc_of_data() -> None:
    parts = (b"front", b"", b"data")
    raw = written(parts, sum_data=False)
    assert bytes(crafted(parts, footer_flags="COMPLETE+NOCRC")) == raw
    assert MSGR1(raw)[MSGR1_Message].crc_ok


@given(st.data())
def test_damaged_message_is_built_unchanged_with_its_error(data: st.DataObject) -> None:
    raw = bytearray(written((b"front", b"middle", b"data")))
    at = data.draw(st.integers(1, len(raw) - 1 - 9))  # behind that are signature and flags
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    again = MSGR1(bytes(raw))
    assert bytes(again) == raw
    assert not again[MSGR1_Message].crc_ok
    assert "would be right" in again.show(dump=True) or "missing" in again.show(dump=True)


def test_recompute_updates_the_crcs_of_a_changed_message() -> None:
    again = MSGR1(written((b"front", b"", b"data")))
    again.front = b"another front"
    assert not MSGR1(bytes(again))[MSGR1_Message].crc_ok
    again[MSGR1_Message].recompute()
    assert bytes(again) == written((b"another front", b"", b"data"))


def test_a_message_cut_short_is_built_as_it_was() -> None:
    raw = written((b"front", b"middle", b"data"))
    for size in range(1, len(raw)):
        again = MSGR1(raw[:size])
        assert bytes(again) == raw[:size]
        again.show(dump=True)
        again.summary()


@given(
    st.sampled_from([type(layer) for _, layer in PIECES] + [MSGR1_Message]), st.binary(min_size=1, max_size=300)
)
def test_any_bytes_are_dissected_and_built_again(layer: type[Packet], raw: bytes) -> None:
    assert bytes(layer(raw)) == raw
    layer(raw).show(dump=True)
    layer(raw).summary()


def test_typed_payloads_and_summaries() -> None:
    payload = MMonSubscribe()
    message = MSGR1(bytes(MSGR1() / MSGR1_Message(seq=4, typed=payload)))
    assert message[MSGR1_Message].typed == payload
    assert message.summary() == "MSGR1 MSG mon_subscribe seq 4 tid 0 front 8"
    assert (MSGR1() / MSGR1_Ack(seq=5)).summary() == "MSGR1 ACK seq 5"
    assert MSGR1(bytes(MSGR1() / MSGR1_KeepAlive())).summary() == "MSGR1 KEEPALIVE"
