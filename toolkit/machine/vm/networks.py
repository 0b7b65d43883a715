"""Networks that a virtual machine can be attached to: what they provide for the guest's interface."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Attachment:
    """An open tap device of this machine, and what the guest's interface at its other end gets."""

    name: str
    """Name of the tap device; on a cluster's network also that of the guest."""
    descriptor: int
    """File of the tap device."""
    mac: str
    """Ethernet address of the guest's interface."""
    address: IPv4Interface | IPv6Interface
    """Address of the guest, with the length of the subnet's prefix."""
    mtu: int


class Network(Protocol):
    """A network that a virtual machine can be attached to."""

    def attached(self, *, has_headers: bool = True) -> AbstractContextManager[Attachment]:
        """Return an attachment for the duration of a ``with`` block.

        Args:
            has_headers: True for virtio headers before the frames of the tap device.

        Raises:
            LocalError: the network is not there, or has no free address.
            Unsupported: tap devices are not available here.
        """
