"""A NAT for a host's outgoing connections: the acceptor sees translated source ports.

The host's own kernel translates outgoing packets by rules of nftables, and its connection tracking maps the ports.
When a NAT loses its state in the middle of a connection, it either treats the next packet as a new connection,
which gets another port, so that the receiver answers with RST; or it drops the packet, like a firewall that
requires a SYN.
"""

import errno
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.machine.nft import nft
from toolkit.network.namespaces import inside
from toolkit.network.places import Address, Direction, Places

if TYPE_CHECKING:
    from pyroute2 import NFCTSocket

_TABLE = "table inet msgrlab_nat"
_FIRST_PORT = 10_000
_PORTS = 1000
_RANGES = 20
"""Port ranges below the kernel's ephemeral ports, so that translated connections can be recognised."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_TCP_STATE = ("CTA_PROTOINFO", "CTA_PROTOINFO_TCP", "CTA_PROTOINFO_TCP_STATE")
_OVER = frozenset({7, 8})
"""TIME_WAIT and CLOSE of enum tcp_conntrack: the kernel tracks such connections for a while."""


@dataclass(frozen=True, slots=True)
class _Flow:
    """A translated connection."""

    way: Direction
    own_port: int
    port: int
    """The port that was dialled."""
    seen_port: int


@dataclass(frozen=True, slots=True)
class _Nat:
    """State of the NAT from one host to another."""

    turn: int = 0
    """Number of flushes; each one changes the port range."""
    forgotten: frozenset[_Flow] = frozenset()
    silent: bool = False
    """True to drop packets of flushed connections."""

    @property
    def ports(self) -> str:
        """Port range in nftables' syntax."""
        first = _FIRST_PORT + self.turn % _RANGES * _PORTS
        return f"{first}-{first + _PORTS - 1}"

    def translations(self, way: Direction) -> Iterator[str]:
        """Yield the rules that translate: for SYNs, and for packets of flushed connections."""
        family, receiver = _words(way)
        to = f"masquerade to :{self.ports} random"
        yield f"{family} daddr {receiver} tcp flags & (syn|ack) == syn {to}"
        if self.forgotten and not self.silent:
            yield f"{family} daddr {receiver} tcp sport {_set(flow.own_port for flow in self.forgotten)} {to}"

    def losses(self, way: Direction) -> Iterator[tuple[str, str]]:
        """Yield hook and rule for packets of flushed connections that are dropped."""
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
        places: hosts of the network.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._nats: dict[tuple[str, str], _Nat] = {}

    def begin(self, sender: str, receiver: str) -> None:
        """Translate new connections of one host to another; existing connections are not affected.

        Raises:
            LocalError: the kernel rejects the rules.
            Unsupported: the host is on another machine, or nft is not installed.
        """
        self._become(self._nats | {(sender, receiver): _Nat()}, sender)

    def end(self, sender: str, receiver: str) -> None:
        """Remove a NAT; its translated connections break."""
        nats = {way: nat for way, nat in self._nats.items() if way != (sender, receiver)}
        if nats != self._nats:
            self._become(nats, sender)

    def clear(self) -> None:
        """Remove all NATs."""
        for way in list(self._nats):
            self.end(*way)

    def drop(self, name: str) -> None:
        """Remove all NATs from and to a host."""
        for way in [way for way in self._nats if name in way]:
            self.end(*way)

    def forget(self, sender: str, receiver: str, *, silent: bool) -> int:
        """Flush the NAT's state of the connections from one host to another; returns their number.

        Args:
            sender: host whose connections are translated.
            receiver: host that it dials.
            silent: True to drop later packets of them, instead of translating them to another port.

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
        # Change the rules first, because they decide about the next packet of a flushed connection.
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
    """Yield the translated connections in the calling thread's namespace.

    Raises:
        LocalError: the kernel does not list them.
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
    """Delete connections from the connection tracking of this thread's namespace; raises LocalError."""
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
