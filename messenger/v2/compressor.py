"""The compression algorithms of Ceph's compressor plugins, in the formats of docs/protocol.md §4.10.

The limit for decompressed data is checked before memory is allocated: against the declared size if the format
declares one, otherwise by stopping the decoder.
"""

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Protocol

import brotli
import cramjam
import lz4.block
import zstandard

from messenger.algorithms import Algorithm
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError

__all__ = ["Algorithm", "Brotli", "Compressor", "Lz4", "Snappy", "Zlib", "Zstd", "new_compressor"]

_U32 = Struct("<I")
_LZ4_BLOCK = Struct("<II")
_RAW_DEFLATE = -15
_DEFLATE_MEMORY_LEVEL = 8
_LZ4_WINDOW_BYTES = 64 << 10
_BROTLI_QUALITY = 9
_BROTLI_WINDOW_BITS = 22


class Compressor(Protocol):
    """Both directions of one algorithm."""

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty; None if the algorithm cannot compress it."""

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer.

        Raises:
            PeerError: COMPRESSION: the bytes are damaged or incomplete, their sizes disagree, or the result would
                have more than ``limit_bytes``.
        """


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise _error(f"would be {size_bytes} bytes, {limit_bytes} are left")


def _error(detail: object) -> PeerError:
    return PeerError(FaultReason.COMPRESSION, str(detail))


class Snappy:
    """A raw snappy block; its first bytes are the decompressed size."""

    __slots__ = ()

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty; None if the algorithm cannot compress it."""
        try:
            return bytes(cramjam.snappy.compress_raw(segment))
        except cramjam.CompressionError:
            return None

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer."""
        try:
            size_bytes = cramjam.snappy.decompress_raw_len(segment)
            _check_size(size_bytes, limit_bytes)
            plain = bytearray(size_bytes)
            cramjam.snappy.decompress_raw_into(segment, plain)
        except cramjam.DecompressionError as error:
            raise _error(error) from None
        return plain


class Zlib:
    """A byte that identifies the compressing library, which is ignored, then a raw deflate stream."""

    __slots__ = ("_level",)

    def __init__(self, level: int) -> None:
        self._level = level

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty; None if the algorithm cannot compress it."""
        deflate = zlib.compressobj(self._level, zlib.DEFLATED, _RAW_DEFLATE, _DEFLATE_MEMORY_LEVEL)
        return b"\0" + deflate.compress(segment) + deflate.flush()

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer."""
        inflate = zlib.decompressobj(_RAW_DEFLATE)
        try:
            # One byte above the limit distinguishes a stream that fits exactly from a longer one.
            plain = inflate.decompress(memoryview(segment)[1:], limit_bytes + 1)
        except zlib.error as error:
            raise _error(error) from None
        if len(plain) > limit_bytes:
            raise _error(f"deflate stream longer than {limit_bytes} bytes")
        if not inflate.eof or inflate.unused_data:
            raise _error(f"deflate stream {'with bytes behind it' if inflate.eof else 'without its end'}")
        return plain


class Zstd:
    """The decompressed size as u32, then one zstd frame."""

    __slots__ = ("_compress", "_decompress")

    def __init__(self, level: int) -> None:
        self._compress = zstandard.ZstdCompressor(level).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty; None if the algorithm cannot compress it."""
        try:
            return _U32.pack(len(segment)) + self._compress(segment)
        except zstandard.ZstdError:
            return None

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer."""
        if len(segment) < _U32.size:
            raise _error(f"zstd in {len(segment)} bytes")
        (size_bytes,) = _U32.unpack_from(segment)
        _check_size(size_bytes, limit_bytes)
        frame = memoryview(segment)[_U32.size :]
        try:
            # The library allocates the size that the frame declares, so it must be the checked size.
            inner_bytes = zstandard.frame_content_size(frame)
            if inner_bytes not in {size_bytes, -1}:
                raise _error(f"{size_bytes} bytes announced, {inner_bytes} in the zstd frame")
            plain = self._decompress(frame, max_output_size=size_bytes, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise _error(error) from None
        if len(plain) != size_bytes:
            raise _error(f"{size_bytes} bytes announced, {len(plain)} restored")
        return plain


class Lz4:
    """Number of blocks, both sizes of each, then the blocks, each with the blocks before it as dictionary."""

    __slots__ = ()

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty, into one block as every current sender does; None on failure."""
        try:
            block: bytes = lz4.block.compress(segment, store_size=False)
        except (lz4.block.LZ4BlockError, OverflowError):
            return None
        return _U32.pack(1) + _LZ4_BLOCK.pack(len(segment), len(block)) + block

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer."""
        view = memoryview(segment)
        sizes, source = _lz4_blocks(view)
        total_bytes = sum(plain_bytes for plain_bytes, _ in sizes)
        _check_size(total_bytes, limit_bytes)
        if len(sizes) == 1:
            return _lz4_block(view[source:], total_bytes, b"")
        plain = memoryview(bytearray(total_bytes))
        at = 0
        for plain_bytes, block_bytes in sizes:
            window = plain[max(at - _LZ4_WINDOW_BYTES, 0) : at]
            plain[at : at + plain_bytes] = _lz4_block(view[source : source + block_bytes], plain_bytes, window)
            at += plain_bytes
            source += block_bytes
        return plain


def _lz4_block(block: memoryview, plain_bytes: int, window: Buffer) -> bytes:
    """Decompress one block, given the decompressed bytes before it."""
    try:
        restored: bytes = lz4.block.decompress(block, uncompressed_size=plain_bytes, dict=window)
    except lz4.block.LZ4BlockError as error:
        raise _error(error) from None
    if len(restored) != plain_bytes:
        raise _error(f"{plain_bytes} bytes announced, {len(restored)} in the lz4 block")
    return restored


def _lz4_blocks(view: memoryview) -> tuple[list[tuple[int, int]], int]:
    """The decompressed and compressed size of each block, and the offset of the first block."""
    if len(view) < _U32.size:
        raise _error(f"lz4 in {len(view)} bytes")
    (count,) = _U32.unpack_from(view)
    blocks_at = _U32.size + count * _LZ4_BLOCK.size
    if blocks_at > len(view):
        raise _error(f"{count} lz4 blocks announced in {len(view)} bytes")
    sizes = list(_LZ4_BLOCK.iter_unpack(view[_U32.size : blocks_at]))
    announced_bytes = sum(block_bytes for _, block_bytes in sizes)
    if announced_bytes != len(view) - blocks_at:
        raise _error(f"{announced_bytes} bytes of lz4 blocks announced, {len(view) - blocks_at} are there")
    return sizes, blocks_at


class Brotli:
    """One brotli stream."""

    __slots__ = ()

    def compress(self, segment: Buffer) -> bytes | None:
        """Compress a segment, which is not empty; None if the algorithm cannot compress it."""
        try:
            stream: bytes = brotli.compress(segment, quality=_BROTLI_QUALITY, lgwin=_BROTLI_WINDOW_BITS)
        except brotli.error:
            return None
        return stream

    def decompress(self, segment: Buffer, limit_bytes: int) -> Buffer:
        """Decompress a segment of a peer."""
        decoder = brotli.Decompressor()
        plain = bytearray()
        given: Buffer = segment
        try:
            while not decoder.is_finished():
                piece = decoder.process(given, output_buffer_limit=limit_bytes + 1 - len(plain))
                plain += piece
                if len(plain) > limit_bytes:
                    raise _error(f"brotli stream longer than {limit_bytes} bytes")
                if not piece and not given:
                    raise _error("brotli stream without its end")
                given = b""
        except brotli.error as error:
            raise _error(error) from None
        return plain


def new_compressor(algorithm: Algorithm, *, zlib_level: int = 5, zstd_level: int = 1) -> Compressor:
    """Create the compressor of a link; ``algorithm`` must not be NONE."""
    kinds: dict[Algorithm, Callable[[], Compressor]] = {
        Algorithm.SNAPPY: Snappy,
        Algorithm.ZLIB: lambda: Zlib(zlib_level),
        Algorithm.ZSTD: lambda: Zstd(zstd_level),
        Algorithm.LZ4: Lz4,
        Algorithm.BROTLI: Brotli,
    }
    return kinds[algorithm]()
