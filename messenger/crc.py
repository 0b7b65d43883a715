"""CRC-32C as Ceph computes it: no inversion at the start or end; the seed is the register (docs/protocol.md §1.4).

Libraries compute the textbook CRC, which inverts at both ends; two xors convert one into the other.
"""

from typing import Protocol

from messenger.denc.codec import Buffer

_INVERT = 0xFFFFFFFF


class _Crc(Protocol):
    """A library's CRC function. Arguments: a buffer, and the CRC of the bytes before it."""

    def __call__(self, data: Buffer, initial: int = ..., /) -> int: ...


def _load_standard_crc32c() -> _Crc:
    """Return fastcrc's function, which uses CPU instructions, or crcmod's on platforms without fastcrc."""
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
    """Ceph's CRC of ``data``, continued from ``seed``.

    Args:
        data: any contiguous buffer.
        seed: 0, 0xFFFFFFFF, or the CRC of the bytes before ``data``.
    """
    return standard_crc32c(data, seed ^ _INVERT) ^ _INVERT
