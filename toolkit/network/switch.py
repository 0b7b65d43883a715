"""A switch: a namespace with a bridge for every network, and hosts in namespaces of their own plugged into it.

Nothing of it is visible outside of these namespaces, so its addresses collide with no others.
"""

import os
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable
from toolkit.network.namespaces import inside, set_sysctl

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_PORT_BYTES = 14
"""Of the name of a port: what a wire puts beside it has one letter more, and 15 is the most."""
_NO_DUPLICATE_DETECTION = 0x02
"""IFA_F_NODAD: an address is there at once."""
_PERMANENT = 0x80
"""NUD_PERMANENT: a neighbour that needs not be asked for."""
_FORWARDING = 3
"""Of a bridge's port: BR_STATE_FORWARDING."""
_UP_TIMEOUT_S = 5.0
_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Plug:
    """Where a host is plugged into a network."""

    host: str
    namespace: Path
    network: str
    interface: str
    """At the host: eth0 and so on."""
    address: IPv4Interface | IPv6Interface
    mtu: int

    @property
    def port(self) -> str:
        """The other end of the cable, at the switch."""
        return f"{self.host}-{self.interface.removeprefix('eth')}"

    @property
    def mac(self) -> str:
        """Follows from the address, so that it can be read from a capture."""
        return (b"\x02\x00" + self.address.packed[-4:]).hex(":")

    def cable(self, switch: Path) -> Cable:
        """What plugs it in."""
        return Cable(
            self.host, self.network, self.namespace, self.interface, self.mac, self.mtu, self.port, switch
        )


def wire(switch: Path, plugs: Sequence[Plug], present: Sequence[Plug] = ()) -> None:
    """Make the bridges in a namespace and plug hosts into them; everything can be reached when this returns.

    Args:
        switch: the namespace.
        plugs: of new hosts.
        present: of those that are there already.

    Raises:
        LocalError: the kernel does not want it.
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
    inside(switch, lambda: _wait_up({plug.port for plug in plugs}))
    for namespace in dict.fromkeys(plug.namespace for plug in plugs):
        names = {plug.interface for plug in plugs if plug.namespace == namespace}
        inside(namespace, lambda names=names: _wait_up(names))  # type: ignore[misc]


def unwire(switch: Path, plugs: Sequence[Plug]) -> None:
    """Unplug a host from the bridges in a namespace; raises LocalError."""

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
            name = f"br-{network}"
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

    What a host has to learn first would be lost or late on a bad link, and look like another fault than it is.
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
        for plug in own:
            (index,) = route.link_lookup(ifname=plug.interface)
            for other in neighbours:
                if other.network == plug.network:
                    known = {"dst": str(other.address.ip), "lladdr": other.mac, "state": _PERMANENT}
                    route.neigh("replace", ifindex=index, **known)  # a host that is gone may have had it


def _wait_up(names: AbstractSet[str]) -> None:
    """Wait until interfaces carry packets: the kernel notices in its own time that both ends of a cable are up."""
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
