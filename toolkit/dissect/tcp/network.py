"""Where the network layer begins in each packet, by link type: whole columns at a time."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from toolkit.capture.formats.packets import Integers, LinkType, Marks, PacketBatch, records_at

_U16 = np.dtype(">u2")
_BYTE = np.dtype("u1")
_VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
_VLAN_TAG_SIZE = 4
_MOST_TAGS = 8
_IP_TYPES = (0x0800, 0x86DD)

_ETHERTYPE_AT = {LinkType.ETHERNET: 12, LinkType.LINUX_SLL: 14}
"""Link types with an ethertype right before the network layer, and where it is."""
_NETWORK_AT = {
    LinkType.NULL: 4,
    LinkType.LOOP: 4,
    LinkType.RAW: 0,
    LinkType.RAW_BSD: 0,
    LinkType.RAW_OPENBSD: 0,
    LinkType.IPV4: 0,
    LinkType.IPV6: 0,
}
"""Link types whose network layer begins at a fixed place; its first byte has the version."""
_SLL2_SIZE = 20


def network_offsets(batch: PacketBatch, skipped: Counter[str]) -> tuple[Integers, Integers]:
    """Offset in the data of each packet's network layer, and its IP version; version 0 where there is none.

    Args:
        batch: the packets.
        skipped: packets that cannot be read are counted there, by reason.
    """
    first = int(batch.link_types[0])
    if (batch.link_types == first).all():
        at = _offsets_of(first)(batch, batch.offsets, batch.captured_bytes, skipped)
    else:
        at = np.full(len(batch), -1, np.int64)
        for link_type in np.unique(batch.link_types).tolist():
            rows = np.flatnonzero(batch.link_types == link_type)
            at[rows] = _offsets_of(link_type)(batch, batch.offsets[rows], batch.captured_bytes[rows], skipped)
    versions = np.zeros(len(batch), np.int64)
    there = np.flatnonzero((at >= 0) & (at < batch.offsets + batch.captured_bytes))
    versions[there] = records_at(batch.data, at[there], _BYTE) >> 4
    return at, versions


Finder = Callable[[PacketBatch, Integers, Integers, Counter[str]], Integers]


def _offsets_of(link_type: int) -> Finder:
    if link_type in _ETHERTYPE_AT:
        type_at = _ETHERTYPE_AT[LinkType(link_type)]
        return lambda batch, offsets, sizes, _: _behind_tags(batch, offsets + type_at, offsets + sizes)
    if link_type == LinkType.LINUX_SLL2:
        return _behind_sll2
    if link_type in _NETWORK_AT:
        size = _NETWORK_AT[LinkType(link_type)]
        return lambda _batch, offsets, _sizes, _: offsets + size

    def unknown(_batch: PacketBatch, offsets: Integers, _sizes: Integers, skipped: Counter[str]) -> Integers:
        skipped[f"link type {link_type} is not known"] += len(offsets)
        return np.full(len(offsets), -1, np.int64)

    return unknown


def _behind_sll2(batch: PacketBatch, offsets: Integers, sizes: Integers, _skipped: Counter[str]) -> Integers:
    """The ethertype comes first; VLAN tags stand behind the header of 20 bytes."""
    at = np.full(len(offsets), -1, np.int64)
    whole = np.flatnonzero(sizes >= _SLL2_SIZE)
    types = records_at(batch.data, offsets[whole], _U16)
    at[whole[np.isin(types, _IP_TYPES)]] = offsets[whole[np.isin(types, _IP_TYPES)]] + _SLL2_SIZE
    tagged = whole[np.isin(types, _VLAN_TYPES)]
    if len(tagged):
        at[tagged] = _behind_tags(batch, offsets[tagged] + _SLL2_SIZE + 2, (offsets + sizes)[tagged])
    return at


def _behind_tags(batch: PacketBatch, type_at: Integers, ends: Integers) -> Integers:
    """Follow VLAN tags from ethertype to ethertype; -1 where no IP comes of it."""
    type_at = type_at.copy()
    found = np.full(len(type_at), -1, np.int64)
    rows = np.flatnonzero(type_at + 2 <= ends)
    for _ in range(_MOST_TAGS):
        types = records_at(batch.data, type_at[rows], _U16)
        is_ip: Marks = (types == _IP_TYPES[0]) | (types == _IP_TYPES[1])
        found[rows[is_ip]] = type_at[rows[is_ip]] + 2
        if is_ip.all():
            break
        rows = rows[np.isin(types, _VLAN_TYPES)]
        type_at[rows] += _VLAN_TAG_SIZE
        rows = rows[type_at[rows] + 2 <= ends[rows]]
    return found
