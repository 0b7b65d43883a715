"""CRC-32C as Ceph computes it: nothing inverted, the seed is the running register (docs/protocol.md §1.4).

The libraries compute the textbook CRC, which inverts both; two xors convert one into the other.
"""

from typing import Protocol

from messenger.denc.codec import Buffer

_INVERT = 0xFFFFFFFF


class _Crc(Protocol):
    """A library's CRC function: the buffer, then the result of what came before it."""

    def __call__(self, data: Buffer, initial: int = ..., /) -> int: ...


def _load_standard_crc32c() -> _Crc:
    """fastcrc, which uses the CPU's instructions, or crcmod where there is no build of it."""
    try:
        from fastcrc.crc32 import iscsi  # noqa: PLC0415 - may be absent
    except ImportError:
        from crcmod.predefined import mkPredefinedCrcFun  # noqa: PLC0415 - loads tables that fastcrc makes useless

        fallback: _Crc = mkPredefinedCrcFun("crc-32c")
        return fallback
    return iscsi


standard_crc32c = _load_standard_crc32c()
"""The textbook CRC-32C, for hot paths: ``standard_crc32c(data) ^ 0xFFFFFFFF == crc32c(data, 0xFFFFFFFF)``."""


def crc32c(data: Buffer, seed: int) -> int:
    """Ceph's crc of ``data``, continuing from ``seed``.

    Args:
        data: any contiguous buffer.
        seed: 0, 0xFFFFFFFF, or the crc of what comes before ``data``.
    """
    return standard_crc32c(data, seed ^ _INVERT) ^ _INVERT
