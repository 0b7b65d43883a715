"""Assign subnets to the networks of a cluster, and addresses to its hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from itertools import combinations

from messenger.errors import LocalError
from toolkit.cluster.backends.base import HostWish, NetworkWish

Subnet = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_IPV6_LEAST_MTU = 1280


@dataclass(frozen=True, slots=True)
class Addressing:
    """Subnets by network, and addresses by host and network."""

    subnets: Mapping[str, Subnet]
    addresses: Mapping[str, Mapping[str, Address]]

    def of(self, host: str) -> dict[str, str]:
        """Return the addresses of a host by network, as text."""
        return {network: str(address) for network, address in self.addresses[host].items()}


def assign(
    networks: Sequence[NetworkWish], hosts: Sequence[HostWish], default: str = "10.77.{}.0/24"
) -> Addressing:
    """Assign a subnet to every network and addresses to every host, in order; fixed ones are respected.

    Args:
        networks: the networks.
        hosts: the hosts on them.
        default: subnet of networks without a given one; the network's number is inserted.

    Raises:
        LocalError: subnets overlap, an address is invalid or in use, or a subnet is too small.
    """
    subnets = {wish.name: _subnet(wish, default.format(number)) for number, wish in enumerate(networks)}
    for (one, first), (other, second) in combinations(subnets.items(), 2):
        if first.overlaps(second):
            raise LocalError(f"networks {one} and {other}: {first} and {second} overlap")
    addresses = {host.name: _wished(host, subnets) for host in hosts}
    for network, subnet in subnets.items():
        members = [host.name for host in hosts if network in host.networks]
        taken = [addresses[name][network] for name in members if network in addresses[name]]
        if len(set(taken)) < len(taken):
            raise LocalError(f"network {network}: two hosts request the same address")
        free = (address for address in subnet.hosts() if address not in taken)
        for name in members:
            if network not in addresses[name] and (address := next(free, None)) is not None:
                addresses[name][network] = address
            elif network not in addresses[name]:
                room = subnet.num_addresses - 2
                raise LocalError(f"network {network}: {subnet} has room for {room} hosts, not for {len(members)}")
    # Keep the order of the host's networks, because peers dial the first address.
    ordered = {host.name: {name: addresses[host.name][name] for name in host.networks} for host in hosts}
    return Addressing(subnets, ordered)


def _subnet(wish: NetworkWish, default: str) -> Subnet:
    text = wish.subnet or default
    try:
        subnet = ip_network(text)
    except ValueError:
        try:
            subnet = ip_interface(text).network
        except ValueError:
            raise LocalError(f"network {wish.name}: {text!r} is no subnet such as 10.77.0.0/24") from None
        raise LocalError(f"network {wish.name}: {text!r} is an address in a subnet; that is {subnet}") from None
    if subnet.is_multicast or subnet.is_loopback or subnet.is_unspecified:
        raise LocalError(f"network {wish.name}: hosts cannot have addresses in {subnet}")
    if subnet.version == 6 and wish.mtu < _IPV6_LEAST_MTU:
        raise LocalError(f"network {wish.name}: IPv6 takes an MTU of {_IPV6_LEAST_MTU} bytes, not {wish.mtu}")
    return subnet


def _wished(host: HostWish, subnets: Mapping[str, Subnet]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for name in host.networks:
        if name not in subnets:
            raise LocalError(f"host {host.name}: no network {name!r}; there is {', '.join(subnets)}")
    for name, text in (host.addresses or {}).items():
        if name not in host.networks:
            raise LocalError(f"host {host.name}: address {text} on {name}, which it is not on")
        try:
            address = ip_address(text)
        except ValueError:
            raise LocalError(f"host {host.name}: {text!r} is no address") from None
        subnet = subnets[name]
        if address not in subnet or address in {subnet.network_address, subnet.broadcast_address}:
            raise LocalError(f"host {host.name}: {text} is not for a host of network {name} ({subnet})")
        found[name] = address
    return found
