"""The classic capture file: a header of 24 bytes, then packets, each after a header of 16."""

from dataclasses import dataclass
from struct import Struct

import numpy as np

from messenger.errors import LocalError
from toolkit.capture.formats.packets import PacketBatch, records_at

LONGEST_PACKET_BYTES = 1 << 24
"""A longer packet is a sign of damage."""
FILE_HEADER_SIZE = 24
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Variant:
    magic: int
    nanoseconds_per_tick: int
    record_header_size: int = 16


_VARIANTS = (_Variant(0xA1B2C3D4, 1000), _Variant(0xA1B23C4D, 1), _Variant(0xA1B2CD34, 1000, 24))
"""Microseconds, nanoseconds, and an old patched libpcap with longer packet headers."""

MAGICS = {
    variant.magic.to_bytes(4, order): (order, variant) for order in ("little", "big") for variant in _VARIANTS
}
"""By magic number, byte order and variant."""


class PcapFormat:
    """Splits the window of a pcap file into packets."""

    needed_bytes = FILE_HEADER_SIZE

    def __init__(self, header: bytes) -> None:
        """Read the header of the file.

        Raises:
            LocalError: its version is unknown.
        """
        order, self._variant = MAGICS[header[:4]]
        sign = "<" if order == "little" else ">"
        major, minor, _, _, _, network = Struct(f"{sign}HHIIII").unpack_from(header, 4)
        if major != 2:
            raise LocalError(f"unknown version {major}.{minor} of pcap; known: 2.4")
        self._link_type = network & 0xFFFF  # higher bits: length of a checksum at the end of packets
        self._length = Struct(f"{sign}I")
        self._layout = np.dtype(
            [(name, f"{sign}u4") for name in ("seconds", "fraction", "captured", "original")]
            + [("more", np.void, self._variant.record_header_size - 16)] * (self._variant.record_header_size > 16)
        )
        self.problem: str | None = None
        self.ended = False
        self.notes: list[str] = []
        self.secrets: list[str] = []
        self._header: int = FILE_HEADER_SIZE

    def take(self, data: memoryview, first: int) -> tuple[PacketBatch | None, int]:
        """Return the packets that are complete in ``data``, and the offset after the last one."""
        skipped, self._header = self._header, 0
        if skipped:
            return None, skipped
        size = self._variant.record_header_size
        starts, stop = self._walk(data, size)
        heads = records_at(data, np.array(starts, np.int64), self._layout)
        captured = heads["captured"].astype(np.int64)
        wrong = np.flatnonzero(captured > LONGEST_PACKET_BYTES)
        if len(wrong):
            count = int(wrong[0])
            stop = starts[count]
            if not count:
                self.ended = True
                self.problem = f"packet {first} claims to be {captured[0]} bytes long"
        else:
            count = len(starts)
            if stop > len(data):
                count -= 1
                stop = starts[count]
                self.needed_bytes = size + int(captured[count])
        if not count:
            return None, 0
        heads, captured = heads[:count], captured[:count]
        times_ns = heads["seconds"].astype(np.int64) * _NANO
        times_ns += heads["fraction"].astype(np.int64) * self._variant.nanoseconds_per_tick
        batch = PacketBatch(
            data,
            first,
            times_ns,
            np.array(starts[:count], np.int64) + size,
            captured,
            heads["original"].astype(np.int64),
            np.full(count, self._link_type, np.int64),
        )
        return batch, stop

    def _walk(self, data: memoryview, header_size: int) -> tuple[list[int], int]:
        """Return the offsets of records, and the end of the last one, which may be beyond ``data``."""
        starts: list[int] = []
        append, length_at = starts.append, self._length.unpack_from
        last = len(data) - header_size
        at = 0
        while at <= last:
            append(at)
            at += header_size + length_at(data, at + 8)[0]
        return starts, at
