"""A virtual network of byte streams: latency and chopping from a seed, cuts where a tap says so."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Protocol

from messenger.denc.address import AddressType, EntityAddr
from messenger.errors import FaultReason
from toolkit.dissect.follow import Direction, Keys
from toolkit.faults.tap import Breakpoint, LinkTap
from toolkit.simulation.clock import Clock

_LATENCY_S = (0.0002, 0.002)
_MAX_PIECES = 3


class Host(Protocol):
    """What the network needs of a messenger."""

    name: str
    alive: bool

    def accepted(self, wire: "Wire", remote: EntityAddr) -> None:
        """A peer dialled this host."""

    def opened(self, wire: "Wire", local: EntityAddr) -> None:
        """The own dial succeeded."""

    def broken(self, wire: "Wire", reason: FaultReason, detail: str) -> None:
        """The stream broke, or the dial failed."""

    def received(self, wire: "Wire", chunk: bytes) -> None:
        """Bytes arrived."""

    def written(self, wire: "Wire", count: int) -> None:
        """Bytes have left."""


class Wire:
    """One byte stream between two hosts."""

    def __init__(self, network: "Network", connector: Host, connector_link: int, acceptor: Host) -> None:
        self.network = network
        self.connector = connector
        self.acceptor = acceptor
        self.link_ids: dict[Direction, int] = {Direction.TO_SERVER: connector_link}
        """Link id at the sender of each direction."""
        self.open = True
        between = network.breakpoints(connector.name, acceptor.name)
        self._tap = LinkTap(connector.name, acceptor.name, between, network.keys())
        self._arrival_s = dict.fromkeys(Direction, 0.0)
        self._closing = dict.fromkeys(Direction, False)

    @property
    def abandoned(self) -> bool:
        """Whether the connector has closed it."""
        return self._closing[Direction.TO_CLIENT]

    def sender(self, direction: Direction) -> Host:
        """Who writes in that direction."""
        return self.connector if direction is Direction.TO_SERVER else self.acceptor

    def direction_from(self, host: Host) -> Direction:
        """The direction in which ``host`` writes."""
        return Direction.TO_SERVER if host is self.connector else Direction.TO_CLIENT

    def link_id(self, host: Host) -> int:
        """The stream's link id at ``host``."""
        return self.link_ids[self.direction_from(host)]

    def write(self, host: Host, chunk: bytes) -> None:
        """Send bytes; they arrive later, in order."""
        direction = self.direction_from(host)
        self.network.clock.at(self._arrival(direction), lambda: self._arrive(direction, chunk))

    def close(self, host: Host) -> None:
        """``host`` closes; the other side sees the end of the stream behind what was written."""
        direction = self.direction_from(host)
        self._closing[direction.other] = True
        self.network.clock.at(self._arrival(direction), lambda: self._end(direction))

    def shut(self, host: Host) -> None:
        """``host`` shuts the stream down both ways, behind what it has written."""
        self.network.clock.at(self._arrival(self.direction_from(host)), lambda: self.cut("shut down"))

    def cut(self, detail: str) -> None:
        """Break the stream: bytes on the way are lost, both sides notice a little later."""
        if not self.open:
            return
        self.open = False
        for host in (self.connector, self.acceptor):
            self.network.clock.after(self.network.latency(), lambda host=host: self._notice(host, detail))  # type: ignore[misc]

    def _notice(self, host: Host, detail: str) -> None:
        if host.alive:
            host.broken(self, FaultReason.SOCKET, detail)

    def _arrival(self, direction: Direction) -> float:
        clock = self.network.clock
        self._arrival_s[direction] = max(self._arrival_s[direction], clock.now_s + self.network.latency())
        return self._arrival_s[direction]

    def _arrive(self, direction: Direction, chunk: bytes) -> None:
        sender, receiver = self.sender(direction), self.sender(direction.other)
        if not self.open:
            return
        if sender.alive:
            sender.written(self, len(chunk))
        self.network.on_bytes(self, direction, chunk)
        passage = self._tap.feed(direction, chunk)
        if receiver.alive and not self._closing[direction]:
            for piece in self.network.chop(passage.forward):
                receiver.received(self, piece)
        if passage.cut is not None:
            self.network.struck(self, passage.cut)
            self.cut("connection reset by peer")

    def _end(self, direction: Direction) -> None:
        receiver = self.sender(direction.other)
        if self.open and receiver.alive and not self._closing[direction]:
            receiver.broken(self, FaultReason.EOF, "")
        if self._closing[direction] or not receiver.alive:
            self.open = False


class Network:
    """All hosts and streams.

    Args:
        clock: virtual time.
        rng: decides latencies and where streams are chopped.
        breakpoints: the list of breakpoints between two named hosts.
        keys: for taps to read secure links with.
        struck: called when a breakpoint cut a link.
    """

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        breakpoints: Callable[[str, str], list[Breakpoint]],
        keys: Callable[[], Keys],
        struck: Callable[[Wire, Breakpoint], None],
    ) -> None:
        self.clock = clock
        self.breakpoints = breakpoints
        self.keys = keys
        self.struck = struck
        self.on_bytes: Callable[[Wire, Direction, bytes], None] = lambda _wire, _direction, _chunk: None
        """Called with all bytes that arrive, before a tap may cut them."""
        self._rng = rng
        self._listeners: dict[tuple[str, int], Host] = {}
        self._wires: list[Wire] = []
        self._last_port = 40000

    def latency(self) -> float:
        """A delay for one event."""
        return self._rng.uniform(*_LATENCY_S)

    def chop(self, chunk: bytes) -> list[bytes]:
        """The chunk in pieces, as a stream may deliver it."""
        if len(chunk) < 2:
            return [chunk] if chunk else []
        cuts = sorted(self._rng.randrange(1, len(chunk)) for _ in range(self._rng.randrange(_MAX_PIECES)))
        bounds = [0, *cuts, len(chunk)]
        return [chunk[a:b] for a, b in pairwise(bounds) if a < b]

    def listen(self, host: Host, addr: EntityAddr) -> None:
        """Let ``host`` be dialled at ``addr``."""
        self._listeners[addr.host, addr.port] = host

    def dial(self, host: Host, link_id: int, addr: EntityAddr) -> "Wire | None":
        """Open a stream to whoever listens at ``addr``; the answer comes later. None if nobody does."""
        acceptor = self._listeners.get((addr.host, addr.port))
        if acceptor is None or not acceptor.alive:
            return None
        wire = Wire(self, host, link_id, acceptor)
        self._wires.append(wire)
        self._last_port += 1
        local = EntityAddr.from_host("127.0.0.1", self._last_port, AddressType.MSGR2)
        self.clock.after(self.latency(), lambda: self._connected(wire, local))
        return wire

    def _connected(self, wire: Wire, local: EntityAddr) -> None:
        if not wire.open or wire.abandoned:
            return
        if not wire.acceptor.alive:
            wire.cut("connection refused")
            return
        wire.acceptor.accepted(wire, local)
        if wire.connector.alive:
            wire.connector.opened(wire, local)

    def cut(self, a: str, b: str) -> None:
        """Cut every stream between two hosts."""
        for wire in self._wires:
            if {wire.connector.name, wire.acceptor.name} == {a, b}:
                wire.cut("connection reset by peer")
        self._wires = [wire for wire in self._wires if wire.open]

    def crashed(self, host: Host) -> None:
        """A host is gone: the kernel closes its streams."""
        for wire in self._wires:
            if host in (wire.connector, wire.acceptor):
                wire.close(host)
