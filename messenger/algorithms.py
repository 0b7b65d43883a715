"""Names and numbers of compression (docs/protocol.md §4.10); messenger/v2/compressor.py has the algorithms."""

from enum import IntEnum


class Algorithm(IntEnum):
    """Compression algorithms by their numbers on the wire; the names are Ceph's, in lower case."""

    NONE = 0
    SNAPPY = 1
    ZLIB = 2
    ZSTD = 3
    LZ4 = 4
    BROTLI = 5


class CompressionMode(IntEnum):
    """How much is to be compressed. To the messenger, all but NONE mean the same."""

    NONE = 0
    PASSIVE = 1
    AGGRESSIVE = 2
    FORCE = 3
