"""Names and numbers of compression (docs/protocol.md §4.10); messenger/v2/compressor.py implements it."""

from enum import IntEnum


class Algorithm(IntEnum):
    """Compression algorithms by their numbers on the wire. Ceph's names are the same in lower case."""

    NONE = 0
    SNAPPY = 1
    ZLIB = 2
    ZSTD = 3
    LZ4 = 4
    BROTLI = 5


class CompressionMode(IntEnum):
    """Compression modes of Ceph. The messenger treats all except NONE alike."""

    NONE = 0
    PASSIVE = 1
    AGGRESSIVE = 2
    FORCE = 3
