"""A NAT on the outgoing connections of a host: the acceptor sees translated source ports.

The host's own kernel translates what leaves it, by rules of nftables, and its connection tracking remembers which
port is whose. What a NAT has forgotten in the middle of a connection it either takes for something new, which gets
another port, so that its receiver answers with a reset; or it loses it, as a firewall that wants to see a SYN.
"""

import errno
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.network.namespaces import inside
from toolkit.network.nft import nft
from toolkit.network.places import Address, Direction, Places

if TYPE_CHECKING:
    from pyroute2 import NFCTSocket

_TABLE = "table inet msgrlab_nat"
_FIRST_PORT = 10_000
_PORTS = 1000
_RANGES = 20
"""Below the kernel's ephemeral ports, so that translated connections can be recognised."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_TCP_STATE = ("CTA_PROTOINFO", "CTA_PROTOINFO_TCP", "CTA_PROTOINFO_TCP_STATE")
_OVER = frozenset({7, 8})
"""TIME_WAIT and CLOSE, of enum tcp_conntrack: such connections are remembered for a while."""


@dataclass(frozen=True, slots=True)
class _Flow:
    """A connection that is translated."""

    way: Direction
    own_port: int
    port: int
    """That was dialled."""
    seen_port: int


@dataclass(frozen=True, slots=True)
class _Nat:
    """What there is from one host to another."""

    turn: int = 0
    """How often it has forgotten everything; each time it goes on with other ports."""
    forgotten: frozenset[_Flow] = frozenset()
    silent: bool = False
    """What was forgotten is lost."""

    @property
    def ports(self) -> str:
        """As nftables has them."""
        first = _FIRST_PORT + self.turn % _RANGES * _PORTS
        return f"{first}-{first + _PORTS - 1}"

    def translations(self, way: Direction) -> Iterator[str]:
        """Which packets get a port of it: the first of a connection, or of what is left of one."""
        family, receiver = _words(way)
        to = f"masquerade to :{self.ports} random"
        yield f"{family} daddr {receiver} tcp flags & (syn|ack) == syn {to}"
        if self.forgotten and not self.silent:
            yield f"{family} daddr {receiver} tcp sport {_set(flow.own_port for flow in self.forgotten)} {to}"

    def losses(self, way: Direction) -> Iterator[tuple[str, str]]:
        """Which packets are lost: the hook where, and the rule."""
        if not (self.forgotten and self.silent):
            return
        family, receiver = _words(way)
        unknown = "tcp flags & syn == 0 ct state new drop"
        own = _set(flow.own_port for flow in self.forgotten)
        seen = _set(flow.seen_port for flow in self.forgotten)
        yield "output", f"{family} daddr {receiver} tcp sport {own} {unknown}"
        yield "input", f"{family} saddr {receiver} tcp dport {seen} {unknown}"


class Translations:
    """The NATs of a network.

    Args:
        places: its hosts.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._nats: dict[tuple[str, str], _Nat] = {}

    def begin(self, sender: str, receiver: str) -> None:
        """Translate what a host dials at another from now on; connections that there are stay as they are.

        Raises:
            LocalError: the kernel takes no such rules.
            Unsupported: the host is on another machine, or there is no nft.
        """
        self._become(self._nats | {(sender, receiver): _Nat()}, sender)

    def end(self, sender: str, receiver: str) -> None:
        """Translate no longer; the connections that were translated break."""
        nats = {way: nat for way, nat in self._nats.items() if way != (sender, receiver)}
        if nats != self._nats:
            self._become(nats, sender)

    def clear(self) -> None:
        """Translate nothing."""
        for way in list(self._nats):
            self.end(*way)

    def drop(self, name: str) -> None:
        """Translate nothing from or to a host any more."""
        for way in [way for way in self._nats if name in way]:
            self.end(*way)

    def forget(self, sender: str, receiver: str, *, silent: bool) -> int:
        """Have the NAT forget the connections of one host with another; returns how many there were.

        Args:
            sender: whose dials are translated.
            receiver: whom it dials.
            silent: what still comes of them is lost, instead of getting another port.

        Raises:
            LocalError: there is no NAT between them.
        """
        nat = self._nats.get((sender, receiver))
        if nat is None:
            raise LocalError(f"no NAT is on the way from {sender} to {receiver}: nat {sender} {receiver}")
        ways = self._places.directions(sender, receiver)
        namespace = self._places.namespace(sender)
        flows = frozenset(inside(namespace, lambda: list(_translated(ways))))
        nat = _Nat(nat.turn + 1, flows, silent)
        # The rules first: the next packet of a connection that is forgotten is theirs.
        self._become(self._nats | {(sender, receiver): nat}, sender)
        inside(namespace, lambda: _forget(flows))
        return len(flows)

    def _become(self, nats: dict[tuple[str, str], _Nat], sender: str) -> None:
        chains: dict[str, list[str]] = {}
        for (one, other), nat in nats.items():
            for way in self._places.directions(one, other) if one == sender else ():
                chains.setdefault("nat hook postrouting priority srcnat", []).extend(nat.translations(way))
                for hook, line in nat.losses(way):
                    chains.setdefault(f"filter hook {hook} priority 0", []).append(line)
        text = f"{_TABLE}\ndelete {_TABLE}\n"
        if chains:
            text += "\n".join([f"{_TABLE} {{", *_chains(chains), "}", ""])
        inside(self._places.namespace(sender), lambda: nft("-f", "-", text=text))
        self._nats = nats


def _chains(chains: dict[str, list[str]]) -> Iterator[str]:
    for number, (kind, lines) in enumerate(chains.items()):
        yield "\n".join([f"chain part{number} {{", f"type {kind};", *lines, "}"])


def _words(way: Direction) -> tuple[str, Address]:
    return "ip" if way.receiver.version == 4 else "ip6", way.receiver


def _set(ports: Iterable[int]) -> str:
    return f"{{ {', '.join(map(str, sorted(set(ports))))} }}"


def _translated(ways: Collection[Direction]) -> Iterator[_Flow]:
    """The connections on some ways that are translated, in the namespace of the calling thread.

    Raises:
        LocalError: its kernel does not report them.
    """
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    for version, family in _FAMILIES.items():
        if not any(way.sender.version == version for way in ways):
            continue
        with _conntrack(family) as conntrack:
            for entry in list(conntrack.dump()):
                there, back = (
                    NFCTAttrTuple.from_netlink(family, entry.get_attr(name))
                    for name in ("CTA_TUPLE_ORIG", "CTA_TUPLE_REPLY")
                )
                way = Direction(ip_address(there.saddr), ip_address(there.daddr))
                if there.proto != socket.IPPROTO_TCP or way not in ways or there.sport == back.dport:
                    continue
                if entry.get_nested(*_TCP_STATE) not in _OVER:
                    yield _Flow(way, there.sport, there.dport, back.dport)


def _forget(flows: Iterable[_Flow]) -> None:
    """Have the namespace of the calling thread know nothing of connections; raises as :func:`_translated`."""
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    for flow in flows:
        family = _FAMILIES[flow.way.sender.version]
        with _conntrack(family) as conntrack:
            there = NFCTAttrTuple(
                family=family,
                saddr=str(flow.way.sender),
                daddr=str(flow.way.receiver),
                proto=socket.IPPROTO_TCP,
                sport=flow.own_port,
                dport=flow.port,
            )
            conntrack.entry("del", tuple_orig=there)


@contextmanager
def _conntrack(family: int) -> "Iterator[NFCTSocket]":
    from pyroute2 import NetlinkError, NFCTSocket

    try:
        with NFCTSocket(nfgen_family=family) as conntrack:
            yield conntrack
    except (NetlinkError, OSError) as error:
        if getattr(error, "code", 0) != errno.ENOENT:  # one that has ended meanwhile
            raise LocalError(f"connection tracking: {error}") from None
