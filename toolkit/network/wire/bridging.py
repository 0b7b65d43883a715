"""Put the wire in the place of the bridges, for all links: the way without rules of nftables."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.changes import Change, Interface
from toolkit.network.links import Cable
from toolkit.network.wire.detour import CableLink, Detour, kernel_of, silence

if TYPE_CHECKING:
    from pyroute2 import IPRoute


class Bridging(Detour):
    """Moves every port from its network's bridge to a bridge of its own, which joins it to its tap.

    The wire is the switch from there on: all links of all networks pass through it until it is closed.

    Args:
        cables: cables of all hosts.
        note: called with interfaces in this process's own namespace before they are made.
    """

    def __init__(self, cables: Sequence[Cable], note: Callable[[Change], None]) -> None:
        self._all = cables
        self._note = note
        self._bridges: dict[Cable, int] = {}
        """Moved ports, and the bridges that they return to."""

    @override
    def cables(self, links: Collection[CableLink]) -> Collection[Cable]:
        return self._all

    @override
    def begin(self, links: Collection[CableLink]) -> None:
        if self._bridges:
            return
        # Prepare everything before the ports are moved, because hosts are disconnected while they are.
        own = {}
        for cable in self._all:
            if cable.switch is None:
                self._note(Interface(cable.bridge))
            with kernel_of(cable.switch) as route:
                self._bridges[cable] = _bridge_of(route, cable)
                own[cable] = _prepare(route, cable)
        for cable in self._all:
            with kernel_of(cable.switch) as route:
                route.link("set", index=_index_of(route, cable.port), master=own[cable])

    @override
    def end(self, links: Collection[CableLink]) -> None:
        """Do nothing: a single link cannot leave the wire."""

    @override
    def close(self) -> None:
        for cable, bridge in self._bridges.items():
            try:
                with kernel_of(cable.switch) as route:
                    route.link("set", index=_index_of(route, cable.port), master=bridge)
                    if cable.switch is None:  # others vanish with their namespace, which is faster
                        route.link("del", index=_index_of(route, cable.bridge))
            except LocalError:
                continue  # gone with its host
        self._bridges.clear()


def _prepare(route: "IPRoute", cable: Cable) -> int:
    """Make a bridge for a port and the wire's tap, unless it exists; returns its index."""
    if not route.link_lookup(ifname=cable.bridge):
        route.link("add", ifname=cable.bridge, kind="bridge", mtu=cable.mtu, br_mcast_snooping=0)
    own = _index_of(route, cable.bridge)
    silence(cable.tap, cable.bridge)
    route.link("set", index=own, state="up")
    route.link("set", index=_index_of(route, cable.tap), master=own)
    return own


def _bridge_of(route: "IPRoute", cable: Cable) -> int:
    """Return the index of the bridge that a port belongs to; raises Unsupported if it is on none."""
    (link,) = route.get_links(_index_of(route, cable.port))
    bridge = link.get_attr("IFLA_MASTER")
    if bridge is None:
        raise Unsupported(f"wire: {cable.port} is on no bridge")
    return int(bridge)


def _index_of(route: "IPRoute", name: str) -> int:
    """Return the index of an interface; raises LocalError if there is none of that name."""
    found = route.link_lookup(ifname=name)
    if not found:
        raise LocalError(f"wire: no interface {name}")
    return int(found[0])
