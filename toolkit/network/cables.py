"""Find the veth pairs of hosts that another program attached to a bridge of this machine, as Docker does."""

from collections.abc import Callable, Iterator
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.labels import Label
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable
from toolkit.network.namespaces import inside, within
from toolkit.network.places import Place, Places


def find_cables(
    label: Label, places: Places, switch_of: Callable[[Place, str], Path | None] = lambda *_: None
) -> list[Cable]:
    """Return the cables of all hosts, found by their addresses; new names are derived from the label.

    Args:
        label: label of the cluster.
        places: the hosts, all on this machine.
        switch_of: returns the namespace of the bridge of a host's network; None for this process's own.

    Raises:
        LocalError: a host has no interface with one of its addresses, or it is not part of a veth pair.
    """
    return [
        cable
        for number, place in enumerate(places.hosts.values())
        for cable in _cables_of(label, place, number, places, switch_of)
    ]


def _cables_of(
    label: Label, place: Place, number: int, places: Places, switch_of: Callable[[Place, str], Path | None]
) -> Iterator[Cable]:
    found = inside(places.namespace(place.name), _interfaces)
    for count, (network, address) in enumerate(place.addresses.items()):
        if address not in found:
            raise LocalError(f"{place.name}: no interface has its address {address}")
        name, mac, mtu, far_end = found[address]
        switch = switch_of(place, network)
        port = _name_of(switch, far_end) if far_end else None
        if port is None:
            raise LocalError(f"{place.name}: {name} is no cable to a bridge of this machine")
        yield Cable(
            host=place.name,
            network=network,
            namespace=places.namespace(place.name),
            interface=name,
            mac=mac,
            mtu=mtu,
            port=port,
            switch=switch,
            tap=label.interface("t", number, "-", count),
            bridge=label.interface("b", number, "-", count),
        )


def _name_of(switch: Path | None, index: int) -> str | None:
    """Return the name of an interface in a namespace; None if there is none with that index."""
    with within(switch), rtnetlink() as route:
        return next((link.get("ifname") for link in route.get_links(index)), None)


def _interfaces() -> dict[str, tuple[str, str, int, int | None]]:
    """Return name, MAC address, MTU and the peer's index of each interface in the namespace, by address."""
    with rtnetlink() as route:
        links = {link["index"]: link for link in route.get_links()}
        by_address = {address.get("address"): links[address["index"]] for address in route.get_addr()}
    return {
        address: (link.get("ifname"), link.get("address"), link.get("mtu"), link.get("link"))
        for address, link in by_address.items()
    }
