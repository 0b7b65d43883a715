"""Frames of msgr v2: the vectors of 2.1 in docs/protocol.md §10; chopping, truncation, every changed byte."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, PeerError
from messenger.v2.framing import ABORTED, CrcReader, CrcWriter, SecureReader, SecureWriter
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.wire import MESSAGE_HEADER, Ack, ControlFrame, Hello, KeepAlive2, Wait, decode_control
from tests.support.frames import (
    ALL_MODES,
    BUILDERS,
    HEADER,
    MODES,
    Segments,
    checking_reader,
    ciphers,
    crc_frame,
    message,
    plain,
    preamble,
    read_all,
    reader,
    writer,
)

KEEPALIVE = KeepAlive2(0x65000000, 0x075BCD15)
CONTROL_VECTORS: list[tuple[ControlFrame, str]] = [
    (
        Hello(EntityType.CLIENT, EntityAddr.parse("v2:127.0.0.1:3300/0")),
        (
            "010124000000080000000000000000000000000000000000000000003fbd6b06080101011c00000002000000000000001000"
            "000002000ce47f00000100000000000000007d883e07"
        ),
    ),
    (
        KEEPALIVE,
        "12010800000008000000000000000000000000000000000000000000d8d5f5990000006515cd5b0792ae1e3a",
    ),
    (
        Ack(5),
        "140108000000080000000000000000000000000000000000000000007374bc5b05000000000000003fb2f61b",
    ),
    (Wait(), "10010000000008000000000000000000000000000000000000000000c8e3aab0"),
]

_PING = MESSAGE_HEADER.pack(1, 0, 2, 127, 1, 0, 0, 0, 3, 1, 0)
_SUBSCRIBE = MESSAGE_HEADER.pack(2, 9, 15, 127, 3, 0, 0, 1, 3, 1, 0)
_SUBSCRIBE_FRONT = bytes.fromhex("01000000060000006d6f6e6d617000000000000000000004000000686f7374")
MESSAGE_VECTORS: list[tuple[Segments, str]] = [
    (
        (_PING, b"", b"", b""),
        (
            "11012900000008000000000000000000000000000000000000000000af9604f0010000000000000000000000000000000200"
            "7f00010000000000000000000000000000000301000000d4496b8a"
        ),
    ),
    (
        (_SUBSCRIBE, _SUBSCRIBE_FRONT, b"", b""),
        (
            "11022900000008001f0000000800000000000000000000000000000081e391da020000000000000009000000000000000f00"
            "7f00030000000000000001000000000000000301000000cf82fe0d01000000060000006d6f6e6d6170000000000000000000"
            "04000000686f73740e4bf7ef970000000000000000"
        ),
    ),
    (
        (_SUBSCRIBE, b"AB", b"", b"data!"),
        (
            "11042900000008000200000008000000000008000500000000100000ed91176a020000000000000009000000000000000f00"
            "7f00030000000000000001000000000000000301000000cf82fe0d414264617461210e15bb6b42ffffffffa61b425e"
        ),
    ),
]
SECURE_KEEPALIVE = (
    "d62f0baf0f4fbeef17dd5df5c727eb3e3abc748736f46bbf85cb2911bfd0e434d2d9215a946ba01be3a0d5c8dad0511b89b8f12b"
    "f9c3bbe86b152db6879046985e5812a422977d9bce807a40ada1ac21105b0b720ffc723c54e5809dd2016af2"
)

SEGMENTS = st.tuples(*[st.binary(max_size=80)] * 3).map(lambda rest: (HEADER, *rest))


@pytest.mark.parametrize(("frame", "raw"), CONTROL_VECTORS, ids=lambda value: type(value).__name__)
def test_control_frame_vectors(frame: ControlFrame, raw: str) -> None:
    assert CrcWriter().control(frame.TAG, frame.encode()).hex() == raw
    ((tag, segments),) = read_all(reader("crc"), bytes.fromhex(raw))
    assert decode_control(tag, segments) == frame


@pytest.mark.parametrize(("segments", "raw"), MESSAGE_VECTORS, ids=["header only", "front", "empty middle"])
def test_message_frame_vectors(segments: Segments, raw: str) -> None:
    assert message(CrcWriter(), *segments).hex() == raw
    assert read_all(reader("crc"), bytes.fromhex(raw)) == [(17, segments)]


def test_secure_frame_vector() -> None:
    receiving, sending = ciphers()
    assert SecureWriter(sending).control(KEEPALIVE.TAG, KEEPALIVE.encode()).hex() == SECURE_KEEPALIVE
    ((tag, segments),) = read_all(SecureReader(receiving, 1 << 20), bytes.fromhex(SECURE_KEEPALIVE))
    assert decode_control(tag, segments) == KEEPALIVE


# ---- the same frames, however they arrive


def frames_of(mode: str, messages: list[Segments]) -> bytes:
    out = writer(mode)
    return b"".join(message(out, *segments) for segments in messages)


def read_in_pieces(mode: str, raw: bytes, ends: list[int], *, owned: bool) -> list[tuple[int, Segments]]:
    """Frames of ``raw`` when it has arrived up to each of ``ends`` in turn."""
    from_, position, frames = reader(mode), 0, []
    view = memoryview(bytearray(raw))
    for end in ends:
        while (frame := from_.next_frame(view, position, end, owned=owned)) is not None:
            frames.append(plain(frame))
            position = frame[0]
        assert from_.needed == 0 or from_.needed > end - position
    return frames


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("mode", ALL_MODES)
@given(messages=st.lists(SEGMENTS, min_size=1, max_size=4), data=st.data())
def test_random_chopping_gives_the_same_frames(
    *, mode: str, owned: bool, messages: list[Segments], data: st.DataObject
) -> None:
    raw = frames_of(mode, messages)
    ends = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=8)) | {len(raw)})
    assert read_in_pieces(mode, raw, ends, owned=owned) == [(17, segments) for segments in messages]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_byte_at_a_time_gives_the_same_frames(mode: str) -> None:
    messages = [segments for segments, _ in MESSAGE_VECTORS]
    raw = frames_of(mode, messages)
    ends = list(range(1, len(raw) + 1))
    assert read_in_pieces(mode, raw, ends, owned=False) == [(17, segments) for segments in messages]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize(
    "sizes",
    [
        (0, 0, 100_000),
        (100_000, 0, 0),
        (15, 16, 17),
        (4096, 20_000, 70_000),
        (0, 1, 0),
        (5, 0, 600_001),
    ],
)
def test_segments_of_any_size_arrive_whole(mode: str, sizes: tuple[int, int, int]) -> None:
    front, middle, data = (bytes([i + 1]) * size for i, size in enumerate(sizes))
    raw = message(writer(mode), HEADER, front, middle, data) * (1 if "secure" in mode else 2)
    for owned in False, True:
        frames = read_all(reader(mode), raw, owned=owned)
        assert set(frames) == {(17, (HEADER, front, middle, data))}


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("size", [0, 1, 47, 48, 49, 63, 64, 65, 5000])
def test_control_payloads_around_the_inline_size(mode: str, size: int) -> None:
    payload = bytes(i % 251 for i in range(size))
    raw = writer(mode).control(2, payload)
    assert read_all(reader(mode), raw) == [(2, (payload, b"", b"", b""))]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_truncated_frame_is_incomplete_at_every_byte(mode: str) -> None:
    raw = message(writer(mode), HEADER, b"front", b"middle", b"data" * 30)
    from_ = reader(mode)
    for end in range(len(raw)):
        assert from_.next_frame(memoryview(raw), 0, end, owned=False) is None
    assert from_.needed == len(raw)
    assert from_.next_frame(memoryview(raw), 0, len(raw), owned=False) is not None


# ---- what was changed on the way


@pytest.mark.parametrize("segments", [(HEADER, b"", b"", b""), (HEADER, b"front", b"", b"data")])
def test_every_flipped_byte_of_a_secure_frame_faults(segments: Segments) -> None:
    raw = message(writer("secure"), *segments)
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 0x01
        with pytest.raises(PeerError) as caught:
            read_all(reader("secure"), bytes(changed))
        assert caught.value.reason is FaultReason.AUTH_TAG


@pytest.mark.parametrize(
    "segments",
    [
        (HEADER, b"", b"", b""),
        (HEADER, b"front", b"middle", b"data"),
        (HEADER, b"front", b"", b"data"),
        (HEADER, b"", b"", b"data"),
    ],
)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_covered_byte_of_a_crc_frame_faults(segments: Segments, mask: int) -> None:
    raw = message(writer("crc"), *segments)
    late_status = len(raw) - 13 if any(segments[1:]) else None
    for position in range(len(raw)):
        if position == late_status:
            continue
        changed = bytearray(raw)
        changed[position] ^= mask
        with pytest.raises(PeerError) as caught:
            read_all(reader("crc"), bytes(changed))
        expected = FaultReason.PREAMBLE_CRC if position < 32 else FaultReason.SEGMENT_CRC
        assert caught.value.reason is expected, position


def test_secure_frames_only_open_once_and_in_order() -> None:
    out = writer("secure")
    first, second = message(out, HEADER, b"1"), message(out, HEADER, b"2")
    assert len(read_all(reader("secure"), first + second)) == 2
    for raw in second + first, first + first:
        with pytest.raises(PeerError) as caught:
            read_all(reader("secure"), raw)
        assert caught.value.reason is FaultReason.AUTH_TAG


# ---- late status and preamble


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reserved", [0x00, 0xF0])
def test_an_aborted_frame_is_reported_as_such(mode: str, reserved: int) -> None:
    head = preamble(lengths=(41, 5, 0, 0), segments=2)
    raw = BUILDERS[mode](head, HEADER, (b"front",), late_status=0x01 | reserved)
    ((tag, _),) = read_all(reader(mode), raw)
    assert tag == ABORTED


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("late_status", [0x0E, 0xFE])
def test_reserved_bits_of_the_late_status_are_ignored(mode: str, late_status: int) -> None:
    head = preamble(lengths=(41, 5, 0, 0), segments=2)
    raw = BUILDERS[mode](head, HEADER, (b"front",), late_status=late_status)
    assert read_all(reader(mode), raw) == [(17, (HEADER, b"front", b"", b""))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("late_status", [0x00, 0x02, 0x0F, 0x1F])
def test_any_other_late_status_faults(mode: str, late_status: int) -> None:
    head = preamble(lengths=(41, 5, 0, 0), segments=2)
    with pytest.raises(PeerError) as caught:
        read_all(reader(mode), BUILDERS[mode](head, HEADER, (b"front",), late_status=late_status))
    assert caught.value.reason is FaultReason.FRAME


BAD_PREAMBLES = {
    "no segments": preamble(segments=0),
    "five segments": preamble(segments=5),
    "255 segments": preamble(segments=255),
    "last of two empty": preamble(lengths=(41, 0, 0, 0), segments=2),
    "last of four empty": preamble(lengths=(41, 1, 1, 0), segments=4),
    "compressed": preamble(flags=1),
}


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("bad", BAD_PREAMBLES)
def test_a_wrong_preamble_faults_before_the_rest_has_arrived(mode: str, bad: str) -> None:
    raw = BAD_PREAMBLES[bad] if "crc" in mode else BUILDERS[mode](BAD_PREAMBLES[bad])
    with pytest.raises(PeerError) as caught:
        reader(mode).next_frame(memoryview(raw), 0, len(raw), owned=False)
    assert caught.value.reason is FaultReason.FRAME


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize(
    "lengths",
    [
        (0x7FFFFFFF, 0, 0, 0),
        (0x80000000, 0, 0, 0),
        (0xFFFFFFFF, 0, 0, 0),
        (41, 0, 0, 0xFFFFFFFF),
        (0xFFFFFFFF,) * 4,
    ],
)
def test_a_huge_frame_is_refused_when_its_preamble_has_arrived(
    mode: str, lengths: tuple[int, int, int, int]
) -> None:
    head = preamble(lengths=lengths, segments=4 if lengths[3] else 1)
    raw = head if "crc" in mode else BUILDERS[mode](head)
    from_ = reader(mode)
    with pytest.raises(PeerError) as caught:
        from_.next_frame(memoryview(raw), 0, len(raw), owned=False)
    assert caught.value.reason is FaultReason.OVERSIZE
    assert from_.needed == 0


@pytest.mark.parametrize("mode", ALL_MODES)
def test_the_limit_is_on_the_length_on_the_wire(mode: str) -> None:
    raw = message(writer(mode), HEADER, b"", b"", bytes(1000))
    assert len(read_all(reader(mode, len(raw)), raw)) == 1
    with pytest.raises(PeerError) as caught:
        read_all(reader(mode, len(raw) - 1), raw)
    assert caught.value.reason is FaultReason.OVERSIZE


def test_segments_are_announced_with_the_alignments_of_ceph_and_unused_slots_with_none() -> None:
    """Data 4096, all other segments 8 (docs/protocol.md §4.4)."""
    announced = struct.Struct("<BBIHIHIHIH").unpack_from
    whole = message(CrcWriter(), HEADER, b"front", b"middle", b"data")
    assert announced(whole) == (17, 4, len(HEADER), 8, 5, 8, 6, 8, 4, 4096)
    assert announced(message(CrcWriter(), HEADER, b"front", b"", b"")) == (17, 2, len(HEADER), 8, 5, 8, 0, 0, 0, 0)
    assert announced(CrcWriter().control(16, b"payload")) == (16, 1, 7, 8, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("alignment", [0, 3, 8, 65535])
def test_alignments_and_reserved_fields_are_not_judged(alignment: int) -> None:
    head = preamble(alignments=(alignment,) * 4, reserved=7, flags=0xFE)
    assert read_all(reader("crc"), crc_frame(head, HEADER)) == [(17, (HEADER, b"", b"", b""))]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_alignments_are_judged_where_that_is_asked_for(mode: str) -> None:
    """MF-06. 0 is what kernels with pages of 64 KiB say."""
    for alignment in (0, 1, 4, 8, 4096, 32768):
        head = preamble(lengths=(41, 5, 0, 0), segments=2, alignments=(alignment,) * 4)
        raw = BUILDERS[mode](head, HEADER, (b"front",))
        assert read_all(checking_reader(mode), raw) == [(17, (HEADER, b"front", b"", b""))]
    for alignment in (3, 12, 65535):
        head = preamble(lengths=(41, 5, 0, 0), segments=2, alignments=(8, alignment, 8, 8))
        with pytest.raises(PeerError) as caught:
            read_all(checking_reader(mode), BUILDERS[mode](head, HEADER, (b"front",)))
        assert (caught.value.reason, caught.value.detail) == (FaultReason.FRAME, f"alignment of {alignment} bytes")


@pytest.mark.parametrize("mode", ALL_MODES)
def test_alignments_of_empty_slots_are_not_judged(mode: str) -> None:
    head = preamble(lengths=(41, 0, 5, 0), segments=3, alignments=(8, 3, 8, 3))
    raw = BUILDERS[mode](head, HEADER, (b"", b"middl"))
    assert read_all(checking_reader(mode), raw) == [(17, (HEADER, b"", b"middl", b""))]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("used", [1, 2, 3])
def test_lengths_beyond_the_count_are_not_looked_at(mode: str, used: int) -> None:
    head = preamble(lengths=(41, *[5 if slot < used else 0xFFFFFFFF for slot in (1, 2, 3)]), segments=used)
    rest = (b"front", b"middl")[: used - 1]
    ((tag, segments),) = read_all(reader(mode), BUILDERS[mode](head, HEADER, rest))
    assert (tag, segments) == (17, (HEADER, *rest, *[b""] * (4 - used)))


def test_an_empty_frame_has_neither_payload_nor_crc() -> None:
    assert len(CrcWriter().control(16, b"")) == 32


def test_more_different_sizes_than_any_cache_holds() -> None:
    out, from_ = CrcWriter(), CrcReader(1 << 20)
    for _ in range(2):
        for size in range(4200):
            raw = message(out, HEADER, bytes(size))
            assert read_all(from_, raw) == [(17, (HEADER, bytes(size), b"", b""))]


# ---- noise


@pytest.mark.parametrize("mode", ALL_MODES)
@given(raw=st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(mode: str, raw: bytes) -> None:
    try:
        frame = reader(mode).next_frame(memoryview(raw), 0, len(raw), owned=False)
    except PeerError:
        return
    assert frame is None


@given(
    lengths=st.tuples(*[st.integers(0, 70)] * 4),
    segments=st.integers(0, 6),
    tag=st.integers(0, 255),
    flags=st.integers(0, 255),
    rest=st.binary(max_size=400),
    mode=st.sampled_from(ALL_MODES),
    owned=st.booleans(),
)
def test_a_valid_preamble_before_random_bytes_never_raises_anything_else(
    *, lengths: tuple[int, int, int, int], segments: int, tag: int, flags: int, rest: bytes, mode: str, owned: bool
) -> None:
    head = preamble(tag, lengths, segments=segments, flags=flags)
    raw = bytearray((head if "crc" in mode else BUILDERS[mode](head)) + rest)
    try:
        frame = reader(mode).next_frame(memoryview(raw), 0, len(raw), owned=owned)
    except PeerError:
        return
    assert frame is None or frame[0] <= len(raw)


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("size", [1, 40, 42, 48])
def test_headers_of_other_lengths_are_frames_too(mode: str, size: int) -> None:
    header = bytes(range(size))
    raw = message(writer(mode), header, b"front", b"", b"data")
    assert read_all(reader(mode), raw) == [(MESSAGE_TAG, (header, b"front", b"", b"data"))]


@pytest.mark.parametrize("segments", [("front", "", ""), ("", "middle", ""), ("front", "", "data"), ("", "", "")])
def test_crcs_of_segments_that_a_compressed_or_crafted_frame_does_not_have(segments: tuple[str, str, str]) -> None:
    """0 beyond the last segment, the crc of nothing before it (docs/protocol.md §4.5), as in other frames."""
    front, middle, data = (segment.encode() for segment in segments)
    plainly: list[Buffer] = []
    CrcWriter().message(plainly, _SUBSCRIBE, front, middle, data)
    compressed: list[Buffer] = []
    length = CrcWriter().compressed(compressed, MESSAGE_TAG, (_SUBSCRIBE, front, middle, data))
    crafted: list[Buffer] = []
    CrcWriter().message(crafted, _SUBSCRIBE + b"!", front, middle, data)
    preamble_bytes, epilogue_bytes = 32, 13 if any(segments) else 0
    raw = b"".join(plainly)
    assert length == len(raw)
    assert b"".join(compressed)[preamble_bytes:] == raw[preamble_bytes:]
    assert b"".join(crafted)[len(raw) + 1 - epilogue_bytes :] == raw[len(raw) - epilogue_bytes :]
