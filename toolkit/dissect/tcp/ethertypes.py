"""Finds IP after an ethertype: VLAN tags, MPLS, PPPoE, and nested Ethernet frames, in any order."""

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from toolkit.capture.formats.packets import records_at
from toolkit.dissect.tcp.places import Layer, Places, in_line, joined

IPV4, IPV6 = 0x0800, 0x86DD
ETHERNET = 0x6558
"""Transparent Ethernet bridging: an Ethernet frame follows."""
MPLS, _MPLS_MULTICAST = 0x8847, 0x8848
ERSPAN = 0x88BE
_ERSPAN_3 = 0x22EB
_PBB = 0x88E7
_PPPOE = 0x8864
_NOTHING = 0
"""No ethertype: the contents cannot be read."""

_MOST_HEADERS = 16
"""Limit of headers between two layers of IP; the labels of one stack count as one."""
_MOST_LABELS = 32
_NOT_READ = {0x88E5: "MACsec"}
_PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS}

_U16, _U32, _BYTE = np.dtype(">u2"), np.dtype(">u4"), np.dtype("u1")
_BOTTOM_OF_STACK = 0x100


def ip_packets(data: memoryview, layer: Layer, skipped: Counter[str]) -> Places:
    """Return the IP packets inside contents of any ethertype.

    Args:
        data: bytes with the contents.
        layer: the contents.
        skipped: counts carriers that cannot be read, by reason.
    """
    found: list[Places] = []
    for _ in range(_MOST_HEADERS):
        is_ip = (layer.types == IPV4) | (layer.types == IPV6)
        if is_ip.all():
            found.append(layer)
            break
        found.append(layer.where(is_ip))
        others = layer.where(~is_ip)
        behind = [
            step(data, others.where(others.types == ethertype), skipped)
            for ethertype, step in _STEPS.items()
            if (others.types == ethertype).any()
        ]
        for ethertype, name in _NOT_READ.items():
            skipped[f"inside {name}, which is not read"] += int(np.count_nonzero(others.types == ethertype))
        if not behind:
            break
        layer = Layer.of(*in_line(behind))
    else:
        skipped[f"behind more than {_MOST_HEADERS} headers"] += len(layer)
    return joined(found)


def _header(size: int, type_at: int) -> Callable[[memoryview, Places, Counter[str]], Layer]:
    """Return a reader of a header of fixed size that contains the next ethertype."""

    def step(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
        places = places.holding(size, skipped)
        return Layer.of(records_at(data, places.at + type_at, _U16), places.beyond(size))

    return step


def _pppoe(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """RFC 2516: version and type, code, session, length; then the protocol number of PPP."""
    places = places.holding(8, skipped)
    protocols = records_at(data, places.at + 6, _U16)
    types = np.full(len(places), _NOTHING, np.int64)
    for protocol, ethertype in _PPP_PROTOCOLS.items():
        types[protocols == protocol] = ethertype
    return Layer.of(types, places.beyond(8))


def _mpls(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """A stack of labels (RFC 3032); the first bits after it show the content (RFC 4928, RFC 4448)."""
    places, bottoms = places.holding(4, skipped), []
    for _ in range(_MOST_LABELS):
        last = (records_at(data, places.at, _U32) & _BOTTOM_OF_STACK) != 0
        bottoms.append(places.where(last).beyond(4))
        places = places.where(~last).beyond(4).holding(4, skipped)
        if not len(places):
            break
    else:
        skipped[f"behind more than {_MOST_LABELS} labels of MPLS"] += len(places)
    inside = joined(bottoms).holding(4, skipped)
    kinds = records_at(data, inside.at, _BYTE) >> 4
    types = np.select([kinds == 4, kinds == 6, kinds == 0], [IPV4, IPV6, ETHERNET], _NOTHING)
    if unknown := int(np.count_nonzero(types == _NOTHING)):
        skipped["inside MPLS, and neither IP nor Ethernet behind a control word"] += unknown
    return Layer.of(types, inside.beyond(np.where(types == ETHERNET, 4, 0)))


def _erspan_2(_data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    places = places.holding(8, skipped).beyond(8)
    return Layer.of(np.full(len(places), ETHERNET), places)


def _erspan_3(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """ERSPAN type III; the last bit of the header announces 8 more bytes."""
    places = places.holding(12, skipped)
    more = records_at(data, places.at + 11, _BYTE) & 1
    return Layer.of(np.full(len(places), ETHERNET), places.beyond(12 + 8 * more.astype(np.int64)))


_vlan = _header(4, 2)
_STEPS: Mapping[int, Callable[[memoryview, Places, Counter[str]], Layer]] = {
    0x8100: _vlan,
    0x88A8: _vlan,
    0x9100: _vlan,
    ETHERNET: _header(14, 12),
    _PBB: _header(18, 16),
    _PPPOE: _pppoe,
    MPLS: _mpls,
    _MPLS_MULTICAST: _mpls,
    ERSPAN: _erspan_2,
    _ERSPAN_3: _erspan_3,
}
"""By ethertype other than IP, the reader of what follows."""
