"""One byte stream between two hosts of the virtual network, with the work of TCP and the faults of the network."""

from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import Ending
from toolkit.faults.passage import Aside, Gate, Passage, Step
from toolkit.faults.tap import Breakpoint, LinkTap
from toolkit.lab.sim.path import Path

if TYPE_CHECKING:
    from toolkit.lab.sim.network import Network

_SLOW_STEP_S = 0.2
"""Seconds between the reads of a slow reader."""
RESET = "connection reset by peer"


class Host(Protocol):
    """The callbacks of a host that the network calls."""

    name: str
    alive: bool

    def accepted(self, wire: "Wire", remote: EntityAddr) -> None:
        """Handle a peer's dial of this host."""

    def opened(self, wire: "Wire", local: EntityAddr) -> None:
        """Handle a successful dial of this host."""

    def broken(self, wire: "Wire", reason: FaultReason, detail: str) -> None:
        """Handle a broken stream or a failed dial."""

    def received(self, wire: "Wire", chunk: bytes) -> None:
        """Handle received bytes."""

    def written(self, wire: "Wire", count: int) -> None:
        """Handle written bytes."""


class _Mark(Enum):
    """The end of a stream, or a reset, which arrives after the bytes before it."""

    FIN = ""
    RST = RESET


class Flow:
    """One direction of a stream: bytes on their way, in order."""

    __slots__ = (
        *("_due_s", "_queue", "_ready_s", "_wire", "closed", "cut_at_byte"),
        *("direction", "ended", "lost", "offset", "path", "receiver", "sender", "steps"),
    )

    def __init__(self, wire: "Wire", direction: Direction, sender: Host, receiver: Host, path: Path) -> None:
        self.direction = direction
        self.sender = sender
        self.receiver = receiver
        self.path = path
        self.closed = False
        """True if the receiver has closed its socket."""
        self.lost = False
        """True if the receiver's host has forgotten the stream; it answers every segment with a reset."""
        self.ended = False
        """True if the sender has shut down its write side."""
        self.offset = 0
        """Number of bytes that have arrived."""
        self.cut_at_byte: int | None = None
        self.steps: deque[Step | Breakpoint | _Mark] = deque()
        """What a tap holds at the receiver, in order."""
        self._wire = wire
        self._queue: deque[tuple[float, bytes | _Mark]] = deque()
        self._ready_s = 0.0
        self._due_s: float | None = None
        """Time of the next delivery; None if none is scheduled."""

    def put(self, packet: bytes | _Mark) -> None:
        """Send bytes or a mark; they arrive after everything sent before."""
        ready_s = self._wire.clock.now_s + self.path.latency()
        self._ready_s = max(self._ready_s, ready_s)
        self._queue.append((self._ready_s, packet))
        if self._due_s is None and not self.path.blocked:
            self._wake(self._queue[0][0])

    def kick(self) -> None:
        """Deliver delayed segments soon, as a retransmission does after the path is unblocked."""
        if not self._queue:
            return
        soon_s = self._wire.clock.now_s + self.path.latency()
        self._queue = deque((min(ready_s, soon_s), packet) for ready_s, packet in self._queue)
        self._ready_s = min(self._ready_s, soon_s)
        self._wake(self._queue[0][0])

    def _wake(self, time_s: float) -> None:
        clock = self._wire.clock
        self._due_s = max(time_s, clock.now_s)
        clock.at(self._due_s, self._deliver)

    def _deliver(self) -> None:
        now = self._wire.clock.now_s
        if self._due_s != now:
            return  # another event replaced this one
        self._due_s = None
        queue = self._queue
        while queue and queue[0][0] <= now:
            if self.path.blocked or not self._wire.open:
                return
            packet = queue.popleft()[1]
            if isinstance(packet, _Mark):
                if self.steps:
                    self.steps.append(packet)
                else:
                    self.arrived(packet)
            elif self.path.bytes_per_s:
                self._read_slowly(packet, now)
            else:
                self._wire.arrive(self, packet)
        if queue and self._due_s is None and self._wire.open:
            self._wake(queue[0][0])

    def _read_slowly(self, chunk: bytes, now: float) -> None:
        """Deliver as much of the chunk as the rate allows; the rest, and everything after it, comes later."""
        rate = self.path.bytes_per_s
        count = min(len(chunk), max(1, int(rate * _SLOW_STEP_S)))
        self._ready_s = max(self._ready_s, now + count / rate)
        if count < len(chunk):
            self._queue.appendleft((now + count / rate, chunk[count:]))
        elif self._queue:
            ready_s, packet = self._queue[0]
            self._queue[0] = (max(ready_s, now + count / rate), packet)
        self._wire.arrive(self, chunk[:count])

    def arrived(self, mark: _Mark) -> None:
        """Handle the end of the stream, or a reset, at the receiver."""
        wire = self._wire
        if self.lost and mark is _Mark.FIN:  # answered with a reset, as bytes are
            wire.flows[self.direction.other].put(_Mark.RST)
            return
        if mark is _Mark.RST:
            wire.end()
        if self.receiver.alive and not self.closed and not self.lost:
            reason = FaultReason.SOCKET if mark is _Mark.RST else FaultReason.EOF
            self.receiver.broken(wire, reason, mark.value)


class Wire:
    """One byte stream between two hosts."""

    def __init__(
        self, network: "Network", connector: Host, connector_link: int, acceptor: Host, dialled: EntityAddr
    ) -> None:
        self.network = network
        self.clock = network.clock
        self.connector = connector
        self.acceptor = acceptor
        self.dialled = dialled
        """The address at which the acceptor listens."""
        self.link_ids: dict[Direction, int] = {Direction.TO_SERVER: connector_link}
        """Link id at the sender of each direction."""
        self.open = True
        self.connected = False
        self.judged = False
        """True once the breakpoints have decided about the dial."""
        self.refused = False
        """True if a breakpoint refuses the dial."""
        there, back = network.path(connector.name, acceptor.name), network.path(acceptor.name, connector.name)
        self.flows = {
            Direction.TO_SERVER: Flow(self, Direction.TO_SERVER, connector, acceptor, there),
            Direction.TO_CLIENT: Flow(self, Direction.TO_CLIENT, acceptor, connector, back),
        }
        self._breakpoints = network.breakpoints(connector.name, acceptor.name)
        self._tap: LinkTap | None = None
        self._passed: list[tuple[Direction, bytes]] = []
        """All bytes so far, for a tap that may be inserted later."""
        self._ahead = dict.fromkeys(Direction, 0)
        """Number of bytes of an incomplete frame that had passed when the tap was inserted."""

    @property
    def abandoned(self) -> bool:
        """True if the connector has closed the stream."""
        return self.flows[Direction.TO_CLIENT].closed

    @property
    def blocked(self) -> bool:
        """True if a dial would get no answer now."""
        return any(flow.path.blocked for flow in self.flows.values())

    def sender(self, direction: Direction) -> Host:
        """The host that writes in that direction."""
        return self.connector if direction is Direction.TO_SERVER else self.acceptor

    def direction_from(self, host: Host) -> Direction:
        """The direction in which ``host`` writes."""
        return Direction.TO_SERVER if host is self.connector else Direction.TO_CLIENT

    def link_id(self, host: Host) -> int:
        """The stream's link id at ``host``."""
        return self.link_ids[self.direction_from(host)]

    # ---- what hosts do

    def write(self, host: Host, chunk: bytes) -> None:
        """Send bytes; they arrive later, in order."""
        flow = self.flows[self.direction_from(host)]
        if flow.ended:
            self.clock.after(self.network.latency(), lambda: self._notice(flow.sender, "broken pipe"))
        else:
            flow.put(chunk)

    def close(self, host: Host) -> None:
        """Close the socket of ``host``; the other side sees the end of the stream after the bytes before."""
        direction = self.direction_from(host)
        there, back = self.flows[direction], self.flows[direction.other]
        back.closed = True
        if there.closed:
            self.end()
        elif self.connected and not back.lost:
            self.half_close(host)

    def half_close(self, host: Host) -> None:
        """End the write side of ``host``, after the bytes written before."""
        flow = self.flows[self.direction_from(host)]
        if not flow.ended:
            flow.ended = True
            flow.put(_Mark.FIN)

    def shut(self, host: Host) -> None:
        """Shut the stream down both ways, after the bytes that ``host`` has written; both sides see its end."""
        self.half_close(host)
        self.clock.after(self.network.latency(), lambda: self._notice(host, "shut down", FaultReason.EOF))

    # ---- what happens to it

    def end(self) -> None:
        """Stop all delivery."""
        self.open = False
        self.network.forget(self)

    def cut(self, detail: str, reason: FaultReason = FaultReason.SOCKET) -> None:
        """Break the stream: bytes on their way are lost, and both sides notice after a latency."""
        if not self.open:
            return
        self.end()
        for host in (self.connector, self.acceptor):
            self.clock.after(self.network.latency(), partial(self._notice, host, detail, reason))

    def lose(self, host: Host) -> None:
        """Have ``host`` lose the stream; the other side only gets a reset when it writes."""
        self.flows[self.direction_from(host).other].lost = True
        self.clock.after(self.network.latency(), lambda: self._notice(host, "the stream is gone"))

    def _notice(self, host: Host, detail: str, reason: FaultReason = FaultReason.SOCKET) -> None:
        if host.alive:
            host.broken(self, reason, detail)

    def arrive(self, flow: Flow, chunk: bytes) -> None:
        """Deliver bytes that have reached the receiver's host."""
        sender = flow.sender
        if sender.alive:
            sender.written(self, len(chunk))
        if flow.lost:
            self.flows[flow.direction.other].put(_Mark.RST)
            return
        if flow.cut_at_byte is not None and flow.offset + len(chunk) >= flow.cut_at_byte:
            self._hand_over(flow, chunk[: flow.cut_at_byte - flow.offset])
            self.network.cut_by_byte(self, sender.name, flow.cut_at_byte)
            self.cut(RESET)
        else:
            self._hand_over(flow, chunk)

    def _hand_over(self, flow: Flow, chunk: bytes) -> None:
        network, direction = self.network, flow.direction
        flow.offset += len(chunk)
        network.on_bytes(self, direction, chunk)
        if not self._tapped():
            self._passed.append((direction, chunk))
            self._deliver(flow, network.chop(chunk))
            return
        passage = self._through_tap(direction, chunk)
        if passage.steps is not None or flow.steps:
            self._queue(flow, passage)
        else:
            self._deliver(flow, network.chop(passage.forward) if passage.pieces is None else passage.pieces)
        if passage.back:
            self._deliver(self.flows[direction.other], [passage.back])
        if passage.cut is not None and not flow.steps:
            self._strike(passage.cut)

    def _strike(self, breakpoint_: Breakpoint) -> None:
        """Cut the stream at a breakpoint."""
        self.network.struck(self, breakpoint_)
        if breakpoint_.how is Ending.FIN:
            self.cut("", FaultReason.EOF)
        else:
            self.cut(RESET)

    def _queue(self, flow: Flow, passage: Passage) -> None:
        """Queue the passage after others that are held, or because a part of it is held."""
        idle = not flow.steps
        flow.steps += [passage.forward] if passage.steps is None else passage.steps
        if passage.cut is not None and flow.steps:
            flow.steps.append(passage.cut)
        if idle:
            self._take_steps(flow)

    def _take_steps(self, flow: Flow) -> None:
        """Deliver what is held, up to the next gate that is shut."""
        while flow.steps and self.open:
            step = flow.steps[0]
            if isinstance(step, Gate) and not step.is_open:
                self.network.when_open(step, partial(self._take_steps, flow))
                return
            flow.steps.popleft()
            if isinstance(step, bytes):
                self._deliver(flow, self.network.chop(step))
            elif isinstance(step, Aside):
                self.network.when_open(step.gate, partial(self._deliver_late, flow, step.raw))
            elif isinstance(step, Breakpoint):
                self._strike(step)
            elif isinstance(step, _Mark):
                flow.arrived(step)

    def _deliver_late(self, flow: Flow, raw: bytes) -> None:
        if self.open:
            self._deliver(flow, self.network.chop(raw))

    def _deliver(self, flow: Flow, pieces: list[bytes]) -> None:
        for piece in pieces:
            if flow.receiver.alive and not flow.closed:
                flow.receiver.received(self, piece)

    # ---- breakpoints

    def _tapped(self) -> bool:
        """True if a tap parses the frames.

        A tap is inserted only when a breakpoint needs it, because parsing every frame twice doubles the cost of a
        run.
        """
        if self._tap is not None:
            return True
        if all(strike.spent for strike in self._breakpoints):
            return False
        self._tap = tap = LinkTap(self.connector.name, self.acceptor.name, [], self.network.keys())
        tap.on_struck = partial(self.network.struck, self)
        for direction, chunk in self._passed:
            tap.feed(direction, chunk)
        self._passed.clear()
        self._ahead = {direction: len(tap.pending(direction)) for direction in Direction}
        tap.breakpoints = self._breakpoints
        return True

    def _through_tap(self, direction: Direction, chunk: bytes) -> Passage:
        """Feed a chunk to the tap; returns what passes, and where it cuts."""
        assert self._tap is not None
        passage = self._tap.feed(direction, chunk)
        ahead = self._ahead[direction]
        if ahead and passage.forward:
            self._ahead[direction] = 0
            passage.forward, passage.pieces = passage.forward[ahead:], None
            if passage.steps is not None:
                passage.steps = _without(ahead, passage.steps)
        return passage


def _without(ahead: int, steps: list[Step]) -> list[Step]:
    """The steps without the first ``ahead`` bytes."""
    left: list[Step] = []
    for step in steps:
        kept = step
        if isinstance(step, bytes):
            kept, ahead = step[ahead:], max(0, ahead - len(step))
        left.append(kept)
    return left
