"""Subnets that this machine's routes lead to."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from toolkit.machine.rtnetlink import rtnetlink


def routed_subnets() -> Iterator[tuple[IPv4Network | IPv6Network, str]]:
    """Yield the destination and the interface of each route of this thread's namespace, except default routes."""
    with rtnetlink() as network:
        names = {link["index"]: link.get("ifname") for link in network.get_links()}
        for route in network.get_routes():
            destination, interface = route.get("dst"), names.get(route.get("oif"))
            if destination and interface != "lo":
                subnet = ip_network(f"{destination}/{route['dst_len']}", strict=False)
                if not subnet.is_multicast and not subnet.is_link_local:
                    yield subnet, str(interface)
