"""A switch: a namespace with a bridge for each network, and hosts in their own namespaces attached to it.

Nothing of it is visible outside of these namespaces, so its addresses cannot collide with others.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.machine.rtnetlink import Neighbour, rtnetlink, set_neighbours
from toolkit.network.links import Cable
from toolkit.network.namespaces import inside, set_sysctl

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_PORT_BYTES = 14
"""Longest name of a port: a wire's interface has one more letter, and 15 is the kernel's limit."""
_NO_DUPLICATE_DETECTION = 0x02
"""IFA_F_NODAD: the address can be used at once."""
_FORWARDING = 3
"""BR_STATE_FORWARDING, the state of a bridge's port."""
_UP_TIMEOUT_S = 5.0
_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Plug:
    """A host's attachment to a network."""

    host: str
    namespace: Path
    network: str
    interface: str
    """Name of the interface at the host: eth0 and so on."""
    address: IPv4Interface | IPv6Interface
    mtu: int

    @property
    def port(self) -> str:
        """Name of the other end of the cable, at the switch."""
        return f"{self.host}-{self.interface.removeprefix('eth')}"

    @property
    def mac(self) -> str:
        """Ethernet address."""
        return mac_of(self.address.ip)

    def cable(self, switch: Path) -> Cable:
        """Return the cable of the attachment."""
        return Cable(
            self.host, self.network, self.namespace, self.interface, self.mac, self.mtu, self.port, switch
        )


def bridge_name(network: str) -> str:
    """Return the name of a network's bridge."""
    return f"br-{network}"


def mac_of(address: IPv4Address | IPv6Address) -> str:
    """Return the Ethernet address of a host, derived from its IP address, so that captures are readable."""
    return (b"\x02\x00" + address.packed[-4:]).hex(":")


def wire(switch: Path, plugs: Sequence[Plug], present: Sequence[Plug] = ()) -> None:
    """Make the bridges in a namespace and attach hosts to them; returns once packets pass.

    Args:
        switch: namespace of the switch.
        plugs: attachments of new hosts.
        present: attachments of existing hosts.

    Raises:
        LocalError: the kernel rejects an operation, or an interface does not come up.
    """
    for plug in plugs:
        if len(plug.port) > _PORT_BYTES:
            raise LocalError(f"host {plug.host!r}: a name may have {_PORT_BYTES - 2} letters at most")
    known = {plug.network for plug in present}
    inside(switch, lambda: _make_ports(plugs, known))
    everybody = [*present, *plugs]
    for namespace in dict.fromkeys(plug.namespace for plug in everybody):
        own = [plug for plug in everybody if plug.namespace == namespace]
        new = [plug for plug in plugs if plug.namespace == namespace]
        neighbours = [plug for plug in (everybody if new else plugs) if plug.namespace != namespace]
        inside(namespace, lambda new=new, own=own, neighbours=neighbours: _settle(new, own, neighbours))  # type: ignore[misc]
    inside(switch, lambda: wait_up({plug.port for plug in plugs}))
    for namespace in dict.fromkeys(plug.namespace for plug in plugs):
        names = {plug.interface for plug in plugs if plug.namespace == namespace}
        inside(namespace, lambda names=names: wait_up(names))  # type: ignore[misc]


def unwire(switch: Path, plugs: Sequence[Plug]) -> None:
    """Detach a host from the bridges in a namespace; raises LocalError."""

    def remove() -> None:
        with _route() as route:
            for plug in plugs:
                for index in route.link_lookup(ifname=plug.port):
                    route.link("del", index=index)

    inside(switch, remove)


def _make_ports(plugs: Sequence[Plug], known: AbstractSet[str]) -> None:
    with _route() as route:
        for network in dict.fromkeys(plug.network for plug in plugs):
            own = [plug for plug in plugs if plug.network == network]
            name = bridge_name(network)
            if network not in known:
                route.link("add", ifname=name, kind="bridge", mtu=own[0].mtu, state="up")
            (bridge,) = route.link_lookup(ifname=name)
            for plug in own:
                _make_port(route, plug, bridge)


def _make_port(route: "IPRoute", plug: Plug, bridge: int) -> None:
    namespace = os.open(plug.namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        far_end = {
            "ifname": plug.interface,
            "net_ns_fd": namespace,
            "address": plug.mac,
            "mtu": plug.mtu,
        }
        port = {"mtu": plug.mtu, "master": bridge, "state": "up"}
        route.link("add", ifname=plug.port, kind="veth", peer=far_end, **port)
    finally:
        os.close(namespace)


def _settle(new: Sequence[Plug], own: Sequence[Plug], neighbours: Sequence[Plug]) -> None:
    """Give a host its addresses, and the MAC addresses of its neighbours.

    On an impaired link, neighbour discovery would be delayed or lost, which would look like another fault than the
    one that was set.
    """
    with _route() as route:
        for plug in new:
            (index,) = route.link_lookup(ifname=plug.interface)
            set_sysctl(f"ipv6/conf/{plug.interface}/disable_ipv6", "0" if plug.address.version == 6 else "1")
            route.link("set", index=index, state="up")
            address = {"address": str(plug.address.ip), "prefixlen": plug.address.network.prefixlen}
            if plug.address.version == 6:
                address["flags"] = _NO_DUPLICATE_DETECTION
            route.addr("add", index=index, **address)
    add_neighbours(
        (plug.interface, other.address.ip) for plug in own for other in neighbours if other.network == plug.network
    )


def add_neighbours(known: Iterable[tuple[str, IPv4Address | IPv6Address]]) -> None:
    """Add the Ethernet addresses of others to the neighbours of the host in this thread's namespace.

    Args:
        known: interface, and IP address of a neighbour there.

    Raises:
        LocalError: the kernel rejects an entry.
    """
    try:
        # replacing: a removed host may have had the address
        set_neighbours(
            [Neighbour(socket.if_nametoindex(name), address, mac_of(address)) for name, address in known]
        )
    except OSError as error:
        raise LocalError(f"network: {error.strerror}") from None


def wait_up(names: AbstractSet[str]) -> None:
    """Wait until interfaces carry packets: the kernel detects the carrier of a veth pair asynchronously.

    Args:
        names: interfaces of this thread's namespace; ports of a bridge have to forward, too.

    Raises:
        LocalError: one is not up after five seconds.
    """
    deadline_s = time.monotonic() + _UP_TIMEOUT_S
    with _route() as route:
        while True:
            links = [link for link in route.get_links() if link.get("ifname") in names]
            if all(link.get("operstate") == "UP" and _forwards(link) for link in links):
                return
            if time.monotonic() > deadline_s:
                raise LocalError(f"network: {', '.join(sorted(names))} did not come up")
            time.sleep(_POLL_S)


def _forwards(link: Any) -> bool:  # noqa: ANN401 - pyroute2 has no types
    state = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_SLAVE_DATA", "IFLA_BRPORT_STATE")
    return state in {None, _FORWARDING}


@contextmanager
def _route() -> Iterator["IPRoute"]:
    from pyroute2 import NetlinkError

    with rtnetlink() as route:
        try:
            yield route
        except NetlinkError as error:
            raise LocalError(f"network: {error.args[-1]}") from None
