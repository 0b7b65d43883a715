"""IPv4 and IPv6: whose packets carry TCP, between which addresses, and from where to where in the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.capture.formats.packets import Integers, Marks, PacketBatch, Records, records_at
from toolkit.dissect.tcp.fragments import Fragments

_TCP = 6
_V4_HEADER_SIZE = 20
_V4 = np.dtype(
    [
        ("version", "u1"),
        ("service", "u1"),
        ("size", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("target", ">u4"),
    ]
)
_V4_MORE = 0x2000
_V4_OFFSET = 0x1FFF

_V6_HEADER_SIZE = 40
_V6 = np.dtype(
    [
        ("flow", ">u4"),
        ("size", ">u2"),
        ("next", "u1"),
        ("limit", "u1"),
        ("source", ">u8", 2),
        ("target", ">u8", 2),
    ]
)
_EXTENSION = np.dtype([("next", "u1"), ("size", "u1"), ("offset", ">u2"), ("identification", ">u4")])
_EXTENSION_UNIT = 8
_FRAGMENT = 44
_AUTHENTICATION = 51
_EXTENSIONS = (0, 43, 60, 135, 139, 140, _AUTHENTICATION)
"""Hop-by-hop options, routing, destination options, mobility, HIP, shim6, authentication."""
_MOST_EXTENSIONS = 8

Words = npt.NDArray[np.uint64]


@dataclass(slots=True, eq=False)
class Datagrams:
    """Datagrams that carry TCP; all columns are of the same length."""

    rows: Integers
    """Which packets of the batch they are (that of the last fragment)."""
    sources: tuple[Words, ...]
    targets: tuple[Words, ...]
    starts: Integers
    """Where in the data TCP begins."""
    ends: Integers
    """Where it ends, or would end if everything had been captured."""
    captured_ends: Integers
    """Where the captured bytes of the packet end."""

    def where(self, marks: Marks) -> "Datagrams":
        """Those that are marked."""
        return Datagrams(
            self.rows[marks],
            tuple(word[marks] for word in self.sources),
            tuple(word[marks] for word in self.targets),
            self.starts[marks],
            self.ends[marks],
            self.captured_ends[marks],
        )


@dataclass(slots=True, eq=False)
class _Packets:
    """Where packets of one IP version are."""

    rows: Integers
    at: Integers
    captured_ends: Integers
    wire_ends: Integers

    def where(self, marks: Any) -> "_Packets":  # noqa: ANN401 - a mask, or indices
        return _Packets(self.rows[marks], self.at[marks], self.captured_ends[marks], self.wire_ends[marks])


def _packets(batch: PacketBatch, rows: Integers, at: Integers, header_size: int) -> _Packets:
    packets = _Packets(
        rows,
        at,
        (batch.offsets + batch.captured_bytes)[rows],
        (batch.offsets + np.maximum(batch.original_bytes, batch.captured_bytes))[rows],
    )
    whole = packets.at + header_size <= packets.captured_ends
    return packets if whole.all() else packets.where(whole)


class _Rebuilt:
    """Packets made of fragments, which stand behind the data of the batch."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = len(data)
        self._pieces: list[bytes] = []
        self.rows: list[int] = []
        self._at: list[int] = []
        self._ends: list[int] = []

    def add(self, row: int, packet: bytes) -> None:
        self._pieces.append(packet)
        self.rows.append(row)
        self._at.append(self._position)
        self._position += len(packet)
        self._ends.append(self._position)

    def data(self) -> memoryview:
        return memoryview(b"".join([self._data, *self._pieces]))

    def joined_with(self, packets: _Packets) -> _Packets:
        """These packets and the rebuilt ones, in the order of the capture."""
        ends = np.concatenate([packets.captured_ends, np.array(self._ends, np.int64)])
        merged = _Packets(
            np.concatenate([packets.rows, np.array(self.rows, np.int64)]),
            np.concatenate([packets.at, np.array(self._at, np.int64)]),
            ends,
            np.concatenate([packets.wire_ends, np.array(self._ends, np.int64)]),
        )
        return merged.where(np.argsort(merged.rows, kind="stable"))


def datagrams_v4(
    data: memoryview, batch: PacketBatch, rows: Integers, at: Integers, fragments: Fragments
) -> tuple[memoryview, Datagrams]:
    """The IPv4 datagrams among packets, and the data that they are in."""
    packets = _packets(batch, rows, at, _V4_HEADER_SIZE)
    heads = records_at(data, packets.at, _V4)
    fragmented = (heads["fragment"] & (_V4_MORE | _V4_OFFSET)) != 0
    if fragmented.any():
        rebuilt = _rebuild_v4(data, packets.where(fragmented), heads[fragmented], fragments)
        packets = packets.where(~fragmented)
        if rebuilt.rows:
            data, packets = rebuilt.data(), rebuilt.joined_with(packets)
        heads = records_at(data, packets.at, _V4)
    header_sizes = (heads["version"] & 15).astype(np.int64) * 4
    starts = packets.at + header_sizes
    sizes = heads["size"].astype(np.int64)
    # without a size: segmented by the network card later, and too long for the field
    ends = np.where(sizes == 0, packets.wire_ends, packets.at + sizes)
    found = Datagrams(
        packets.rows,
        (heads["source"].astype(np.uint64),),
        (heads["target"].astype(np.uint64),),
        starts,
        ends,
        packets.captured_ends,
    )
    ours = (heads["protocol"] == _TCP) & (header_sizes >= _V4_HEADER_SIZE) & (starts <= ends)
    return data, found if ours.all() else found.where(ours)


def _rebuild_v4(data: memoryview, packets: _Packets, heads: Records, fragments: Fragments) -> _Rebuilt:
    rebuilt = _Rebuilt(data)
    for index in np.flatnonzero(heads["protocol"] == _TCP).tolist():
        head = heads[index]
        start = int(packets.at[index])
        begin, end = start + 4 * (int(head["version"]) & 15), start + int(head["size"])
        if not start + _V4_HEADER_SIZE <= begin <= end <= int(packets.captured_ends[index]):
            continue
        key = (int(head["source"]), int(head["target"]), int(head["identification"]))
        flags = int(head["fragment"])
        payload = fragments.add(key, 8 * (flags & _V4_OFFSET), bytes(data[begin:end]), more=bool(flags & _V4_MORE))
        if payload is not None:
            whole = heads[index : index + 1].copy()
            whole["version"], whole["fragment"] = 0x45, 0
            size = _V4_HEADER_SIZE + len(payload)
            whole["size"] = size if size <= 0xFFFF else 0
            rebuilt.add(int(packets.rows[index]), whole.tobytes() + payload)
    return rebuilt


def datagrams_v6(
    data: memoryview, batch: PacketBatch, rows: Integers, at: Integers, fragments: Fragments
) -> tuple[memoryview, Datagrams]:
    """The IPv6 datagrams among packets, and the data that they are in."""
    packets = _packets(batch, rows, at, _V6_HEADER_SIZE)
    heads = records_at(data, packets.at, _V6)
    kinds, starts = _behind_extensions(data, packets, heads)
    fragmented = kinds == _FRAGMENT
    if fragmented.any():
        rebuilt = _rebuild_v6(data, packets.where(fragmented), starts[fragmented], fragments)
        packets = packets.where(~fragmented)
        if rebuilt.rows:
            data, packets = rebuilt.data(), rebuilt.joined_with(packets)
        heads = records_at(data, packets.at, _V6)
        kinds, starts = _behind_extensions(data, packets, heads)
    ends = _ends_v6(packets, heads)
    source, target = heads["source"].astype(np.uint64), heads["target"].astype(np.uint64)
    found = Datagrams(
        packets.rows,
        (source[:, 0], source[:, 1]),
        (target[:, 0], target[:, 1]),
        starts,
        ends,
        packets.captured_ends,
    )
    ours = (kinds == _TCP) & (starts <= ends)
    return data, found if ours.all() else found.where(ours)


def _ends_v6(packets: _Packets, heads: Records) -> Integers:
    sizes = heads["size"].astype(np.int64)
    # without a size: a jumbogram, as Linux makes them of large sends
    ends: Integers = np.where(sizes == 0, packets.wire_ends, packets.at + _V6_HEADER_SIZE + sizes)
    return ends


def _behind_extensions(data: memoryview, packets: _Packets, heads: Records) -> tuple[Integers, Integers]:
    """Protocol of each packet, and where it begins; FRAGMENT where a fragment header does."""
    kinds = heads["next"].astype(np.int64)
    starts = packets.at + _V6_HEADER_SIZE
    for _ in range(_MOST_EXTENSIONS):
        rows = np.flatnonzero(np.isin(kinds, _EXTENSIONS))
        if not len(rows):
            break
        there = starts[rows] + _EXTENSION_UNIT <= packets.captured_ends[rows]
        kinds[rows[~there]] = -1
        rows = rows[there]
        extensions = records_at(data, starts[rows], _EXTENSION)
        sizes = extensions["size"].astype(np.int64)
        lengths = np.where(kinds[rows] == _AUTHENTICATION, (sizes + 2) * 4, (sizes + 1) * _EXTENSION_UNIT)
        kinds[rows] = extensions["next"]
        starts[rows] += lengths
    return kinds, starts


def _rebuild_v6(data: memoryview, packets: _Packets, starts: Integers, fragments: Fragments) -> _Rebuilt:
    rebuilt = _Rebuilt(data)
    heads = records_at(data, packets.at, _V6)
    ends = _ends_v6(packets, heads)
    for index in np.flatnonzero((starts + _EXTENSION_UNIT <= ends) & (ends <= packets.captured_ends)).tolist():
        begin = int(starts[index])
        extension = records_at(data, starts[index : index + 1], _EXTENSION)[0]
        place = int(extension["offset"])
        head = heads[index : index + 1].copy()
        key = (head["source"].tobytes(), head["target"].tobytes(), int(extension["identification"]))
        payload = bytes(data[begin + _EXTENSION_UNIT : int(ends[index])])
        whole = fragments.add(key, place & ~7, payload, more=bool(place & 1))
        if whole is not None and len(whole) <= 0xFFFF:
            head["next"], head["size"] = extension["next"], len(whole)
            rebuilt.add(int(packets.rows[index]), head.tobytes() + whole)
    return rebuilt
