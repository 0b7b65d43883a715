"""Compressed segments: Ceph's formats (docs/protocol.md §4.10), and every way in which they can be wrong."""

import tracemalloc
import zlib
from collections.abc import Callable
from struct import pack

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.v2.compressor import Algorithm, Compressor, new_compressor

ALGORITHMS = [algorithm for algorithm in Algorithm if algorithm is not Algorithm.NONE]
PLAIN = b"osd_op osd_op_reply osd_repop " * 4
MADE_BY_OTHERS = {
    # By libsnappy 1.1.9, libzstd 1.5.4 and liblz4 1.9.4 (LZ4_compress_fast_continue over 50, 40 and 30 bytes).
    "snappy": (Algorithm.SNAPPY, "78186f73645f6f70200907145f7265706c79050d0872657015170511006ffe1e00361e00"),
    "zstd": (
        Algorithm.ZSTD,
        "7800000028b52ffd2078050100806f73645f6f70205f7265706c7972657005001a1402150774ea80d98ab06204",
    ),
    "lz4 in three blocks": (
        Algorithm.LZ4,
        (
            "030000003200000026000000280000000a0000001e0000000d000000726f73645f6f70200700615f7265706c790d00357265"
            "701700011100906f705f7265706c79200f1e00105065706f70200253000f3c00005065706f7020"
        ),
    ),
}


def compressor(algorithm: Algorithm) -> Compressor:
    return new_compressor(algorithm)


def compressed(algorithm: Algorithm, plain: bytes) -> bytes:
    raw = compressor(algorithm).compress(plain)
    assert raw is not None
    return raw


def refusal(algorithm: Algorithm, raw: Buffer, limit_bytes: int = 1 << 20) -> str:
    """Return the reason for which a segment is refused."""
    with pytest.raises(PeerError) as caught:
        compressor(algorithm).decompress(raw, limit_bytes)
    assert caught.value.reason is FaultReason.COMPRESSION
    return caught.value.detail


def test_numbers_on_the_wire() -> None:
    assert [algorithm.name.lower() for algorithm in Algorithm] == [
        "none",
        "snappy",
        "zlib",
        "zstd",
        "lz4",
        "brotli",
    ]
    assert [*Algorithm] == [0, 1, 2, 3, 4, 5]


# ---- the formats


OSD_PLAIN = (b"osd_op(client.4100 [write 0~4096]) " * 235)[:8192]
MADE_BY_AN_OSD = {
    # What ceph-osd 16.2.15 had on its disk after this was written to pools with compression_mode force.
    Algorithm.SNAPPY: (
        "8040886f73645f6f7028636c69656e742e34313030205b777269746520307e343039365d2920" + "fe2300" * 127 + "722300"
    ),
    Algorithm.ZLIB: (
        "00edca410a40400000c0afec918b566dca5b2407f6a0648572f376df7098394fb996a91cd5bcad79bf9bd4c61886e75cef1ce29b"
        "62df8d75288aa2288aa2288aa2288aa2288aa2288aa2288aa2288aa2fcbb7c"
    ),
    Algorithm.ZSTD: (
        "0020000028b52ffd60001f65010034026f73645f6f7028636c69656e742e34313030205b777269746520307e343039365d292001"
        "00d37ed3ab27"
    ),
    Algorithm.LZ4: (
        "01000000002000004d000000ff146f73645f6f7028636c69656e742e34313030205b777269746520307e343039365d29202300ff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe4505d29206f73"
    ),
}


@pytest.mark.parametrize(("algorithm", "raw"), MADE_BY_OTHERS.values(), ids=MADE_BY_OTHERS)
def test_output_of_the_reference_libraries_is_decompressed(algorithm: Algorithm, raw: str) -> None:
    assert compressor(algorithm).decompress(bytes.fromhex(raw), len(PLAIN)) == PLAIN


@pytest.mark.parametrize(("algorithm", "raw"), MADE_BY_AN_OSD.items())
def test_output_of_an_osd_is_decompressed(algorithm: Algorithm, raw: str) -> None:
    assert compressor(algorithm).decompress(bytes.fromhex(raw), 8192) == OSD_PLAIN


def test_snappy_is_a_raw_block() -> None:
    assert compressed(Algorithm.SNAPPY, PLAIN)[:1] == bytes([len(PLAIN)])


@pytest.mark.parametrize("mark", [0, 1])
def test_zlib_is_a_mark_and_raw_deflate(mark: int) -> None:
    raw = compressed(Algorithm.ZLIB, PLAIN)
    assert raw[0] == 0
    assert zlib.decompress(raw[1:], wbits=-15) == PLAIN
    assert compressor(Algorithm.ZLIB).decompress(bytes([mark]) + raw[1:], 1000) == PLAIN


def test_zstd_is_a_size_and_a_frame() -> None:
    raw = compressed(Algorithm.ZSTD, PLAIN)
    assert raw[:4] == pack("<I", len(PLAIN))
    assert zstandard.decompress(raw[4:]) == PLAIN


def test_zstd_frame_may_lack_its_size() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN)
    assert compressor(Algorithm.ZSTD).decompress(pack("<I", len(PLAIN)) + frame, 1000) == PLAIN


def test_lz4_is_a_table_and_blocks() -> None:
    raw = compressed(Algorithm.LZ4, PLAIN)
    assert raw[:12] == pack("<III", 1, len(PLAIN), len(raw) - 12)


def test_lz4_without_any_block_is_empty() -> None:
    assert compressor(Algorithm.LZ4).decompress(bytes(4), 0) == b""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(plain=st.binary(min_size=1, max_size=3000), repeats=st.integers(1, 50))
def test_any_segment_comes_back(algorithm: Algorithm, plain: bytes, repeats: int) -> None:
    raw = compressed(algorithm, plain * repeats)
    for segment in raw, bytearray(raw), memoryview(raw):
        assert compressor(algorithm).decompress(segment, len(plain) * repeats) == plain * repeats


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_compressed(algorithm: Algorithm, kind: Callable[[bytes], Buffer]) -> None:
    raw = compressor(algorithm).compress(kind(PLAIN))
    assert raw is not None
    assert compressor(algorithm).decompress(raw, len(PLAIN)) == PLAIN


@pytest.mark.parametrize("level", [1, 5, 9])
def test_levels_are_heeded(level: int) -> None:
    plain = b"".join(b"%d" % (number * 7919) for number in range(5000))
    deflate = zlib.compressobj(level, wbits=-15)
    raw = new_compressor(Algorithm.ZLIB, zlib_level=level).compress(plain)
    assert raw == b"\0" + deflate.compress(plain) + deflate.flush()
    raw = new_compressor(Algorithm.ZSTD, zstd_level=level).compress(plain)
    assert raw == pack("<I", len(plain)) + zstandard.ZstdCompressor(level).compress(plain)


# ---- wrong ones


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_limit_is_exact(algorithm: Algorithm) -> None:
    raw = compressed(algorithm, PLAIN)
    assert compressor(algorithm).decompress(raw, len(PLAIN)) == PLAIN
    refusal(algorithm, raw, len(PLAIN) - 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_bomb_costs_no_memory(algorithm: Algorithm) -> None:
    raw = compressed(algorithm, bytes(64 << 20))
    tracemalloc.start()
    try:
        refusal(algorithm, raw, 1 << 20)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_truncated_segment_is_refused_at_every_byte(algorithm: Algorithm) -> None:
    raw = compressed(algorithm, PLAIN)
    for end in range(len(raw)):
        refusal(algorithm, raw[:end])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bytes_behind_the_end_are_refused(algorithm: Algorithm) -> None:
    refusal(algorithm, compressed(algorithm, PLAIN) + b"\0")
    refusal(algorithm, compressed(algorithm, PLAIN) * 2)


@pytest.mark.parametrize("size_bytes", [0, len(PLAIN) - 1, len(PLAIN) + 1])
@pytest.mark.parametrize("has_size", [True, False])
def test_zstd_sizes_must_agree(size_bytes: int, *, has_size: bool) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=has_size).compress(PLAIN)
    refusal(Algorithm.ZSTD, pack("<I", size_bytes) + frame)


def test_the_size_inside_a_zstd_frame_is_not_trusted() -> None:
    """The library would take memory for it, whatever the outer size says."""
    inner = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    detail = refusal(Algorithm.ZSTD, pack("<I", 100) + inner)
    assert detail == f"100 bytes announced, {64 << 20} in the zstd frame"


LZ4_BLOCK = compressed(Algorithm.LZ4, PLAIN)[12:]
WRONG_LZ4 = {
    "more blocks than bytes": pack("<I", 0xFFFFFFFF),
    "plain size too small": pack("<III", 1, len(PLAIN) - 1, len(LZ4_BLOCK)) + LZ4_BLOCK,
    "plain size too large": pack("<III", 1, len(PLAIN) + 1, len(LZ4_BLOCK)) + LZ4_BLOCK,
    "plain sizes beyond the limit": pack("<IIIII", 2, 1 << 20, 5, 1, 5) + bytes(10),
    "plain sizes beyond 32 bits": pack("<IIIII", 2, 0xFFFFFFFF, 5, 0xFFFFFFFF, 5) + bytes(10),
    "block size too small": pack("<III", 1, len(PLAIN), len(LZ4_BLOCK) - 1) + LZ4_BLOCK,
    "block size too large": pack("<III", 1, len(PLAIN), len(LZ4_BLOCK) + 1) + LZ4_BLOCK,
    "second block looks too far back": pack("<IIIII", 2, 1, 2, 4, 4) + b"\x10A" + b"\x00\x05\x00\x00",
}


@pytest.mark.parametrize("raw", WRONG_LZ4.values(), ids=WRONG_LZ4)
def test_lz4_sizes_must_agree(raw: bytes) -> None:
    refusal(Algorithm.LZ4, raw)


def restored_bytes(algorithm: Algorithm, raw: Buffer, limit_bytes: int) -> int:
    """Length of what becomes of any bytes; 0 if they are refused, which is the only error there is."""
    try:
        return len(compressor(algorithm).decompress(raw, limit_bytes))
    except PeerError:
        return 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_a_damaged_segment_never_raises_anything_else(algorithm: Algorithm, data: st.DataObject) -> None:
    raw = bytearray(compressed(algorithm, PLAIN))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert restored_bytes(algorithm, raw, 4096) <= 4096


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(raw=st.binary(max_size=200))
def test_noise_never_raises_anything_else(algorithm: Algorithm, raw: bytes) -> None:
    assert restored_bytes(algorithm, raw, 4096) <= 4096
