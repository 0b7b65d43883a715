"""Subnets for Docker networks: list those in use, and find free ones."""

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
"""Distance between the subnets at which clusters start to search, so that parallel starts seldom collide."""


def used(engine: "DockerClient", *, here: bool) -> dict[Subnet, str]:
    """Return the subnets in use, and by what.

    Args:
        engine: engine whose networks are in use.
        here: True for an engine of this machine, to include this machine's routes.
    """
    found: dict[Subnet, str] = dict(_routes()) if here else {}
    for network in engine.api.networks():
        for config in (network.get("IPAM") or {}).get("Config") or ():
            if text := config.get("Subnet"):
                found[ip_network(text)] = f"Docker network {network['Name']!r}"
    return found


def require_free(name: str, subnet: Subnet, taken: Mapping[Subnet, str]) -> None:
    """Check that a network can have its subnet.

    Raises:
        LocalError: it overlaps with one in use; the message names its user.
    """
    for other, owner in taken.items():
        if subnet.version == other.version and subnet.overlaps(other):
            raise LocalError(f"network {name}: subnet {subnet} is in use: {other} by {owner}")


def free(number: int, taken: Mapping[Subnet, str]) -> Iterator[Subnet]:
    """Yield free subnets; the search starts at a place that depends on the cluster's number."""
    first = number * _APART % len(_RANGE)
    for subnet in (*_RANGE[first:], *_RANGE[:first]):
        if not any(subnet.version == other.version and subnet.overlaps(other) for other in taken):
            yield subnet


def _routes() -> Iterator[tuple[Subnet, str]]:
    """Yield this machine's routes, except default routes."""
    with rtnetlink() as network:
        names = {link["index"]: link.get("ifname") for link in network.get_links()}
        for route in network.get_routes():
            destination, interface = route.get("dst"), names.get(route.get("oif"))
            if destination and interface != "lo":
                subnet = ip_network(f"{destination}/{route['dst_len']}", strict=False)
                if not subnet.is_multicast and not subnet.is_link_local:
                    yield subnet, f"the route through {interface}"
