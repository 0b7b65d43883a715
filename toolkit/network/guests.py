"""Attach virtual machines to a bridge, or to this machine itself: a tap device for each, and a free address.

The tap device exists as long as a process has its file open, which is the virtual machine and the process that
runs it. So nothing of it remains after any of their ends.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface
from itertools import islice
from pathlib import Path

from messenger.errors import LocalError
from toolkit.extras import require
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.machine.vm.networks import Attachment
from toolkit.network.namespaces import inside, within
from toolkit.network.places import GUEST_PREFIX
from toolkit.network.routes import routed_subnets
from toolkit.network.switch import mac_of
from toolkit.network.wire.tap import open_tap

_MOST_GUESTS = 16
_OWN_PREFIX, _OWN_MTU = "mlguest", 1500
_OWN_RANGE = IPv4Network("10.79.0.0/24")
"""Subnets between this machine and a guest are parts of it."""


@dataclass(frozen=True, slots=True)
class BridgedNetwork:
    """A bridge in a namespace, as a network for virtual machines.

    Guests get addresses from the end of the subnet, since hosts get theirs from its beginning.
    """

    namespace: Path
    """Namespace of the bridge."""
    bridge: str
    """Name of the bridge."""
    subnet: IPv4Network | IPv6Network
    taken: Collection[IPv4Address | IPv6Address]
    """Addresses of hosts in the subnet."""
    names: Collection[str] = ()
    """Names that a port cannot have, because hosts have them."""

    @contextmanager
    def attached(self, *, has_headers: bool = True) -> Iterator[Attachment]:
        """Make a port of the bridge for a guest, for the duration of a ``with`` block.

        Args:
            has_headers: True for virtio headers before the frames of the tap device.

        Raises:
            LocalError: the bridge is not there, or all addresses for guests are in use.
            Unsupported: tap devices are not available here, or this user may not make them.
        """
        require("pyroute2")
        mtu, ports = inside(self.namespace, self._look)
        for number, address in enumerate(islice(self._addresses(), _MOST_GUESTS)):
            name = f"{GUEST_PREFIX}{number}"
            if name in ports or name in self.names:
                continue
            if (tap := _opened(self.namespace, name, mtu, has_headers=has_headers)) is None:
                continue
            try:
                inside(self.namespace, lambda name=name: self._plug(name))  # type: ignore[misc]
                whole = ip_interface(f"{address}/{self.subnet.prefixlen}")
                yield Attachment(name, tap, mac_of(address), whole, mtu)
            finally:
                os.close(tap)
            return
        raise LocalError(f"{self.bridge}: no free address in {self.subnet} for another virtual machine")

    def _addresses(self) -> Iterator[IPv4Address | IPv6Address]:
        """Yield the addresses that guests may have, the same for all of them."""
        first, last = self.subnet[1], self.subnet[-2]
        for number in range(int(last), int(first) - 1, -1):
            address = type(first)(number)
            if address not in self.taken:
                yield address

    def _look(self) -> tuple[int, set[str]]:
        """Return the MTU of the bridge, and the names of all interfaces beside it."""
        mtus = _mtus()
        if self.bridge not in mtus:
            raise LocalError(f"{self.namespace}: no bridge {self.bridge}")
        return mtus[self.bridge], set(mtus)

    def _plug(self, name: str) -> None:
        with rtnetlink() as route:
            (bridge,) = route.link_lookup(ifname=self.bridge)
            (port,) = route.link_lookup(ifname=name)
            route.link("set", index=port, master=bridge)


class HostNetwork:
    """A network of this machine and one guest, in the namespace of the thread that attaches the guest.

    Its subnet of four addresses overlaps with no route of the machine; the machine has the first address.
    """

    @contextmanager
    def attached(self, *, has_headers: bool = True) -> Iterator[Attachment]:
        """Make a tap device with an address of this machine, for the duration of a ``with`` block.

        Args:
            has_headers: True for virtio headers before the frames of the tap device.

        Raises:
            LocalError: all subnets for guests are in use.
            Unsupported: tap devices are not available here, or this user may not make them.
        """
        require("pyroute2")
        routes = [subnet for subnet, _ in routed_subnets()]
        for number, subnet in enumerate(_OWN_RANGE.subnets(new_prefix=30)):
            name = f"{_OWN_PREFIX}{number}"
            if any(isinstance(each, IPv4Network) and each.overlaps(subnet) for each in routes):
                continue
            if (tap := _opened(None, name, _OWN_MTU, has_headers=has_headers)) is None:
                continue
            try:
                with rtnetlink() as route:
                    (index,) = route.link_lookup(ifname=name)
                    route.addr("add", index=index, address=str(subnet[1]), prefixlen=subnet.prefixlen)
                whole = ip_interface(f"{subnet[2]}/{subnet.prefixlen}")
                yield Attachment(name, tap, mac_of(whole.ip), whole, _OWN_MTU)
            finally:
                os.close(tap)
            return
        raise LocalError(f"no free subnet in {_OWN_RANGE} for another virtual machine")


def _opened(namespace: Path | None, name: str, mtu: int, *, has_headers: bool) -> int | None:
    """Return the file of a new tap device; None if another guest has the name."""
    try:
        return open_tap(namespace, name, mtu, has_headers=has_headers)[0]
    except LocalError:
        with within(namespace):
            if name in _mtus():
                return None
        raise


def _mtus() -> dict[str, int]:
    """Return the MTU of each interface of this thread's namespace."""
    with rtnetlink() as route:
        return {link.get("ifname"): link.get("mtu") for link in route.get_links()}
