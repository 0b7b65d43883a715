"""Segmentation offload: between namespaces of one machine TCP passes on 64 KiB at once, as one packet."""

import ctypes
import fcntl
import socket
import struct
from collections.abc import Set as AbstractSet

from toolkit.machine.rtnetlink import rtnetlink

_SIOCETHTOOL = 0x8946
_ETHTOOL_STSO = 0x1F
_REQUEST, _VALUE = struct.Struct("16sP16x"), struct.Struct("II")
_MOST_SEGMENTS = 65_535


def allow_bundles(addresses: AbstractSet[str], *, allowed: bool) -> None:
    """Enable or disable segmentation offload on the interfaces with these addresses, in this thread's namespace.

    When it is disabled, large packets of existing connections are split after the interface's queue; new
    connections send none.
    """
    with rtnetlink() as route, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        indices = {one["index"] for one in route.get_addr() if one.get("address") in addresses}
        for link in [link for link in route.get_links() if link["index"] in indices]:
            route.link("set", index=link["index"], gso_max_segs=_MOST_SEGMENTS if allowed else 1)
            value = ctypes.create_string_buffer(_VALUE.pack(_ETHTOOL_STSO, allowed))
            fcntl.ioctl(control, _SIOCETHTOOL, _REQUEST.pack(link.get("ifname").encode(), ctypes.addressof(value)))
