"""The hosts of a network, as faults need them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import product
from pathlib import Path
from typing import Protocol

from messenger.errors import LocalError
from toolkit.errors import Unsupported

Address = IPv4Address | IPv6Address
GUEST_PREFIX = "guest"
"""Prefix of names of guests, before their number; they are names of ports, and those of hosts have a hyphen."""
_GUEST_NAME = re.compile(rf"{GUEST_PREFIX}\d+")


class Place(Protocol):
    """A host, such as :class:`toolkit.cluster.backends.base.Host`."""

    @property
    def name(self) -> str:
        """Name of its node."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Addresses by network."""

    @property
    def namespace(self) -> Path | None:
        """File of its network namespace; None if it is on another machine."""


def is_guest_name(name: str) -> bool:
    """True for a name that a virtual machine on a network may have."""
    return _GUEST_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Guest:
    """A virtual machine on a network: a host that no node runs on, whose kernel this machine cannot change."""

    name: str
    """Its name, which is that of its port at the switch."""
    network: str
    address: str
    """Its IP address on that network."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Addresses by network."""
        return {self.network: self.address}

    @property
    def namespace(self) -> None:
        """Always None: it has its own kernel."""
        return


@dataclass(frozen=True, slots=True)
class Direction:
    """Packets from one address to another of the same family."""

    sender: Address
    receiver: Address


class Places:
    """The hosts of a network, by name.

    Args:
        hosts: hosts by name; more may be added.
    """

    def __init__(self, hosts: Mapping[str, Place]) -> None:
        self.hosts = hosts
        self.guests: dict[str, Guest] = {}
        """Virtual machines on the network, by name."""

    def __getitem__(self, name: str) -> Place:
        """Return the host or the guest of that name.

        Raises:
            LocalError: there is none.
        """
        found = self.hosts.get(name) or self.guests.get(name)
        if found is None:
            raise LocalError(f"no node {name!r}; there is {', '.join([*self.hosts, *self.guests])}")
        return found

    def namespace(self, name: str) -> Path:
        """Return the namespace of a host.

        Raises:
            LocalError: there is no such host.
            Unsupported: it is on another machine, or a guest.
        """
        if name in self.guests:
            raise Unsupported(f"{name} is a virtual machine: its kernel cannot be changed from here")
        found = self[name].namespace
        if found is None:
            raise Unsupported(f"node {name} has no network namespace on this machine to change")
        return found

    def directions(self, sender: str, receiver: str) -> list[Direction]:
        """Return all pairs of a sender's and a receiver's address of the same family.

        Raises:
            LocalError: there is no such host, or both are the same.
        """
        if sender == receiver:
            raise LocalError(f"{sender} and {receiver}: these are not two different nodes")
        own, others = ([ip_address(text) for text in self[name].addresses.values()] for name in (sender, receiver))
        return [Direction(one, other) for one, other in product(own, others) if one.version == other.version]
