"""IPv4 and IPv6: finds the datagrams with TCP or RoCE, their addresses, and their offsets in the data."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.capture.formats.packets import Integers, Marks, Records, records_at
from toolkit.dissect.tcp.carriers import REASSEMBLED, UDP, Carriers
from toolkit.dissect.tcp.ethertypes import ip_packets
from toolkit.dissect.tcp.fragments import Fragments
from toolkit.dissect.tcp.network import by_version
from toolkit.dissect.tcp.places import Layer, Places, in_line, joined

_TCP = 6
ROCE_PORT = 4791
"""UDP port of RoCEv2."""
UDP_HEADER_BYTES = 8
_UDP_TARGET = 2
_U16 = np.dtype(">u2")
_MOST_NESTED = 8
"""Limit of nested layers of IP."""
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
    """Datagrams with TCP or RoCE; all columns have the same length."""

    rows: Integers
    """Indexes of their packets in the batch (of the packet of the last fragment)."""
    sources: tuple[Words, ...]
    targets: tuple[Words, ...]
    starts: Integers
    """Offset in the data where TCP or UDP begins."""
    ends: Integers
    """Offset where it ends, or would end if the packet had been captured in full."""
    captured_ends: Integers
    """Offset where the captured bytes of the packet end."""
    ttls: Records
    """Time to live, or hop limit."""
    identifications: Records
    """IP id; 0 on IPv6."""

    def where(self, marks: Marks) -> "Datagrams":
        """Return the marked ones."""
        return Datagrams(
            self.rows[marks],
            tuple(word[marks] for word in self.sources),
            tuple(word[marks] for word in self.targets),
            self.starts[marks],
            self.ends[marks],
            self.captured_ends[marks],
            self.ttls[marks],
            self.identifications[marks],
        )


def _all_of(parts: list[Datagrams]) -> Datagrams:
    """Datagrams of one version, in the order of the capture."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.rows for part in parts]), kind="stable")

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    def words(name: str) -> tuple[Words, ...]:
        pieces = zip(*(getattr(part, name) for part in parts), strict=True)
        return tuple(np.concatenate(list(word))[order] for word in pieces)

    numbers = [column(name) for name in ("starts", "ends", "captured_ends", "ttls", "identifications")]
    return Datagrams(column("rows"), words("sources"), words("targets"), *numbers)


class Internet:
    """Finds TCP and RoCE in IP packets, also in those that other packets carry.

    Args:
        skipped: counts packets that cannot be read, by reason.
        vxlan_ports: further UDP ports that may be VXLAN.
    """

    def __init__(self, skipped: Counter[str], vxlan_ports: Collection[int] = ()) -> None:
        self._skipped = skipped
        self._fragments = Fragments(skipped)
        self._carriers = Carriers(vxlan_ports)

    def datagrams(
        self, data: memoryview, packets: Places
    ) -> tuple[memoryview, dict[int, Datagrams], dict[int, Datagrams]]:
        """Return the data, its datagrams with TCP, and those with RoCE, both by version of IP.

        Args:
            data: data of a batch.
            packets: the IP packets in it.
        """
        found: dict[int, list[Datagrams]] = {}
        roce: dict[int, list[Datagrams]] = {}
        for _ in range(_MOST_NESTED):
            contents: list[Layer] = []
            for version, here in by_version(data, packets):
                read = _datagrams_v4 if version == 4 else _datagrams_v6
                data, carried, datagrams, others = read(data, here, self._fragments)
                found.setdefault(version, []).append(carried)
                if others is not None:
                    roce.setdefault(version, []).append(_to_roce(data, datagrams.where(others.types == UDP)))
                    others = others.where(others.types != _TCP)
                    contents += self._carriers.contents(data, others, self._skipped)
            if not contents:
                break
            packets = ip_packets(data, Layer.of(*in_line(contents)), self._skipped)
        else:
            self._skipped[f"inside more than {_MOST_NESTED} layers of IP"] += len(packets)
        tcp = {version: _all_of(parts) for version, parts in found.items()}
        return data, tcp, {version: _all_of(parts) for version, parts in roce.items()}

    def finish(self) -> None:
        """Count the fragments that wait for others."""
        self._fragments.finish()


class _Rebuilt:
    """Packets made of fragments, placed after the data of the batch."""

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

    def joined_with(self, packets: Places) -> Places:
        """Return these packets and the rebuilt ones, in the order of the capture."""
        rows, at, ends = (np.array(column, np.int64) for column in (self.rows, self._at, self._ends))
        return joined([packets, Places(rows, at, ends, ends)])


def _contents(places: Places, protocols: npt.NDArray[Any], starts: Integers, ends: Integers) -> Layer:
    """Contents of packets, including TCP; the types are IP protocols."""
    return Layer.of(protocols, Places(places.rows, starts, np.minimum(places.captured_ends, ends), ends))


def _to_roce(data: memoryview, datagrams: Datagrams) -> Datagrams:
    """The UDP datagrams to the port of RoCE."""
    stops = np.minimum(datagrams.ends, datagrams.captured_ends)
    datagrams = datagrams.where(datagrams.starts + UDP_HEADER_BYTES <= stops)
    return datagrams.where(records_at(data, datagrams.starts + _UDP_TARGET, _U16) == ROCE_PORT)


def _datagrams_v4(
    data: memoryview, packets: Places, fragments: Fragments
) -> tuple[memoryview, Datagrams, Datagrams, Layer | None]:
    """Return the data, the IPv4 datagrams with TCP, all datagrams, and contents other than TCP."""
    packets = packets.holding(_V4_HEADER_SIZE)
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
    # no size: too long for the field, the network card splits it later
    ends = np.where(sizes == 0, packets.wire_ends, packets.at + sizes)
    found = Datagrams(
        packets.rows,
        (heads["source"].astype(np.uint64),),
        (heads["target"].astype(np.uint64),),
        starts,
        ends,
        packets.captured_ends,
        heads["ttl"],
        heads["identification"],
    )
    is_tcp = heads["protocol"] == _TCP
    others = None if is_tcp.all() else _contents(packets, heads["protocol"], starts, ends)
    ours = is_tcp & (header_sizes >= _V4_HEADER_SIZE) & (starts <= ends)
    return data, found if ours.all() else found.where(ours), found, others


def _rebuild_v4(data: memoryview, packets: Places, heads: Records, fragments: Fragments) -> _Rebuilt:
    rebuilt = _Rebuilt(data)
    for index, head in enumerate(heads):
        if int(head["protocol"]) not in REASSEMBLED:
            continue
        start = int(packets.at[index])
        begin, end = start + 4 * (int(head["version"]) & 15), start + int(head["size"])
        if not start + _V4_HEADER_SIZE <= begin <= end <= int(packets.captured_ends[index]):
            fragments.refuse()
            continue
        key = (*(int(head[name]) for name in ("source", "target", "identification", "protocol")),)
        flags = int(head["fragment"])
        payload = fragments.add(key, 8 * (flags & _V4_OFFSET), bytes(data[begin:end]), more=bool(flags & _V4_MORE))
        if payload is not None:
            whole = heads[index : index + 1].copy()
            whole["version"], whole["fragment"] = 0x45, 0
            size = _V4_HEADER_SIZE + len(payload)
            whole["size"] = size if size <= 0xFFFF else 0
            rebuilt.add(int(packets.rows[index]), whole.tobytes() + payload)
    return rebuilt


def _datagrams_v6(
    data: memoryview, packets: Places, fragments: Fragments
) -> tuple[memoryview, Datagrams, Datagrams, Layer | None]:
    """Return the data, the IPv6 datagrams with TCP, all datagrams, and contents other than TCP."""
    packets = packets.holding(_V6_HEADER_SIZE)
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
        heads["limit"],
        np.zeros(len(heads), np.uint16),
    )
    is_tcp = kinds == _TCP
    others = None if is_tcp.all() else _contents(packets, kinds, starts, ends)
    ours = is_tcp & (starts <= ends)
    return data, found if ours.all() else found.where(ours), found, others


def _ends_v6(packets: Places, heads: Records) -> Integers:
    sizes = heads["size"].astype(np.int64)
    # no size: a jumbogram, as Linux makes of large sends
    ends: Integers = np.where(sizes == 0, packets.wire_ends, packets.at + _V6_HEADER_SIZE + sizes)
    return ends


def _behind_extensions(data: memoryview, packets: Places, heads: Records) -> tuple[Integers, Integers]:
    """Protocol of each packet and offset of its payload; FRAGMENT if a fragment header comes first."""
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


def _rebuild_v6(data: memoryview, packets: Places, starts: Integers, fragments: Fragments) -> _Rebuilt:
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
