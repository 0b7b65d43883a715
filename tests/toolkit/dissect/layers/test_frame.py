"""Frames of msgr v2 as layers: bytes of the messenger's writers, crcs right and wrong.

See docs/protocol.md §4.4, §4.5.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import NoPayload, Padding, Raw

from messenger.messages.mon import MMonSubscribe, Subscription
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.ping import MPing
from messenger.v2.compression import CompressingWriter
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.preamble import build_preamble
from messenger.v2.wire import MESSAGE_HEADER, ControlFrame, Tag, encode_banner
from tests.support.frames import message, writer
from tests.toolkit.dissect.layers.test_control import FRAMES
from toolkit.dissect.layers import (
    CONTROL_LAYERS,
    MSGR2,
    MSGR2_Ack,
    MSGR2_AuthReplyMore,
    MSGR2_Banner,
    MSGR2_Compressed,
    MSGR2_KeepAlive2,
    MSGR2_Message,
    MSGR2_Rev0,
    MSGR2_SessionRetry,
    MSGR2_Wait,
)
from toolkit.dissect.layers.frame import Frame

REVISIONS = {MSGR2: "crc", MSGR2_Rev0: "rev0 crc"}
revisions = pytest.mark.parametrize("frame", REVISIONS)
PARTS = st.tuples(*[st.one_of(st.just(b""), st.binary(max_size=50))] * 3)


def crafted(frame: type[Frame], front: bytes = b"", middle: bytes = b"", data: bytes = b"", seq: int = 5) -> Frame:
    return frame() / MSGR2_Message(seq=seq, type="osd_op", front=front, middle=middle, data=data)


@pytest.mark.parametrize("masks", [(0, 0), (1, 0), (3, 1), (2**64 - 1, 2**64 - 1)])
def test_the_banner(masks: tuple[int, int]) -> None:
    raw = encode_banner(*masks)
    assert bytes(MSGR2_Banner(supported=masks[0], required=masks[1])) == raw
    banner = MSGR2_Banner(raw + b"more")
    assert (banner.supported, banner.required, banner[Padding].load) == (*masks, b"more")
    assert bytes(banner) == raw + b"more"


def test_longer_banner_keeps_its_unknown_bytes() -> None:
    raw = b"ceph v2\n\x12\x00" + bytes(16) + b"xy"
    assert (MSGR2_Banner(raw).extra, bytes(MSGR2_Banner(raw))) == (b"xy", raw)
    assert bytes(MSGR2_Banner(extra=b"xy"))[8:10] == b"\x12\x00"


def test_the_preamble_is_that_of_the_messenger() -> None:
    built = bytes(crafted(MSGR2, b"front", b"", b"data"))
    assert built[:32] == build_preamble(Tag.MESSAGE, (41, 5, 0, 4))


@revisions
@given(control=FRAMES)
def test_control_frames(frame: type[Frame], control: ControlFrame) -> None:
    raw = writer(REVISIONS[frame]).control(control.TAG, control.encode())
    layer = CONTROL_LAYERS[control.TAG]
    assert bytes(frame() / layer.of(control)) == raw
    again = frame(raw)
    assert again[layer].frame() == control
    assert (again.tag, again.crc_ok, again.whole, bytes(again)) == (control.TAG, True, True, raw)


@revisions
@given(parts=PARTS, seq=st.integers(0, 2**64 - 1))
def test_messages(frame: type[Frame], parts: tuple[bytes, bytes, bytes], seq: int) -> None:
    header = MESSAGE_HEADER.pack(seq, 0, 42, 127, 1, 0, 0, 0, 3, 1, 0)
    raw = message(writer(REVISIONS[frame]), header, *parts)
    assert bytes(crafted(frame, *parts, seq=seq)) == raw
    again = frame(raw)
    assert (again.front, again.middle, again.data) == parts
    assert (again[MSGR2_Message].seq, again.crc_ok, again.whole, bytes(again)) == (seq, True, True, raw)


def test_every_field_of_the_header_has_its_place() -> None:
    values = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    names = ("seq", "tid", "type", "priority", "version", "data_pre_padding_len", "data_off", "ack_seq", "flags")
    names += ("compat_version", "reserved")
    layer = MSGR2_Message(**dict(zip(names, values, strict=True)))
    assert bytes(layer) == MESSAGE_HEADER.pack(*values)
    frame = MSGR2(bytes(MSGR2() / layer))
    assert tuple(getattr(frame[MSGR2_Message], name) for name in names) == values


@revisions
@given(data=st.data())
def test_damaged_frame_is_built_unchanged_with_its_error(frame: type[Frame], data: st.DataObject) -> None:
    raw = bytearray(bytes(crafted(frame, b"front", b"", b"data")))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    again = frame(bytes(raw))
    assert bytes(again) == raw
    covered = at != len(raw) - (13 if frame is MSGR2 else 17)  # the late status is under no crc
    assert (again.crc_ok and again.whole) is not covered
    again.show(dump=True)


@revisions
def test_a_frame_cut_short_is_built_as_it_was(frame: type[Frame]) -> None:
    raw = bytes(crafted(frame, b"front", b"middle", b"data"))
    for size in range(1, len(raw)):
        again = frame(raw[:size])
        assert bytes(again) == raw[:size]
        assert not again.whole
        assert not (size > 32 and again.crc_ok)
        again.show(dump=True)
        again.summary()


@revisions
@given(raw=st.binary(min_size=1, max_size=300))
def test_any_bytes_are_dissected_and_built_again(frame: type[Frame], raw: bytes) -> None:
    again = frame(raw)
    assert bytes(again) == raw
    again.show(dump=True)
    again.summary()


@revisions
@given(
    st.integers(0, 255),
    st.integers(0, 255),
    st.lists(st.integers(0, 60), min_size=4, max_size=4),
    st.binary(max_size=200),
)
def test_any_table_of_segments(frame: type[Frame], tag: int, count: int, lengths: list[int], body: bytes) -> None:
    numbers = {f"length{number}": length for number, length in enumerate(lengths)}
    head = bytes(frame(tag=tag, num_segments=count, **numbers))[:32]
    again = frame(head + body)
    assert bytes(again) == head + body
    again.show(dump=True)
    again.summary()


def test_wrong_crcs_are_shown_and_kept() -> None:
    frame = MSGR2(bytes(crafted(MSGR2, b"front")))
    frame.crc1 = 7
    shown = frame.show(dump=True)
    assert f"crc1      = 0x00000007 (bad, 0x{frame.right_crc('crc1'):08x} would be right)" in shown
    assert shown.count("(ok)") == 4
    assert not MSGR2(bytes(frame)).crc_ok
    assert MSGR2(bytes(frame)).crc1 == 7


def test_changed_frame_keeps_lengths_and_crcs_until_recompute() -> None:
    frame = MSGR2(bytes(crafted(MSGR2, b"front", b"", b"data")))
    frame.front = b"longer front"
    assert not MSGR2(bytes(frame)).crc_ok
    assert bytes(frame.recompute()) == bytes(crafted(MSGR2, b"longer front", b"", b"data"))
    del frame.data
    assert bytes(frame.recompute()) == bytes(crafted(MSGR2, b"longer front"))


def test_grown_control_frame_is_built_completely() -> None:
    frame = MSGR2(bytes(MSGR2() / MSGR2_AuthReplyMore(auth_payload=b"short")))
    frame.auth_payload = b"longer"
    assert bytes(frame.payload) in bytes(frame)
    assert not MSGR2(bytes(frame)).crc_ok
    assert MSGR2(bytes(frame.recompute())).auth_payload == b"longer"


def test_lengths_may_be_wrong_on_purpose() -> None:
    frame = MSGR2(length1=1 << 31) / MSGR2_Message(front=b"short")
    raw = bytes(frame)
    assert raw[8:12] == bytes.fromhex("00000080")
    assert MSGR2(raw)[MSGR2_Message].front.startswith(b"short")
    assert not MSGR2(raw).whole


def test_bytes_after_a_frame_are_padding() -> None:
    first, second = bytes(MSGR2() / MSGR2_Ack(seq=1)), bytes(MSGR2() / MSGR2_Wait())
    frame = MSGR2(first + second)
    assert frame[Padding].load == second
    assert bytes(frame) == first + second


def test_an_unknown_tag_has_its_segments_as_bytes() -> None:
    raw = bytes(MSGR2(tag=99, length0=2, length1=3, length2=0, length3=0, num_segments=2) / Raw(b"abcde"))
    again = MSGR2(raw)
    assert (again[Raw].load, again.segments(), again.crc_ok) == (b"abcde", (b"ab", b"cde", b"", b""), True)


def test_a_message_without_room_for_its_header_is_bytes() -> None:
    raw = bytes(MSGR2(tag=17, length0=2, length1=0, length2=0, length3=0) / Raw(b"ab"))
    assert MSGR2(raw)[Raw].load == b"ab"
    assert bytes(MSGR2(raw)) == raw


def test_longer_header_keeps_its_unknown_bytes() -> None:
    raw = message(writer("crc"), bytes(range(45)), b"front")
    again = MSGR2(raw)
    assert (again.header_extra, again.front, bytes(again)) == (bytes(range(41, 45)), b"front", raw)


def test_wait_has_a_payload_of_no_bytes() -> None:
    assert MSGR2_Wait in MSGR2(bytes(MSGR2() / MSGR2_Wait()))
    assert len(bytes(MSGR2() / MSGR2_Wait())) == 32
    assert len(bytes(MSGR2_Rev0() / MSGR2_Wait())) == 49


def test_a_tag_follows_from_the_payload() -> None:
    assert MSGR2(bytes(MSGR2() / MSGR2_SessionRetry(connect_seq=4))).tag == Tag.SESSION_RETRY
    assert MSGR2(bytes(MSGR2(tag="ACK") / MSGR2_SessionRetry(connect_seq=4)))[MSGR2_Ack].seq == 4
    assert isinstance(MSGR2().payload, NoPayload)


def test_compressed_segments_are_shown_as_such() -> None:
    pieces: list[bytes] = []
    header = bytes(MSGR2_Message(seq=3))
    CompressingWriter(writer("crc"), new_compressor(Algorithm.SNAPPY), 1).message(
        pieces, header, b"a" * 500, b"", b""
    )
    raw = b"".join(pieces)
    frame = MSGR2(raw)
    assert frame.compressed
    assert "flags     = COMPRESSED" in frame.show(dump=True)
    assert (frame[MSGR2_Compressed].front, frame.crc_ok, bytes(frame)) == (frame.segments()[1], True, raw)
    assert frame.summary() == f"MSGR2 compressed {sum(map(len, frame.segments()))} bytes"


# ---- payloads


def test_a_typed_payload_is_shown_and_may_be_given() -> None:
    payload = MMonSubscribe({"osdmap": Subscription(5, 1)}, "host")
    frame = MSGR2(bytes(MSGR2() / MSGR2_Message(seq=1, typed=payload)))
    layer = frame[MSGR2_Message]
    assert layer.typed == payload
    assert (layer.type, layer.version, layer.compat_version) == (15, payload.VERSION, payload.COMPAT_VERSION)
    assert "typed     = MMonSubscribe(what={'osdmap': Subscription(" in frame.show(dump=True)
    payload.hostname = "another"
    layer.typed = payload
    assert MSGR2(bytes(frame.recompute()))[MSGR2_Message].typed == payload


def test_unknown_and_malformed_payloads() -> None:
    assert MSGR2_Message(type=900, front=b"x").typed is None
    assert "typed     = no fields known" in MSGR2_Message(type=900).show(dump=True)
    assert "typed     = malformed: " in MSGR2_Message(type="osd_map", front=b"x").show(dump=True)
    assert MSGR2_Message(type="osd_map", front=b"x").typed is None


def test_a_huge_payload_is_shown_in_part() -> None:
    many = MMonSubscribe({f"what{number}": Subscription(number, 0) for number in range(1000)}, "")
    shown = MSGR2_Message(typed=many).show(dump=True)
    assert shown.count("\n") < 80
    assert re.search(r"\.\.\. and \d+ lines", shown)


def test_a_payload_of_a_version_by_features() -> None:
    layer = MSGR2_Message(typed=MPing())
    assert (layer.type, layer.front, layer.typed) == (2, b"", MPing())
    assert MSGR2_Message(type="osd_op_reply").type == MOSDOpReply.TYPE


def test_summaries() -> None:
    frame = MSGR2() / MSGR2_Message(seq=5, tid=3, type="osd_op", front=b"x" * 120)
    assert frame.summary() == "MSGR2 MESSAGE osd_op seq 5 tid 3 front 120"
    assert (MSGR2() / MSGR2_KeepAlive2(seconds=1)).summary() == "MSGR2 KEEPALIVE2 seconds 1 nanoseconds 0"
    assert MSGR2_Banner(supported="REVISION_1+COMPRESSION").summary() == (
        "MSGR2 BANNER supported REVISION_1+COMPRESSION required 0"
    )
