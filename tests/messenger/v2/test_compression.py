"""Compression of frames: the negotiation, and the bytes on the wire (docs/protocol.md §4.10, §4.4)."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.v2.compression import (
    CompressingWriter,
    CompressionMode,
    DecompressingReader,
    agreed_algorithm,
    answer_request,
    compression_request,
)
from messenger.v2.compressor import Algorithm, Lz4, new_compressor
from messenger.v2.framing import ABORTED, FrameReader, FrameWriter
from messenger.v2.wire import CompressionDone, CompressionRequest, decode_control
from tests.support.frames import (
    ALL_MODES,
    BUILDERS,
    HEADER,
    LIMIT_BYTES,
    Segments,
    message,
    plain,
    preamble,
    read_all,
    reader,
    writer,
)

ALGORITHMS = [algorithm for algorithm in Algorithm if algorithm is not Algorithm.NONE]
NONE, PASSIVE, AGGRESSIVE, FORCE = CompressionMode
SNAPPY, ZSTD, LZ4 = Algorithm.SNAPPY, Algorithm.ZSTD, Algorithm.LZ4
MIN_BYTES = 1024
FLAGS_AT = 26
_LENGTHS = Struct("<2xIHIHIHIH")


def compressing(mode: str, algorithm: Algorithm = SNAPPY, min_bytes: int = MIN_BYTES) -> FrameWriter:
    return CompressingWriter(writer(mode), new_compressor(algorithm), min_bytes)


def decompressing(mode: str, algorithm: Algorithm = SNAPPY, limit_bytes: int = LIMIT_BYTES) -> FrameReader:
    return DecompressingReader(reader(mode, limit_bytes), new_compressor(algorithm))


# ---- negotiation


@pytest.mark.parametrize("wish", [PASSIVE, AGGRESSIVE, FORCE])
@pytest.mark.parametrize("allowed", [PASSIVE, AGGRESSIVE, FORCE])
@pytest.mark.parametrize(
    ("mine", "theirs", "chosen"),
    [
        ([SNAPPY], [SNAPPY], SNAPPY),
        ([ZSTD, SNAPPY], [SNAPPY, ZSTD], ZSTD),
        ([LZ4, SNAPPY], [SNAPPY, ZSTD], SNAPPY),
        ([LZ4], [SNAPPY, ZSTD], Algorithm.NONE),
        ([LZ4], [], Algorithm.NONE),
        ([], [LZ4], Algorithm.NONE),
        ([Algorithm.NONE, LZ4], [Algorithm.NONE, LZ4], LZ4),
        ([Algorithm.NONE], [Algorithm.NONE], Algorithm.NONE),
    ],
)
def test_the_connectors_first_algorithm_that_the_acceptor_allows(
    wish: CompressionMode,
    allowed: CompressionMode,
    mine: list[Algorithm],
    theirs: list[Algorithm],
    chosen: Algorithm,
) -> None:
    request = compression_request(wish, mine)
    assert request == CompressionRequest(True, mine)  # type: ignore[arg-type]
    done = answer_request(allowed, theirs, request)
    assert done == CompressionDone(chosen is not Algorithm.NONE, chosen)
    assert agreed_algorithm(request, done) is chosen


@pytest.mark.parametrize(("wish", "allowed"), [(NONE, NONE), (NONE, FORCE), (FORCE, NONE)])
def test_both_sides_must_wish_it(wish: CompressionMode, allowed: CompressionMode) -> None:
    request = compression_request(wish, [SNAPPY])
    assert request == CompressionRequest(wish is not NONE, [SNAPPY])
    done = answer_request(allowed, [SNAPPY], request)
    assert done == CompressionDone(False, Algorithm.NONE)
    assert agreed_algorithm(request, done) is Algorithm.NONE


def test_an_unknown_algorithm_of_the_connectors_is_passed_over() -> None:
    assert answer_request(FORCE, [SNAPPY], CompressionRequest(True, [77, SNAPPY])).method == SNAPPY


def test_a_grant_without_a_request_is_no_compression() -> None:
    """As in Ceph: an answer that differs from the request means none."""
    request = CompressionRequest(False, [SNAPPY])
    assert agreed_algorithm(request, CompressionDone(True, SNAPPY)) is Algorithm.NONE


@pytest.mark.parametrize("method", [0, ZSTD, 77])
def test_an_algorithm_that_was_not_offered_is_a_fault(method: int) -> None:
    with pytest.raises(PeerError) as caught:
        agreed_algorithm(CompressionRequest(True, [SNAPPY]), CompressionDone(True, method))
    assert caught.value.reason is FaultReason.COMPRESSION


def test_the_frames_of_the_negotiation() -> None:
    """When not compressing, real peers exchange (0, []) and (0, 0) (§4.10)."""
    assert CompressionRequest(False, []).encode().hex() == "0000000000"
    assert CompressionDone(False, 0).encode().hex() == "0000000000"
    assert CompressionRequest(True, [1, 3]).encode().hex() == "01020000000100000003000000"
    assert CompressionDone(True, 3).encode().hex() == "0103000000"
    assert decode_control(21, (bytes.fromhex("01010000000200000099"), b"", b"", b"")) == CompressionRequest(
        True, [2]
    )


# ---- what is on the wire


def test_the_flag_and_the_compressed_lengths() -> None:
    segments = (HEADER, b"f" * 2000, b"", b"d" * 3000)
    raw = message(compressing("crc"), *segments)
    assert raw[FLAGS_AT] == 1
    lengths = _LENGTHS.unpack_from(raw)[::2]
    snappy = new_compressor(SNAPPY)
    assert list(lengths) == [len(snappy.compress(segment) or b"") if segment else 0 for segment in segments]
    assert read_all(decompressing("crc"), raw) == [(17, segments)]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "sizes", [(0, 0, 0), (982, 0, 0), (983, 0, 0), (984, 0, 0), (500, 0, 483), (0, 983, 0), (300, 0, 100_000)]
)
def test_frames_from_the_smallest_size_on_are_compressed(
    mode: str, algorithm: Algorithm, sizes: tuple[int, int, int]
) -> None:
    """The threshold is on the sum of all segments, the header's 41 bytes included."""
    front, middle, data = (bytes([number]) * size for number, size in enumerate(sizes))
    raw = message(compressing(mode, algorithm), HEADER, front, middle, data)
    if 41 + sum(sizes) < MIN_BYTES:
        assert raw == message(writer(mode), HEADER, front, middle, data)
    else:
        assert len(raw) < len(message(writer(mode), HEADER, front, middle, data))
    for owned in False, True:
        frames = read_all(decompressing(mode, algorithm), raw, owned=owned)
        assert frames == [(17, (HEADER, front, middle, data))]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [0, 1, 48, 1023, 1024, 5000])
@pytest.mark.parametrize("min_bytes", [0, MIN_BYTES])
def test_control_frames_are_no_exception(mode: str, algorithm: Algorithm, size: int, min_bytes: int) -> None:
    payload = bytes(size)
    raw = compressing(mode, algorithm, min_bytes).control(9, payload)
    assert (raw != writer(mode).control(9, payload)) == (size >= min_bytes)
    assert read_all(decompressing(mode, algorithm), raw) == [(9, (payload, b"", b"", b""))]


def test_a_frame_is_compressed_even_if_that_makes_it_longer() -> None:
    noise = bytes(range(256)) * 4
    raw = message(compressing("crc", LZ4), HEADER, data=noise[:983])
    assert raw[FLAGS_AT] == 1
    assert raw[2] > len(HEADER)


@pytest.mark.parametrize("mode", ALL_MODES)
def test_one_segment_that_cannot_be_compressed_leaves_the_frame_as_it_is(mode: str) -> None:
    class Fastidious(Lz4):
        def compress(self, segment: Buffer) -> bytes | None:
            return None if segment == b"no" * 1000 else super().compress(segment)

    out = CompressingWriter(writer(mode), Fastidious(), MIN_BYTES)
    raw = message(out, HEADER, b"yes" * 1000, b"", b"no" * 1000)
    assert raw == message(writer(mode), HEADER, b"yes" * 1000, b"", b"no" * 1000)
    assert out.control(2, b"no" * 1000) == writer(mode).control(2, b"no" * 1000) or "secure" in mode


# ---- reading


@pytest.mark.parametrize("mode", ALL_MODES)
def test_compressed_and_plain_frames_may_alternate(mode: str) -> None:
    out = writer(mode)
    small = CompressingWriter(out, new_compressor(SNAPPY), MIN_BYTES)
    raw = b"".join(message(small if number % 2 else out, HEADER, bytes(2000)) for number in range(6))
    assert read_all(decompressing(mode), raw) == [(17, (HEADER, bytes(2000), b"", b""))] * 6


@pytest.mark.parametrize("mode", ALL_MODES)
def test_the_flag_without_negotiation_is_a_fault(mode: str) -> None:
    raw = message(compressing(mode), HEADER, bytes(2000))
    with pytest.raises(PeerError) as caught:
        read_all(reader(mode), raw)
    assert caught.value.reason is FaultReason.FRAME


@pytest.mark.parametrize("mode", ALL_MODES)
def test_an_aborted_compressed_frame_is_not_restored(mode: str) -> None:
    """Its bytes are zeros, which no algorithm takes."""
    head = preamble(lengths=(41, 5, 0, 0), segments=2, flags=1)
    raw = BUILDERS[mode](head, bytes(41), (bytes(5),), 0x01)
    ((tag, _),) = read_all(decompressing(mode), raw)
    assert tag == ABORTED


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bad_compressed_data_is_a_typed_fault(mode: str, algorithm: Algorithm) -> None:
    head = preamble(lengths=(41, 5, 0, 0), segments=2, flags=1)
    raw = BUILDERS[mode](head, HEADER, (b"\xffjunk",))
    with pytest.raises(PeerError) as caught:
        read_all(decompressing(mode, algorithm), raw)
    assert caught.value.reason is FaultReason.COMPRESSION


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_limit_holds_for_all_segments_together(mode: str, algorithm: Algorithm) -> None:
    raw = message(compressing(mode, algorithm), HEADER, bytes(50_000), bytes(50_000), bytes(50_000))
    assert len(read_all(decompressing(mode, algorithm, 150_041), raw)) == 1
    with pytest.raises(PeerError) as caught:
        read_all(decompressing(mode, algorithm, 150_040), raw)
    assert caught.value.reason is FaultReason.COMPRESSION


def test_limit_and_need_are_those_of_the_reader_beneath() -> None:
    raw = message(writer("crc"), HEADER, bytes(500))
    from_ = decompressing("crc", limit_bytes=100)
    from_.max_frame_bytes = 10_000
    assert from_.next_frame(memoryview(raw), 0, 100, owned=False) is None
    assert (from_.needed, from_.max_frame_bytes) == (len(raw), 10_000)
    from_.needed = 0
    assert from_.next_frame(memoryview(raw), 0, 10, owned=False) is None
    assert from_.needed == 0


# ---- properties of every revision, mode and algorithm

SEGMENTS = st.tuples(*[st.binary(max_size=200).map(lambda raw: raw * 3)] * 3).map(lambda rest: (HEADER, *rest))
ANYHOW = st.tuples(st.sampled_from(ALL_MODES), st.sampled_from(ALGORITHMS), st.integers(0, 400))


def outcome(from_: FrameReader, raw: bytes, ends: list[int], *, owned: bool) -> list[object]:
    """Frames of ``raw`` when it has arrived up to each of ``ends`` in turn, and the fault that ends it."""
    position, seen = 0, list[object]()
    view = memoryview(bytearray(raw))
    try:
        for end in ends:
            while (frame := from_.next_frame(view, position, end, owned=owned)) is not None:
                seen.append(plain(frame))
                position = frame[0]
    except PeerError as error:
        seen.append(error.reason)
    return seen


def cuts(data: st.DataObject, length: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, length), max_size=8)) | {length})


@given(how=ANYHOW, messages=st.lists(SEGMENTS, min_size=1, max_size=4), data=st.data(), owned=st.booleans())
def test_any_cutting_gives_the_same_frames(
    *, how: tuple[str, Algorithm, int], messages: list[Segments], data: st.DataObject, owned: bool
) -> None:
    mode, algorithm, min_bytes = how
    out = compressing(mode, algorithm, min_bytes)
    raw = b"".join(message(out, *segments) for segments in messages)
    frames = outcome(decompressing(mode, algorithm), raw, cuts(data, len(raw)), owned=owned)
    assert frames == [(17, segments) for segments in messages]


@given(how=ANYHOW, segments=SEGMENTS, data=st.data(), owned=st.booleans())
def test_a_changed_byte_gives_the_same_typed_fault_however_it_is_cut(
    *, how: tuple[str, Algorithm, int], segments: Segments, data: st.DataObject, owned: bool
) -> None:
    """What no crc covers in crc mode is the late status and the unused crc slots; only there may a frame pass."""
    mode, algorithm, min_bytes = how
    raw = bytearray(message(compressing(mode, algorithm, min_bytes), *segments))
    changed = data.draw(st.integers(0, len(raw) - 1))
    raw[changed] ^= data.draw(st.integers(1, 255))
    whole = outcome(decompressing(mode, algorithm), bytes(raw), [len(raw)], owned=False)
    in_pieces = outcome(decompressing(mode, algorithm), bytes(raw), cuts(data, len(raw)), owned=owned)
    assert whole == in_pieces
    if "secure" in mode or changed < len(raw) - 17:
        assert len(whole) == 1
        assert isinstance(whole[0], FaultReason)
