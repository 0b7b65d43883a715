"""Finds the network layer in each packet, by link type, in whole columns."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from toolkit.capture.formats.blocks import LinkType
from toolkit.capture.formats.packets import Integers, PacketBatch, records_at
from toolkit.dissect.tcp.ethertypes import ip_packets
from toolkit.dissect.tcp.places import Layer, Places, joined

_U16 = np.dtype(">u2")
_BYTE = np.dtype("u1")

_ETHERTYPE_AT = {LinkType.ETHERNET: (12, 14), LinkType.LINUX_SLL: (14, 16), LinkType.LINUX_SLL2: (0, 20)}
"""Link types with an ethertype: its offset, and the length of the header."""
_NETWORK_AT = {
    LinkType.NULL: 4,
    LinkType.LOOP: 4,
    LinkType.RAW: 0,
    LinkType.RAW_BSD: 0,
    LinkType.RAW_OPENBSD: 0,
    LinkType.IPV4: 0,
    LinkType.IPV6: 0,
}
"""Link types whose network layer begins at a fixed offset; its first byte has the version."""


def network_layer(batch: PacketBatch, skipped: Counter[str]) -> Places:
    """Return the IP packets of a batch, without those that other IP packets carry.

    Args:
        batch: the packets.
        skipped: counts packets that cannot be read, by reason.
    """
    everything = Places(
        np.arange(len(batch)),
        batch.offsets,
        batch.offsets + batch.captured_bytes,
        batch.offsets + np.maximum(batch.original_bytes, batch.captured_bytes),
    )
    first = int(batch.link_types[0])
    if (batch.link_types == first).all():
        return _behind_link(first, batch.data, everything, skipped)
    parts = [
        _behind_link(link_type, batch.data, everything.where(batch.link_types == link_type), skipped)
        for link_type in np.unique(batch.link_types).tolist()
    ]
    return joined(parts)


def _behind_link(link_type: int, data: memoryview, packets: Places, skipped: Counter[str]) -> Places:
    if link_type in _NETWORK_AT:
        return packets.beyond(_NETWORK_AT[LinkType(link_type)])
    if link_type in _ETHERTYPE_AT:
        type_at, size = _ETHERTYPE_AT[LinkType(link_type)]
        packets = packets.holding(size)
        types = records_at(data, packets.at + type_at, _U16)
        return ip_packets(data, Layer.of(types, packets.beyond(size)), skipped)
    skipped[f"link type {link_type} is not known"] += len(packets)
    return packets.where(slice(0))


def by_version(data: memoryview, packets: Places) -> Iterator[tuple[int, Places]]:
    """Yield the IP packets of each version, by the first bits of their header."""
    packets = packets.holding(1)
    versions: Integers = records_at(data, packets.at, _BYTE) >> 4
    for version in (4, 6):
        marks = versions == version
        if marks.any():
            yield version, packets if marks.all() else packets.where(marks)
