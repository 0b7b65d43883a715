"""Steer the frames of single links into the wire, by rules of nftables at the ports of a bridge.

The ports stay on their bridge. A rule at the port of a link's sender forwards the frames for the receiver's
Ethernet address to the sender's tap; all other frames, among them those to all hosts, take the bridge. Frames that
the wire writes to the receiver's tap go to the receiver's port.

Frames of a link that has become healthy must not overtake those that the wire still has. Therefore they go through
the wire, without impairments, until none was sent for :data:`PAUSE_MS`. The kernel decides it frame by frame, by a
set whose elements expire unless a frame renews them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.changes import Change, NftTable
from toolkit.machine.nft import nft
from toolkit.network.links import Cable
from toolkit.network.namespaces import within
from toolkit.network.wire.detour import CableLink, Detour, kernel_of, silence
from toolkit.network.wire.forwarding import PRIORITY

if TYPE_CHECKING:
    from pyroute2 import IPRoute

PAUSE_MS = 100
"""Pause after which the frames of a healthy link take the bridge; far more than a frame needs through the wire."""
_FAMILY = "netdev"
_STATIC = 0x40
"""NUD_NOARP: an address of a bridge that does not expire."""
_MASTER = 0x04
"""NTF_MASTER: of the bridge, not of the port itself."""


class Steering(Detour):
    """Leads the frames of single links into the wire.

    The bridges may be in several namespaces; the links between these begin one namespace after the other.

    Args:
        switches: namespaces of the bridges; None for this process's own.
        table: name of the table for the rules, which no other program has in these namespaces.
        note: called with the table before it is made, if it is in this process's own namespace.
    """

    def __init__(self, switches: Collection[Path | None], table: str, note: Callable[[Change], None]) -> None:
        self._switches = switches
        self._table = f"{_FAMILY} {table}"
        self._numbers: dict[Cable, int] = {}
        """Cables with rules, and the number in the names of their chains and sets."""
        self._steered: set[CableLink] = set()
        self._settled: set[Cable] = set()
        if None in switches:
            note(NftTable(_FAMILY, table))

    @override
    def cables(self, links: Collection[CableLink]) -> Collection[Cable]:
        return dict.fromkeys(cable for link in links for cable in link).keys()

    @override
    def begin(self, links: Collection[CableLink]) -> None:
        new = [link for link in links if link not in self._steered]
        if not new:
            return
        missing = [cable for cable in self.cables(new) if cable not in self._numbers]
        numbers = self._numbers | {cable: number for number, cable in enumerate(missing, len(self._numbers))}
        if missing:
            self._settle(missing)
        lines = [(cable.switch, line) for cable in missing for line in self._ways(cable, numbers[cable])]
        lines += [
            (one.switch, f"add element {self._table} steered{numbers[one]} {{ {other.mac} }}")
            for one, other in new
        ]
        self._run(lines)
        self._numbers = numbers
        self._steered |= set(new)

    @override
    def end(self, links: Collection[CableLink]) -> None:
        healthy = [link for link in links if link in self._steered]
        if not healthy:
            return
        lines = []
        for one, other in healthy:
            number, address = self._numbers[one], f"{{ {other.mac} }}"
            graced = f"element {self._table} healthy{number} {address}"
            # Adding an element again does not renew its time, so one of an earlier grace period is removed.
            renewed = (f"add {graced}", f"delete {graced}", f"add {graced}")
            past = (f"delete element {self._table} steered{number} {address}", *renewed)
            lines += [(one.switch, line) for line in past]
        self._run(lines)
        self._steered -= set(healthy)

    @override
    def close(self) -> None:
        for switch in self._switches:
            with suppress(LocalError):  # gone with their namespace
                self._run([(switch, f"delete table {self._table}")])
                self._forget(switch)
        self._numbers = {}
        self._steered.clear()
        self._settled.clear()

    def _run(self, lines: Sequence[tuple[Path | None, str]]) -> None:
        """Run lines, each in its namespace: one transaction for each, so that its links begin at one moment."""
        for switch in dict.fromkeys(switch for switch, _ in lines):
            own = [line for place, line in lines if place == switch]
            with within(switch):
                nft("-f", "-", text="\n".join([f"add table {self._table}", *own, ""]))

    def _ways(self, cable: Cable, number: int) -> Iterator[str]:
        """Yield the lines that make the ways from a port to its tap and back; no frame takes the first one yet."""
        port, table = f'"{cable.port}"', self._table
        hook = f"{{ type filter hook ingress device %s priority {PRIORITY}; }}"
        yield f"add set {table} steered{number} {{ type ether_addr; }}"
        yield (
            f"add set {table} healthy{number} {{ type ether_addr; flags dynamic, timeout; timeout {PAUSE_MS}ms; }}"
        )
        yield f"add chain {table} from{number} " + hook % port
        yield f'add rule {table} from{number} ether daddr @steered{number} fwd to "{cable.tap}"'
        renewed = f"update @healthy{number} {{ ether daddr }}"
        yield f'add rule {table} from{number} ether daddr @healthy{number} {renewed} fwd to "{cable.tap}"'
        yield f"add chain {table} to{number} " + hook % f'"{cable.tap}"'
        yield f"add rule {table} to{number} fwd to {port}"

    def _settle(self, cables: Collection[Cable]) -> None:
        """Prepare taps and bridges.

        A bridge learns where an address is from frames that pass it. Those of an impaired link do not, and the
        bridge would send frames for their sender to all ports once the entry has expired.
        """
        for switch in dict.fromkeys(cable.switch for cable in cables):
            own = [cable for cable in cables if cable.switch == switch]
            with kernel_of(switch) as route:
                silence(*(cable.tap for cable in own))
                ports = _ports(route)
                for cable in own:
                    if cable.port not in ports:
                        raise Unsupported(f"wire: there is no {cable.port}, or it is on no bridge")
                    self._settled.add(cable)
                    route.fdb("replace", ifindex=ports[cable.port], **_entry(cable))

    def _forget(self, switch: Path | None) -> None:
        """Let the bridges of a namespace learn again where hosts are."""
        with kernel_of(switch) as route:
            ports = _ports(route)
            for cable in self._settled:
                if cable.switch == switch and cable.port in ports:
                    route.fdb("del", ifindex=ports[cable.port], **_entry(cable))


def _ports(route: "IPRoute") -> dict[str, int]:
    """Return the indices of all ports of bridges by name."""
    return {link.get("ifname"): link["index"] for link in route.get_links() if link.get_attr("IFLA_MASTER")}


def _entry(cable: Cable) -> dict[str, object]:
    """Return the entry for a host in the bridge's table of addresses."""
    return {"lladdr": cable.mac, "state": _STATIC, "flags": _MASTER}
