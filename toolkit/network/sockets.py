"""TCP connections in a namespace, as the kernel lists them (sock_diag)."""

import socket
from collections.abc import Set as AbstractSet
from ipaddress import IPv6Address, ip_address

from toolkit.network.places import Address
from toolkit.network.segments import Flow

ESTABLISHED = 1
FIN_WAIT = (4, 5)
CLOSE_WAIT = 8


def connections(states: AbstractSet[int]) -> set[Flow]:
    """Return the connections in the calling thread's namespace that are in one of these states."""
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
    """Return an address; IPv4-mapped ones, of sockets for both families, as IPv4."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
