"""TCP segments of a batch of packets as columns, grouped by connection."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.capture.formats.packets import Integers, Marks, PacketBatch, Records, records_at
from toolkit.dissect.tcp.flow import SYN, Key
from toolkit.dissect.tcp.internet import Datagrams, Internet
from toolkit.dissect.tcp.network import network_layer
from toolkit.dissect.tcp.places import CUT_SHORT

_SMALLEST_HEADER = 20
_TCP = np.dtype(
    [
        ("source", ">u2"),
        ("target", ">u2"),
        ("sequence", ">u4"),
        ("acknowledged", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("rest", ">u4"),
    ]
)

Words = npt.NDArray[np.uint64]
_ADDRESS_SHIFT = np.uint64(16)


@dataclass(slots=True, eq=False)
class Segments:
    """Segments in the order of their packets; all columns have the same length."""

    rows: Integers
    """Indexes of their packets in the batch."""
    pairs: Integers
    """Indexes of their two endpoints in ``keys``."""
    sides: Integers
    """0 from the first endpoint of the key to the second, 1 back."""
    sequences: Integers
    """Sequence number of the first byte of the payload (a SYN counts as a byte before it)."""
    acknowledged: Integers
    flags: Integers
    starts: Integers
    """Offset in the data where the payload begins."""
    sizes: Integers
    """Size of the payload on the wire."""
    present: Integers
    """Number of bytes of the payload that were captured."""
    windows: Records
    """Window as in the header, not scaled."""
    ttls: Records
    identifications: Records
    keys: list[Key] = field(default_factory=list)
    """Pairs of endpoints."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def headers(self) -> tuple[Records, ...]:
        """The header columns, in the order of the fields of a packet that is read by itself."""
        of_tcp = self.sides, self.flags, self.sequences, self.acknowledged, self.sizes, self.windows
        return *of_tcp, self.ttls, self.identifications


def read_segments(
    batch: PacketBatch, internet: Internet, ports: Integers | None, skipped: Counter[str]
) -> tuple[memoryview, Segments | None, dict[int, Datagrams]]:
    """Return the TCP segments of a batch, and its RoCE datagrams.

    Args:
        batch: the packets.
        internet: state of IP: fragments that wait for others, and ports of tunnels.
        ports: ports of which one must be at either end; None: any port.
        skipped: counts packets that cannot be read, by reason.

    Returns:
        The data with the payloads (the batch's, followed by the reassembled packets), the segments, and the
        datagrams with RoCE by version of IP.
    """
    data, carried, roce = internet.datagrams(batch.data, network_layer(batch, skipped))
    every = [_segments(data, datagrams, version, ports, skipped) for version, datagrams in carried.items()]
    found = [segments for segments in every if len(segments)]
    if not found:
        return data, None, roce
    return data, found[0] if len(found) == 1 else _merged(*found), roce


def _segments(
    data: memoryview, carried: Datagrams, version: int, ports: Integers | None, skipped: Counter[str]
) -> Segments:
    whole = carried.starts + _SMALLEST_HEADER <= np.minimum(carried.ends, carried.captured_ends)
    if not whole.all():
        skipped[CUT_SHORT] += int(np.count_nonzero(~whole))
        carried = carried.where(whole)
    heads = records_at(data, carried.starts, _TCP)
    header_sizes = (heads["offset"] >> 4).astype(np.int64) * 4
    kept = (header_sizes >= _SMALLEST_HEADER) & (carried.starts + header_sizes <= carried.ends)
    if ports is not None:
        kept &= np.isin(heads["source"], ports) | np.isin(heads["target"], ports)
    if not kept.all():
        carried, heads, header_sizes = carried.where(kept), heads[kept], header_sizes[kept]
    starts = carried.starts + header_sizes
    pairs, sides, keys = _connections(
        _endpoints(version, carried.sources, heads["source"]),
        _endpoints(version, carried.targets, heads["target"]),
    )
    flags = heads["flags"].astype(np.int64)
    return Segments(
        carried.rows,
        pairs,
        sides,
        heads["sequence"].astype(np.int64) + (flags & SYN != 0),
        heads["acknowledged"].astype(np.int64),
        flags,
        starts,
        carried.ends - starts,
        np.maximum(np.minimum(carried.ends, carried.captured_ends) - starts, 0),
        heads["window"],
        carried.ttls,
        carried.identifications,
        keys,
    )


def _merged(one: Segments, other: Segments) -> Segments:
    order = np.argsort(np.concatenate([one.rows, other.rows]), kind="stable")
    columns = {
        column.name: np.concatenate([getattr(one, column.name), getattr(other, column.name)])[order]
        for column in fields(Segments)
        if column.name not in {"pairs", "keys"}
    }
    pairs = np.concatenate([one.pairs, other.pairs + len(one.keys)])[order]
    return Segments(pairs=pairs, keys=one.keys + other.keys, **columns)


def _endpoints(version: int, addresses: tuple[Words, ...], ports: npt.NDArray[Any]) -> tuple[Words, ...]:
    if version == 4:
        return (addresses[0] << _ADDRESS_SHIFT | ports,)
    return (*addresses, ports.astype(np.uint64))


# ---- connections

_FACTORS = [np.uint64(factor | 1) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]
_SHIFT = np.uint64(29)


def _mixed(words: tuple[Words, ...]) -> Words:
    total = np.zeros(len(words[0]), np.uint64)
    for word, factor in zip(words, _FACTORS, strict=False):
        total += word * factor
        total ^= total >> _SHIFT
    return total * _FACTORS[1]


def _connections(sources: tuple[Words, ...], targets: tuple[Words, ...]) -> tuple[Integers, Integers, list[Key]]:
    """Group segments by their two endpoints: pairs, sides and keys as in :class:`Segments`."""
    mixed = _mixed(sources) + _mixed(targets)
    _, firsts, pairs = np.unique(mixed, return_index=True, return_inverse=True)
    like_first = firsts[pairs]
    forth = _equal(sources, sources, like_first) & _equal(targets, targets, like_first)
    back = _equal(sources, targets, like_first) & _equal(targets, sources, like_first)
    if not (forth | back).all():  # different endpoints have the same hash
        firsts, pairs, forth = _connections_one_by_one(sources, targets)
    keys, turned = [], np.zeros(len(firsts), np.bool_)
    ends = zip(_rows(sources, firsts), _rows(targets, firsts), strict=True)
    for index, (source, target) in enumerate(ends):
        turned[index] = source > target
        keys.append((target, source) if source > target else (source, target))
    return pairs, (~forth ^ turned[pairs]).astype(np.int64), keys


def _rows(words: tuple[Words, ...], rows: Integers) -> Iterable[tuple[int, ...]]:
    return zip(*(word[rows].tolist() for word in words), strict=True)


def _equal(words: tuple[Words, ...], others: tuple[Words, ...], rows: Integers) -> Marks:
    equal: Marks = words[0] == others[0][rows]
    for word, other in zip(words[1:], others[1:], strict=True):
        equal &= word == other[rows]
    return equal


def _connections_one_by_one(
    sources: tuple[Words, ...], targets: tuple[Words, ...]
) -> tuple[Integers, Integers, Marks]:
    """First segment of each pair, the pair of each segment, and whether it has the direction of the first."""
    known: dict[frozenset[tuple[int, ...]], int] = {}
    every = np.arange(len(sources[0]))
    ends = list(zip(_rows(sources, every), _rows(targets, every), strict=True))
    pairs = [known.setdefault(frozenset(both), len(known)) for both in ends]
    firsts = np.unique(pairs, return_index=True)[1]
    forth = [source == ends[firsts[pair]][0] for (source, _), pair in zip(ends, pairs, strict=True)]
    return firsts, np.array(pairs, np.int64), np.array(forth, np.bool_)
