"""A learning switch between tap devices that impairs packets according to the state of their link.

A link is an ordered pair of ports on one network. One thread does all the work: it reads a packet, passes it
through the :class:`Fate` of its link, if it has one, and writes it when it is due. Commands are processed between
packets, so any number of state changes take effect at the same moment.
"""

import heapq
import os
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns

from messenger.errors import LocalError
from toolkit.network.state import LinkState
from toolkit.network.wire.fate import Counts, Fate
from toolkit.network.wire.frames import HEADER_BYTES, MAX_BYTES, Bundle, Packet, joined

_BATCH_FRAMES = 64
"""Most frames to read from one port before other ports and due packets are served."""
_LEAST_BYTES = HEADER_BYTES + 14
"""Size of a frame without content."""
_RECEIVER = slice(HEADER_BYTES, HEADER_BYTES + 6)
_SENDER = slice(HEADER_BYTES + 6, HEADER_BYTES + 12)
"""The Ethernet addresses in a frame."""
_MULTICAST = 1
_MAX_LEARNED = 4096
"""Most learned addresses per network; frames to others are flooded."""
_SECOND_NS = 1_000_000_000
_IDLE_S = 3600.0


@dataclass(eq=False, slots=True)
class Port:
    """The attachment of a host to a network."""

    host: str
    network: str
    file: int
    links: list["PortLink"] = field(default_factory=list)
    """Links to all other ports of the network."""
    routes: dict[bytes, "PortLink"] = field(default_factory=dict)
    """Those links by the addresses behind their receivers."""
    sources: set[bytes] = field(default_factory=set)
    """Addresses behind this port."""


@dataclass(eq=False, slots=True)
class PortLink:
    """The packets from one port to another."""

    sender: Port
    receiver: Port
    fate: Fate[Packet] | None = None
    """Queue of an impaired link; None passes packets on at once."""
    counts: Counts = field(default_factory=Counts)


class Switch:
    """Ports and the links between them, unimpaired at first."""

    def __init__(self) -> None:
        self._ports: dict[int, Port] = {}
        self._states: dict[tuple[str, str], LinkState] = {}
        self._schedule: list[tuple[int, int, PortLink]] = []
        self._scheduled = 0
        self._others: dict[int, Callable[[], None]] = {}

    def watch(self, file: int, ready: Callable[[], None]) -> None:
        """Call ``ready``, between packets, whenever a file is readable."""
        self._others[file] = ready

    def ignore(self, file: int) -> None:
        """Stop watching a file."""
        del self._others[file]

    def add(self, host: str, network: str, file: int, macs: Iterable[bytes]) -> None:
        """Add a port with addresses behind it; its links get the states that were set for its host.

        Raises:
            LocalError: the host is on that network already.
        """
        if any((port.host, port.network) == (host, network) for port in self._ports.values()):
            raise LocalError(f"wire: {host} is on {network} already")
        port = Port(host, network, file)
        for other in self._ports.values():
            if other.network == network:
                for link in (PortLink(port, other), PortLink(other, port)):
                    link.sender.links.append(link)
                    self._apply(link)
                    for address in link.receiver.sources:
                        link.sender.routes[address] = link
        self._ports[file] = port
        for mac in macs:
            self._learn(port, mac)

    def remove(self, host: str) -> None:
        """Close a host's ports; their interfaces vanish, and packets queued for the host are lost."""
        for port in [port for port in self._ports.values() if port.host == host]:
            del self._ports[port.file]
            for other in self._ports.values():
                other.links = [link for link in other.links if link.receiver is not port]
                other.routes = {mac: link for mac, link in other.routes.items() if link.receiver is not port}
            self._schedule = [
                entry for entry in self._schedule if port not in {entry[2].sender, entry[2].receiver}
            ]
            heapq.heapify(self._schedule)
            os.close(port.file)

    def set(self, states: Iterable[tuple[str, str, LinkState]]) -> None:
        """Set the states of links by sending and receiving host, on all their networks."""
        for sender, receiver, state in states:
            self._states[sender, receiver] = state
            for link in self._links():
                if (link.sender.host, link.receiver.host) == (sender, receiver):
                    self._apply(link)

    def get(self, sender: str, receiver: str) -> LinkState:
        """Return the state of a link.

        Raises:
            LocalError: there is no such link.
        """
        for link in self._links():
            if (link.sender.host, link.receiver.host) == (sender, receiver):
                return link.fate.state if link.fate else self._states.get((sender, receiver), LinkState())
        raise LocalError(f"wire: no link from {sender!r} to {receiver!r}")

    def statistics(self) -> list[dict[str, object]]:
        """Return the counters of all links as JSON objects."""
        return [
            {
                "sender": link.sender.host,
                "receiver": link.receiver.host,
                "network": link.sender.network,
                "queued": link.fate.queued if link.fate else 0,
                **link.counts.as_json(),
            }
            for link in self._links()
        ]

    def _links(self) -> Iterator[PortLink]:
        for port in self._ports.values():
            yield from port.links

    def _apply(self, link: PortLink) -> None:
        state = self._states.get((link.sender.host, link.receiver.host)) or LinkState()
        if state.is_clear:
            if link.fate is not None:
                self._write(link, link.fate.flush())
            link.fate = None
        elif link.fate is not None:
            link.fate.become(state)
            self._plan(link)
        else:
            link.fate = Fate(state, Packet.flipped, link.counts)

    def turn(self) -> None:
        """Wait until packets or commands can be processed, and process them."""
        wait_s = max(0.0, (self._schedule[0][0] - monotonic_ns()) / _SECOND_NS) if self._schedule else _IDLE_S
        ready, _, _ = select.select([*self._ports, *self._others], [], [], min(wait_s, _IDLE_S))
        for file in ready:
            if other := self._others.get(file):
                other()
            elif port := self._ports.get(file):
                self._take(port)
        self._deliver()

    def _take(self, port: Port) -> None:
        """Read the frames that a port's host has sent."""
        file, sources, read = port.file, port.sources, os.read
        for _ in range(_BATCH_FRAMES):
            try:
                raw = read(file, MAX_BYTES)
            except BlockingIOError:
                return
            except OSError:
                return  # the interface has been removed, or is down
            if len(raw) < _LEAST_BYTES:
                return
            sender, receiver = raw[_SENDER], raw[_RECEIVER]
            if sender not in sources:
                self._learn(port, sender)
            link = port.routes.get(receiver)
            if link is not None:
                self._send(link, Bundle.read(raw))
            elif receiver[0] & _MULTICAST or receiver not in sources:
                bundle = Bundle.read(raw)
                for link in port.links:
                    self._send(link, bundle)

    def _send(self, link: PortLink, bundle: Bundle) -> None:
        fate = link.fate
        if fate is None:
            counts, packets = link.counts, bundle.count
            counts.packets += packets
            counts.bytes += bundle.sent_bytes
            counts.delivered += packets
            self._put(link, bundle.raw, packets)
            return
        before = fate.next_ns
        now_ns = monotonic_ns()
        fate.offer(bundle.packets(), now_ns)
        if fate.next_ns is None:
            return
        if fate.next_ns <= now_ns:
            self._write(link, fate.due(now_ns))
            self._plan(link)
        elif before is None or fate.next_ns < before:
            self._plan(link)

    def _write(self, link: PortLink, packets: Sequence[Packet]) -> None:
        for raw, count in joined(packets):
            self._put(link, raw, count)

    def _put(self, link: PortLink, raw: bytes, count: int) -> None:
        try:
            os.write(link.receiver.file, raw)
        except OSError:  # the interface is down, or has no memory for it
            link.counts.delivered -= count
            link.counts.undelivered += count

    def _plan(self, link: PortLink) -> None:
        """Schedule a link for the time at which its next packet is due; an early entry is harmless."""
        if link.fate is not None and link.fate.next_ns is not None:
            self._scheduled += 1
            heapq.heappush(self._schedule, (link.fate.next_ns, self._scheduled, link))

    def _deliver(self) -> None:
        now_ns = monotonic_ns()
        while self._schedule and self._schedule[0][0] <= now_ns:
            link = heapq.heappop(self._schedule)[2]
            fate = link.fate
            if fate is None or fate.next_ns is None:
                continue
            if fate.next_ns <= now_ns:
                self._write(link, fate.due(now_ns))
                self._plan(link)

    def _learn(self, port: Port, mac: bytes) -> None:
        """Learn that an address is behind this port, and behind no other port of its network."""
        network = [other for other in self._ports.values() if other.network == port.network]
        if mac[0] & _MULTICAST or sum(len(other.sources) for other in network) >= _MAX_LEARNED:
            return
        for other in network:
            other.sources.discard(mac)
            other.routes.pop(mac, None)
        port.sources.add(mac)
        for other in network:
            for link in other.links:
                if link.receiver is port:
                    other.routes[mac] = link
