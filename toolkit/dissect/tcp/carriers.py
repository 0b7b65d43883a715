"""IP packets that carry other packets: IP in IP, GRE, and tunnels over UDP."""

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.capture.formats.packets import Marks, records_at
from toolkit.dissect.tcp.ethertypes import ERSPAN, ETHERNET, IPV4, IPV6, MPLS
from toolkit.dissect.tcp.places import Layer, Places

UDP = 17
_GRE = 47
_CONTENTS = {4: IPV4, 41: IPV6, 137: MPLS}
"""IP protocols with the ethertype of their content."""
_NOT_READ = {50: "IPsec (ESP)"}
REASSEMBLED = frozenset({6, UDP, _GRE, *_CONTENTS})
"""Protocols whose fragments are reassembled."""

VXLAN_PORTS = (4789, 8472, 4790)
"""The assigned port, the one that Linux used before, and that of VXLAN-GPE."""
_GENEVE_PORT = 6081
_MPLS_PORT = 6635
_ESP_PORT = 4500
_UDP_SIZE = 8
_UDP_TARGET = 2

_U16, _BYTE = np.dtype(">u2"), np.dtype("u1")
_VXLAN = np.dtype([("flags", "u1"), ("reserved", "u1", 2), ("next", "u1"), ("network", ">u4")])
_VXLAN_HAS_NETWORK, _VXLAN_HAS_NEXT = 0x08, 0x04
_VXLAN_NEXT = (ETHERNET, IPV4, IPV6, ETHERNET)
_GENEVE = np.dtype([("options", "u1"), ("flags", "u1"), ("type", ">u2"), ("network", ">u4")])
_GRE_HEADER = np.dtype([("flags", ">u2"), ("type", ">u2")])
_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007

Reader = Callable[[memoryview, Places, Counter[str]], Layer]


class Carriers:
    """Finds the packets that IP packets carry.

    Args:
        vxlan_ports: further UDP ports that may be VXLAN.
    """

    def __init__(self, vxlan_ports: Collection[int] = ()) -> None:
        self._by_port: dict[int, Reader] = dict.fromkeys(vxlan_ports, _maybe_vxlan)
        self._by_port |= dict.fromkeys(VXLAN_PORTS, _vxlan)
        self._by_port |= {_GENEVE_PORT: _geneve, _MPLS_PORT: partial(_plain, MPLS)}

    def contents(self, data: memoryview, payloads: Layer, skipped: Counter[str]) -> list[Layer]:
        """Return the contents of packets, as far as they can be read.

        Args:
            data: bytes with the packets.
            payloads: the packets' payloads; types are IP protocols.
            skipped: counts carriers that cannot be read, by reason.
        """
        found = []
        for protocol in np.unique(payloads.types).tolist():
            here = payloads.where(payloads.types == protocol)
            if protocol in _CONTENTS:
                found.append(_plain(_CONTENTS[protocol], data, here, skipped))
            elif protocol == _GRE:
                found.append(_gre(data, here, skipped))
            elif protocol == UDP:
                found += self._of_udp(data, here, skipped)
            elif protocol in _NOT_READ:
                skipped[f"inside {_NOT_READ[protocol]}, which is not read"] += len(here)
        return [layer for layer in found if len(layer)]

    def _of_udp(self, data: memoryview, places: Places, skipped: Counter[str]) -> list[Layer]:
        places = places.holding(_UDP_SIZE)
        ports = records_at(data, places.at + _UDP_TARGET, _U16)
        if count := int(np.count_nonzero(ports == _ESP_PORT)):
            skipped["inside IPsec (ESP in UDP), which is not read"] += count
        return [
            self._by_port[port](data, places.where(ports == port).beyond(_UDP_SIZE), skipped)
            for port in np.unique(ports).tolist()
            if port in self._by_port
        ]


def _plain(ethertype: int, _data: memoryview, places: Places, _skipped: Counter[str]) -> Layer:
    return Layer.of(np.full(len(places), ethertype), places)


def _vxlan(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """RFC 7348; with a next protocol as in VXLAN-GPE."""
    places = places.holding(_VXLAN.itemsize, skipped)
    heads = records_at(data, places.at, _VXLAN)
    has_next = (heads["flags"] & _VXLAN_HAS_NEXT) != 0
    nexts = np.where(has_next, heads["next"], 0).astype(np.int64)
    known = ((heads["flags"] & _VXLAN_HAS_NETWORK) != 0) & (nexts < len(_VXLAN_NEXT))
    return _known(known, "VXLAN", np.array(_VXLAN_NEXT)[nexts % len(_VXLAN_NEXT)], places.beyond(8), skipped)


def _maybe_vxlan(data: memoryview, places: Places, _skipped: Counter[str]) -> Layer:
    """As _vxlan, for a port with other uses, too: packets other than VXLAN are ignored, not counted."""
    return _vxlan(data, places, Counter())


def _geneve(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """RFC 8926."""
    places = places.holding(_GENEVE.itemsize, skipped)
    heads = records_at(data, places.at, _GENEVE)
    options_bytes = (heads["options"] & 0x3F).astype(np.int64) * 4
    known = heads["options"] >> 6 == 0
    return _known(known, "Geneve", heads["type"], places.beyond(_GENEVE.itemsize + options_bytes), skipped)


def _gre(data: memoryview, places: Places, skipped: Counter[str]) -> Layer:
    """RFC 2784 and RFC 2890; the key may be an NVGRE network, the content that of a mirrored port."""
    places = places.holding(_GRE_HEADER.itemsize, skipped)
    heads = records_at(data, places.at, _GRE_HEADER)
    flags = heads["flags"].astype(np.int64)
    sizes = np.full(len(places), _GRE_HEADER.itemsize)
    for flag in (_GRE_CHECKSUM, _GRE_KEY, _GRE_SEQUENCE):
        sizes += np.where(flags & flag, 4, 0)
    # the first version of ERSPAN has no header, and no sequence number by which it is known
    bare = (heads["type"] == ERSPAN) & (flags & _GRE_SEQUENCE == 0)
    known = (flags & _GRE_VERSION == 0) & (flags & _GRE_ROUTING == 0)
    return _known(known, "GRE", np.where(bare, ETHERNET, heads["type"]), places.beyond(sizes), skipped)


def _known(known: Marks, name: str, types: npt.NDArray[Any], places: Places, skipped: Counter[str]) -> Layer:
    if not known.all():
        skipped[f"inside {name} with a header that is not known"] += int(np.count_nonzero(~known))
    return Layer.of(types, places).where(known)
