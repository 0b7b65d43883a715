"""The block-structured capture file: sections, interfaces, packets, comments, secrets."""

from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np

from toolkit.capture.formats.blocks import (
    BYTE_ORDER_MAGIC,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE,
    MESSENGER_KEY_LOG,
    NAMES,
    OLD_PACKET,
    OPTION_COMMENT,
    OPTION_END,
    OPTION_TIME_OFFSET,
    OPTION_TIME_RESOLUTION,
    SECTION_HEADER,
    SIMPLE_PACKET,
    STATISTICS,
)
from toolkit.capture.formats.packets import Integers, Marks, PacketBatch, Records, records_at
from toolkit.capture.formats.pcap import LONGEST_PACKET_BYTES

_SMALLEST_BLOCK = 12
_PACKET_DATA = 28
"""Offset of the packet in an enhanced block, and in an old one."""
_SIMPLE_DATA = 12
_FIRST_REACH_BYTES = 1 << 12
"""Number of bytes in which blocks are walked after a section header; doubled each time."""
_FARTHEST_REACH_BYTES = 1 << 30
_MOST_INTERFACES = 1 << 16
_MOST_OPTIONS = 64
"""Limit of options of a packet; further ones are ignored."""
_KEPT_BYTES = 1 << 24
"""Limit of the comments and secrets that are kept."""
_NANO = 1_000_000_000
_OPTIONS_AT = {SECTION_HEADER: 24, INTERFACE: 16, STATISTICS: 20}


@dataclass(frozen=True, slots=True)
class _Interface:
    link_type: int
    snap_bytes: int
    resolution: int = 6
    """Ticks per second: a power of ten, or of two if the highest bit is set."""
    offset_s: int = 0

    def times_ns(self, ticks: Any) -> Integers:  # noqa: ANN401 - an array of uint64
        power = self.resolution & 0x7F
        if not self.resolution & 0x80:
            times = ticks * 10 ** (9 - power) if power <= 9 else ticks // 10 ** min(power - 9, 19)
        elif power < 64:
            mask = (1 << power) - 1
            fraction = ticks & mask
            if power > 30:
                fraction, power = fraction >> (power - 30), 30
            times = (ticks >> (self.resolution & 0x7F)) * _NANO + (fraction * _NANO >> power)
        else:
            times = ticks * 0
        unix: Integers = times.astype(np.int64) + self.offset_s * _NANO
        return unix


def padded(size: Any) -> Any:  # noqa: ANN401 - a number, or an array of them
    """Round up to a multiple of four bytes."""
    return (size + 3) & ~3


class PcapngFormat:
    """Splits the window of a pcapng file into blocks, and separates packets from other blocks."""

    needed_bytes = 28

    def __init__(self) -> None:
        self.problem: str | None = None
        """The first problem; None if there was none."""
        self.ended = False
        """True if nothing that follows can be read."""
        self.notes: list[str] = []
        self.secrets: list[str] = []
        self._kept_bytes = 0
        self._reach_bytes = _FIRST_REACH_BYTES
        self._interfaces: list[_Interface] = []
        self._last_time_ns = 0
        self._set_order("<")

    def _set_order(self, sign: str) -> None:
        self._order = sign
        self._u32 = Struct(f"{sign}I")
        self._two_u16 = Struct(f"{sign}HH")
        self._two_u32 = Struct(f"{sign}II")
        self._i64 = Struct(f"{sign}q")
        self._interface_struct = Struct(f"{sign}HHI")
        words = {"u4": f"{sign}u4", "u2": f"{sign}u2"}
        self._block_layout = np.dtype([("type", words["u4"]), ("size", words["u4"])])
        self._word_layout = np.dtype(words["u4"])
        self._option_layout = np.dtype([("code", words["u2"]), ("size", words["u2"])])
        names = ("type", "size", "interface", "high", "low", "captured", "original")
        self._packet_layout = np.dtype([(name, words["u4"]) for name in names])
        self._old_interface = np.dtype(words["u2"])

    def take(self, data: memoryview, first: int) -> tuple[PacketBatch | None, int]:
        """Return the packets of the complete blocks in ``data`` up to the next section, and its offset."""
        if len(data) >= self.needed_bytes and self._is_section(data):
            return None, self._begin_section(data)
        starts, stop = self._walk(data)
        self._reach_bytes = min(2 * self._reach_bytes, _FARTHEST_REACH_BYTES)
        if not starts:
            if len(data) >= _SMALLEST_BLOCK:
                self._stop(f"a block of {stop} bytes, which is too short")
            return None, 0
        at = np.array(starts, np.int64)
        heads = records_at(data, at, self._block_layout)
        kinds, sizes = heads["type"], heads["size"].astype(np.int64)
        count = self._whole_blocks(data, at, kinds, sizes)
        if not count:
            return None, self._give_up_or_wait(int(kinds[0]), int(sizes[0]), len(data))
        packets = np.isin(kinds[:count], (ENHANCED_PACKET, SIMPLE_PACKET, OLD_PACKET))
        interfaces = len(self._interfaces)
        for index in np.flatnonzero(~packets).tolist():
            self._read_block(data[starts[index] : starts[index] + int(sizes[index])], int(kinds[index]))
            if self.ended:
                count, packets = index, packets[:index]
                break
        if not count:
            return None, 0
        at, kinds, sizes = at[:count], kinds[:count], sizes[:count]
        described = interfaces + np.cumsum(kinds == INTERFACE)[packets]
        batch = self._packets(data, first, at[packets], kinds[packets], sizes[packets], described)
        return batch, int(at[-1] + sizes[-1])

    def _is_section(self, data: memoryview) -> bool:
        return bool(self._u32.unpack_from(data)[0] == SECTION_HEADER)

    def _begin_section(self, data: memoryview) -> int:
        order = "<" if int.from_bytes(data[8:12], "little") == BYTE_ORDER_MAGIC else ">"
        if order != self._order:
            self._set_order(order)
        _, size = self._two_u32.unpack_from(data)
        is_sound = size % 4 == 0 and 28 <= size <= LONGEST_PACKET_BYTES
        if self._u32.unpack_from(data, 8)[0] != BYTE_ORDER_MAGIC or not is_sound:
            self._stop("a section header that is none")
            return 0
        if size > len(data):
            self.needed_bytes = size
            return 0
        self.needed_bytes = 28
        self._reach_bytes = _FIRST_REACH_BYTES
        self._interfaces = []
        self._read_comments(data[: size - 4], _OPTIONS_AT[SECTION_HEADER])
        return int(size)

    def _walk(self, data: memoryview) -> tuple[list[int], int]:
        """Return the offsets of blocks and the end of the last one; or no blocks and an impossible size.

        After a section header only a part of ``data`` is walked: another header may follow, and what is after that
        must be walked again.
        """
        starts: list[int] = []
        append, length_at = starts.append, self._u32.unpack_from
        last = min(len(data) - _SMALLEST_BLOCK, self._reach_bytes)
        at = 0
        while at <= last:
            size = length_at(data, at + 4)[0]
            if size < _SMALLEST_BLOCK:
                return starts, size
            append(at)
            at += size
        return starts, at

    def _whole_blocks(self, data: memoryview, at: Integers, kinds: Records, sizes: Integers) -> int:
        """Return the number of blocks that are sound, complete, and of this section."""
        ends = at + sizes
        count = int(np.searchsorted(ends, len(data), side="right"))
        other = np.flatnonzero(
            (kinds[:count] == SECTION_HEADER)
            | (sizes[:count] % 4 != 0)
            | (records_at(data, ends[:count] - 4, self._word_layout) != sizes[:count])
        )
        return int(other[0]) if len(other) else count

    def _give_up_or_wait(self, kind: int, size: int, there: int) -> int:
        """Handle a first block that cannot be read; returns the number of bytes to skip."""
        if size % 4 or size <= there:
            self._stop(f"a block whose two lengths differ, the first is {size}")
        elif size > LONGEST_PACKET_BYTES:
            if kind in {ENHANCED_PACKET, SIMPLE_PACKET, OLD_PACKET, INTERFACE}:
                self._stop(f"a block of {size} bytes")
            else:
                return size
        else:
            self.needed_bytes = size
        return 0

    def _stop(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.ended = True

    # ---- blocks other than packets

    def _read_block(self, block: memoryview, kind: int) -> None:
        body = block[:-4]
        if kind == INTERFACE:
            self._add_interface(body)
        elif kind == DECRYPTION_SECRETS and len(body) >= 16:
            secrets_type, size = self._two_u32.unpack_from(body, 8)
            if secrets_type == MESSENGER_KEY_LOG:
                self._keep(self.secrets, body[16 : 16 + size])
        elif kind == NAMES:
            self._read_comments(body, self._end_of_names(body))
        if kind in _OPTIONS_AT:
            self._read_comments(body, _OPTIONS_AT[kind])

    def _add_interface(self, body: memoryview) -> None:
        if len(body) < 16 or len(self._interfaces) >= _MOST_INTERFACES:
            self._stop("an interface too many" if len(body) >= 16 else "an interface cut short")
            return
        link_type, _, snap_bytes = self._interface_struct.unpack_from(body, 8)
        resolution, offset_s = 6, 0
        for code, value in self._options(body, _OPTIONS_AT[INTERFACE]):
            if code == OPTION_TIME_RESOLUTION and len(value):
                resolution = value[0]
            elif code == OPTION_TIME_OFFSET and len(value) == 8:
                offset_s = self._i64.unpack(value)[0]
        sane = abs(offset_s) < 1 << 33
        self._interfaces.append(_Interface(link_type, snap_bytes, resolution, offset_s if sane else 0))

    def _options(self, body: memoryview, at: int) -> list[tuple[int, memoryview]]:
        found: list[tuple[int, memoryview]] = []
        while at + 4 <= len(body):
            code, size = self._two_u16.unpack_from(body, at)
            if code == OPTION_END or at + 4 + size > len(body):
                break
            found.append((code, body[at + 4 : at + 4 + size]))
            at += 4 + padded(size)
        return found

    def _end_of_names(self, body: memoryview) -> int:
        at = 8
        while at + 4 <= len(body):
            kind, size = self._two_u16.unpack_from(body, at)
            at += 4 + padded(size)
            if kind == 0:
                break
        return at

    def _read_comments(self, body: memoryview, at: int) -> None:
        for code, value in self._options(body, at):
            if code == OPTION_COMMENT:
                self._keep(self.notes, value)

    def _keep(self, texts: list[str], text: memoryview) -> None:
        self._kept_bytes += len(text) + 64
        if self._kept_bytes > _KEPT_BYTES:
            self.problem = self.problem or f"more than {_KEPT_BYTES >> 20} MiB of comments and secrets"
        else:
            texts.append(bytes(text).decode("utf-8", "replace"))

    # ---- packets

    def _packets(
        self,
        data: memoryview,
        first: int,
        at: Integers,
        kinds: Records,
        sizes: Integers,
        described: Integers,
    ) -> PacketBatch | None:
        """Return the packets in blocks; ``described`` counts the interfaces known before each block."""
        if not len(at):
            return None
        simple = kinds == SIMPLE_PACKET
        sound = sizes >= np.where(simple, 16, 32)
        heads = np.zeros(len(at), self._packet_layout)
        full = sound & ~simple
        heads[full] = records_at(data, at[full], self._packet_layout)
        interfaces = heads["interface"].astype(np.int64)
        old = full & (kinds == OLD_PACKET)
        if old.any():
            interfaces[old] = records_at(data, at[old] + 8, self._old_interface)
        captured = heads["captured"].astype(np.int64)
        original = heads["original"].astype(np.int64)
        room = sizes - _PACKET_DATA - 4
        if simple.any():
            brief = sound & simple
            original[brief] = records_at(data, at[brief] + 8, self._word_layout)
            room[simple] = sizes[simple] - _SIMPLE_DATA - 4
            snap = (self._interfaces[0].snap_bytes if self._interfaces else 0) or LONGEST_PACKET_BYTES
            captured[simple] = np.minimum(np.minimum(original[simple], room[simple]), snap)
        sound &= (captured <= room) & (interfaces < described)
        if not sound.all():
            self.problem = self.problem or f"packet {first + int(np.flatnonzero(~sound)[0])} is not well-formed"
            captured[~sound] = 0
            interfaces[~sound] = 0
        self._packet_comments(data, at, sizes, captured, full & sound)
        times_ns, link_types = self._times_and_links(heads, interfaces, simple | ~sound)
        offsets = at + np.where(simple, _SIMPLE_DATA, _PACKET_DATA)
        return PacketBatch(data, first, times_ns, offsets, captured, original, link_types)

    def _times_and_links(self, heads: Records, interfaces: Integers, timeless: Marks) -> tuple[Integers, Integers]:
        ticks = (heads["high"].astype(np.uint64) << np.uint64(32)) | heads["low"]
        if not self._interfaces:
            return np.full(len(heads), self._last_time_ns), np.full(len(heads), -1, np.int64)
        first = int(interfaces[0])
        if (interfaces == first).all():
            interface = self._interfaces[first]
            times_ns = interface.times_ns(ticks)
            link_types = np.full(len(heads), interface.link_type, np.int64)
        else:
            times_ns = np.empty(len(heads), np.int64)
            link_types = np.empty(len(heads), np.int64)
            for index in np.unique(interfaces).tolist():
                of_it = interfaces == index
                times_ns[of_it] = self._interfaces[index].times_ns(ticks[of_it])
                link_types[of_it] = self._interfaces[index].link_type
        if timeless.any():
            before = np.maximum.accumulate(np.where(timeless, -1, np.arange(len(heads))))
            times_ns = np.where(before < 0, self._last_time_ns, times_ns[before])
        self._last_time_ns = int(times_ns[-1])
        return times_ns, link_types

    def _packet_comments(
        self, data: memoryview, at: Integers, sizes: Integers, captured: Integers, which: Marks
    ) -> None:
        options = (at + _PACKET_DATA + padded(captured))[which]
        ends = (at + sizes - 4)[which]
        for _ in range(_MOST_OPTIONS):
            there = options + 4 <= ends
            if not there.any():
                return
            options, ends = options[there], ends[there]
            heads = records_at(data, options, self._option_layout)
            lengths = heads["size"].astype(np.int64)
            comments = (heads["code"] == OPTION_COMMENT) & (options + 4 + lengths <= ends)
            for index in np.flatnonzero(comments).tolist():
                start = int(options[index]) + 4
                self._keep(self.notes, data[start : start + int(lengths[index])])
            options = np.where(heads["code"] == OPTION_END, ends, options + 4 + padded(lengths))
