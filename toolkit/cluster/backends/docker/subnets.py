"""Subnets for Docker networks: list those in use, and find free ones."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.network.routes import routed_subnets

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
    routes = routed_subnets() if here else ()
    found: dict[Subnet, str] = {subnet: f"the route through {interface}" for subnet, interface in routes}
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
