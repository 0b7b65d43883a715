"""Subnets for networks of Docker's: which are in use, and one that is not."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.machine.rtnetlink import rtnetlink

if TYPE_CHECKING:
    from docker import DockerClient

Subnet = IPv4Network | IPv6Network

_RANGE = list(IPv4Network("10.80.0.0/12").subnets(new_prefix=24))
_APART = 8
"""Clusters begin to look so far from each other: those that come up at once seldom meet."""


def used(engine: "DockerClient", *, here: bool) -> dict[Subnet, str]:
    """Subnets that are in use, and by what.

    Args:
        engine: whose networks count.
        here: whether it is an engine of this machine, so that this machine's routes count, too.
    """
    found: dict[Subnet, str] = dict(_routes()) if here else {}
    for network in engine.api.networks():
        for config in (network.get("IPAM") or {}).get("Config") or ():
            if text := config.get("Subnet"):
                found[ip_network(text)] = f"Docker network {network['Name']!r}"
    return found


def require_free(name: str, subnet: Subnet, taken: Mapping[Subnet, str]) -> None:
    """See to it that a network can have its subnet.

    Raises:
        LocalError: it overlaps with one in use: by what.
    """
    for other, who in taken.items():
        if subnet.version == other.version and subnet.overlaps(other):
            raise LocalError(f"network {name}: subnet {subnet} is in use: {other} by {who}")


def free(number: int, taken: Mapping[Subnet, str]) -> Iterator[Subnet]:
    """Subnets that nothing uses; where the search begins depends on the cluster's number."""
    first = number * _APART % len(_RANGE)
    for subnet in (*_RANGE[first:], *_RANGE[:first]):
        if not any(subnet.version == other.version and subnet.overlaps(other) for other in taken):
            yield subnet


def _routes() -> Iterator[tuple[Subnet, str]]:
    """The machine's own routes, but for the default ones."""
    with rtnetlink() as network:
        names = {link["index"]: link.get("ifname") for link in network.get_links()}
        for route in network.get_routes():
            destination, interface = route.get("dst"), names.get(route.get("oif"))
            if destination and interface != "lo":
                subnet = ip_network(f"{destination}/{route['dst_len']}", strict=False)
                if not subnet.is_multicast and not subnet.is_link_local:
                    yield subnet, f"the route through {interface}"
