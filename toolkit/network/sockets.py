"""The TCP connections of a namespace, as the kernel reports them (sock_diag)."""

import socket
from collections.abc import Set as AbstractSet
from ipaddress import IPv6Address, ip_address

from toolkit.network.places import Address
from toolkit.network.segments import Flow

ESTABLISHED = 1
FIN_WAIT = (4, 5)
CLOSE_WAIT = 8


def connections(states: AbstractSet[int]) -> set[Flow]:
    """Those of the namespace that the calling thread is in, if they are in one of these states."""
    from pyroute2 import DiagSocket

    found = set()
    with DiagSocket() as diag:
        diag.bind()
        for family in (socket.AF_INET, socket.AF_INET6):
            for one in diag.get_sock_stats(family=family, states=sum(1 << state for state in states)):
                own, peer = (_plain(one[name]) for name in ("idiag_src", "idiag_dst"))
                found.add(Flow(own, one["idiag_sport"], peer, one["idiag_dport"]))
    return found


def _plain(text: str) -> Address:
    """An address; those of IPv4 as such, though the socket may be one for both."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
