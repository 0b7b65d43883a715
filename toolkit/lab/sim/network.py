"""A virtual network of byte streams: latencies and piece lengths from a seed, and the faults of a network.

A fault of the path between two hosts applies to present and future streams, until it is healed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from messenger.compat import override
from messenger.denc.address import AddressType, EntityAddr
from messenger.errors import FaultReason
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.faults.dials import dialled
from toolkit.faults.passage import Gate
from toolkit.faults.strike import Strike
from toolkit.lab.sim.clock import Clock
from toolkit.lab.sim.path import Path
from toolkit.lab.sim.wire import RESET, Host, Wire
from toolkit.network.faults import NetworkFaults, delayed

if TYPE_CHECKING:
    from toolkit.network.state import LinkState

__all__ = ["Host", "Network", "Wire"]

_CHANCE_OF_PIECES = 0.3
_FIRST_PORT, _LAST_PORT = 40000, 65535
_NO_PACKETS = "a simulated network has no packets: --backend netns"


class Network(NetworkFaults):
    """All hosts and streams.

    Args:
        clock: virtual time.
        rng: random source of latencies and of where streams are split into pieces.
        breakpoints: returns the list of breakpoints between two named hosts, always the same list for a pair.
        keys: returns the keys with which taps read secure links.
        struck: called when a breakpoint cut a link, or a mangle changed bytes.
    """

    lacks = MappingProxyType(
        dict.fromkeys(("black_hole", "packets", "nat"), _NO_PACKETS)
        | {"time": "virtual time does not pass by itself: partition and heal"}
    )

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        breakpoints: Callable[[str, str], list[Strike]],
        keys: Callable[[], KeyBook],
        struck: Callable[[Wire, Strike], None],
    ) -> None:
        self.clock = clock
        self.breakpoints = breakpoints
        self.keys = keys
        self.struck = struck
        self.on_bytes: Callable[[Wire, Direction, bytes], None] = lambda _wire, _direction, _chunk: None
        """Called with all bytes that arrive, before a tap may cut them."""
        self.cut_by_byte: Callable[[Wire, str, int], None] = lambda _wire, _sender, _byte: None
        """Called when :meth:`cut_at_byte` cut a stream: the sender's name, and how many of its bytes passed."""
        self._rng = rng
        self._paths: dict[tuple[str, str], Path] = {}
        self._listeners: dict[tuple[str, int], tuple[Host, EntityAddr]] = {}
        self._wires: dict[str, dict[Wire, None]] = defaultdict(dict)
        """Open streams by the names of both their hosts."""
        self._dials: dict[frozenset[str], int] = {}
        """Number of dials between two hosts."""
        self._byte_cuts: dict[tuple[frozenset[str], int], list[tuple[str, int]]] = {}
        self._last_port = _FIRST_PORT

    def path(self, sender: str, receiver: str) -> Path:
        """The path from one host to another."""
        path = self._paths.get((sender, receiver))
        if path is None:
            path = self._paths[sender, receiver] = Path(self._rng)
        return path

    def latency(self) -> float:
        """Draw the latency in seconds of an event that takes no path."""
        return 0.0002 + 0.0018 * self._rng.random()

    def chop(self, chunk: bytes) -> list[bytes]:
        """Split the chunk into pieces, as a stream may deliver it."""
        random = self._rng.random
        if len(chunk) < 2 or random() >= _CHANCE_OF_PIECES:
            return [chunk] if chunk else []
        at = 1 + int(random() * (len(chunk) - 1))
        return [chunk[:at], chunk[at:]]

    def between(self, a: str, b: str) -> list[Wire]:
        """The streams between two hosts, oldest first, dials without an answer included."""
        return [wire for wire in self._wires[a] if b in {wire.connector.name, wire.acceptor.name}]

    # ---- dialling

    def listen(self, host: Host, addr: EntityAddr) -> None:
        """Have dials to ``addr`` reach ``host``."""
        self._listeners[addr.host, addr.port] = host, addr

    def unlisten(self, host: Host) -> None:
        """Refuse later dials to ``host``."""
        self._listeners = {
            place: listener for place, listener in self._listeners.items() if listener[0] is not host
        }

    def dial(self, host: Host, link_id: int, addr: EntityAddr) -> Wire | None:
        """Open a stream to the listener at ``addr``; the answer comes later. None if nothing ever listened."""
        listener = self._listeners.get((addr.host, addr.port))
        if listener is None:
            return None
        acceptor, listening = listener
        wire = Wire(self, host, link_id, acceptor, listening)
        self._wires[host.name][wire] = None
        self._wires[acceptor.name][wire] = None
        self._arm(wire)
        self._last_port = self._last_port + 1 if self._last_port < _LAST_PORT else _FIRST_PORT
        local = EntityAddr.from_host("127.0.0.1", self._last_port, AddressType.MSGR2)
        there, back = (wire.flows[direction].path for direction in Direction)
        delay_s = there.latency() + back.delay_s
        if there.dial_delays_s:
            delay_s += there.dial_delays_s.popleft()
        self.clock.after(delay_s, partial(self._answered, wire, local))
        return wire

    def _arm(self, wire: Wire) -> None:
        """Set the byte at which a new stream is cut, if :meth:`cut_at_byte` named it."""
        pair = frozenset((wire.connector.name, wire.acceptor.name))
        self._dials[pair] = number = self._dials.get(pair, 0) + 1
        for sender, byte in self._byte_cuts.pop((pair, number), ()):
            direction = Direction.TO_SERVER if wire.connector.name == sender else Direction.TO_CLIENT
            wire.flows[direction].cut_at_byte = byte

    def _answered(self, wire: Wire, local: EntityAddr) -> None:
        """Complete a dial, refuse it, or leave it without an answer, once SYN and SYN-ACK could have passed."""
        path = wire.flows[Direction.TO_SERVER].path
        if wire.open and not wire.abandoned and not wire.judged:
            wire.judged = True
            fate = dialled(self.breakpoints(wire.connector.name, wire.acceptor.name), wire.connector.name)
            for strike in fate.by:
                self.struck(wire, strike)
            wire.refused = fate.refused
            if fate.gates:
                self._wait(list(fate.gates), partial(self._answered, wire, local))
                return
        if not wire.open or wire.abandoned:
            wire.end()
        elif wire.blocked:
            path.waiting.append(partial(self._answered, wire, local))
        elif wire.refused or path.refused or not wire.acceptor.alive:
            wire.end()
            if wire.connector.alive:
                wire.connector.broken(wire, FaultReason.REFUSED, f"by {wire.acceptor.name}")
        else:
            wire.connected = True
            wire.acceptor.accepted(wire, local)
            if wire.connector.alive:
                wire.connector.opened(wire, local)

    def _wait(self, gates: list[Gate], then: Callable[[], None]) -> None:
        """Call ``then`` once all gates are open."""
        if not gates:
            then()
            return
        self.when_open(gates.pop(), partial(self._wait, gates, then))

    def when_open(self, gate: Gate, then: Callable[[], None]) -> None:
        """Call ``then`` once a gate is open; a gate with a time limit opens by itself."""
        gate.when_open(lambda: self.clock.after(0, then))
        if gate.for_s is not None:
            self.clock.after(gate.for_s, gate.open)

    def forget(self, wire: Wire) -> None:
        """Remove a stream that has ended."""
        self._wires[wire.connector.name].pop(wire, None)
        self._wires[wire.acceptor.name].pop(wire, None)

    def crashed(self, host: Host) -> None:
        """Close the streams of a host whose process has ended, as its kernel does."""
        for wire in list(self._wires[host.name]):
            if host in (wire.connector, wire.acceptor):
                wire.close(host)

    # ---- faults of paths

    @override
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Deliver nothing until the path is unblocked.

        TCP keeps everything and sends it again, ends of streams and resets included. A dial whose SYN or SYN-ACK
        cannot pass gets no answer, and succeeds when the paths are unblocked, if its connector still waits.
        """
        self._check_all_ports("block", sender, receiver, port)
        self.path(sender, receiver).blocked = True

    @override
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._check_all_ports("unblock", sender, receiver, port)
        self.path(sender, receiver).blocked = False
        self._resume({sender, receiver})

    def is_blocked(self, sender: str, receiver: str) -> bool:
        """True if the path from one host to another delivers nothing."""
        return self.path(sender, receiver).blocked

    @override
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        self._check_all_ports("refuse", sender, receiver, port)
        self.path(sender, receiver).refused = refused

    @override
    def set_link(self, sender: str, receiver: str, state: "LinkState") -> None:
        """Set delay, rate and loss of a path: the receiver reads at the rate, lost packets arrive later.

        Raises:
            Unsupported: the state has other impairments, of single packets.
        """
        from toolkit.network.state import RandomLoss  # noqa: PLC0415 - few scenarios need it

        state.require_only(f"link {sender} {receiver}", _NO_PACKETS, "loss")
        loss = state.loss or RandomLoss(percent=0)
        if not isinstance(loss, RandomLoss) or loss.correlation_percent:
            raise Unsupported(f"link {sender} {receiver}: loss must be random and uncorrelated: {_NO_PACKETS}")
        path = self.path(sender, receiver)
        path.delay_s, path.jitter_s = state.least_delay_s, state.spread_s
        path.bytes_per_s = state.rate_bits_per_s / 8
        path.loss = loss.percent / 100

    @override
    def link(self, sender: str, receiver: str) -> "LinkState":
        from toolkit.network.state import LinkState, RandomLoss  # noqa: PLC0415 - as above

        path = self.path(sender, receiver)
        return LinkState(
            **delayed(path.delay_s, path.jitter_s),
            rate_bits_per_s=round(path.bytes_per_s * 8),
            loss=RandomLoss(percent=path.loss * 100),
        )

    @override
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        raise Unsupported(f"black-hole {sender} {receiver}: {_NO_PACKETS}")

    @override
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        raise Unsupported(f"nat {sender} {receiver}: {_NO_PACKETS}")

    @override
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        raise Unsupported(f"nat-flush {sender} {receiver}: {_NO_PACKETS}")

    @override
    def reset(self, a: str, b: str) -> int:
        return self.cut(a, b)

    @override
    def finish(self, sender: str, receiver: str) -> int:
        return self.half_close(sender, receiver)

    @staticmethod
    def _check_all_ports(what: str, sender: str, receiver: str, port: int) -> None:
        if port:
            raise Unsupported(f"{what} {sender} {receiver} {port}: simulated paths have no ports: --backend netns")

    def delay_dial(self, a: str, b: str, seconds: float) -> None:
        """Delay the next dial of ``a`` to ``b`` that has no such delay yet; later dials may overtake it."""
        self.path(a, b).dial_delays_s.append(seconds)

    @override
    def heal(self, a: str = "", b: str = "") -> None:
        """Undo the faults of all paths, of those of ``a``, or of those between ``a`` and ``b``."""
        named = {name for name in (a, b) if name}
        for names, path in self._paths.items():
            if named <= set(names):
                path.mend()
        self._resume(named)
        for (sender, receiver), state in self.initial.items():
            if named <= {sender, receiver}:
                self.set_link(sender, receiver, state)

    def _resume(self, named: set[str]) -> None:
        """Deliver what was held on the paths between these hosts."""
        for wire in list(self._all_wires()):
            if named <= {wire.connector.name, wire.acceptor.name}:
                for flow in wire.flows.values():
                    flow.kick()
        for names, path in self._paths.items():
            if named <= set(names):
                waiting, path.waiting = path.waiting, []
                for answer in waiting:
                    self.clock.after(path.latency(), answer)

    def _all_wires(self) -> Iterator[Wire]:
        for name, wires in self._wires.items():
            for wire in wires:
                if wire.connector.name == name:
                    yield wire

    # ---- faults of streams

    def cut(self, a: str, b: str) -> int:
        """Reset every stream between two hosts at both ends. Returns the number of streams."""
        wires = self.between(a, b)
        for wire in wires:
            wire.cut(RESET)
        return len(wires)

    def cut_at_byte(self, a: str, b: str, byte: int, stream: int = 1) -> None:
        """Cut the ``stream``-th stream dialled between two hosts from now on, once ``byte`` bytes of ``a`` passed.

        It does not parse frames, so it costs less than a cut at a frame.
        """
        pair = frozenset((a, b))
        number = self._dials.get(pair, 0) + stream
        self._byte_cuts.setdefault((pair, number), []).append((a, byte))

    def disarm(self) -> None:
        """Drop every cut at a byte that has not happened."""
        self._byte_cuts.clear()
        for wire in self._all_wires():
            for flow in wire.flows.values():
                flow.cut_at_byte = None

    def half_close(self, a: str, b: str) -> int:
        """End the streams in the direction from ``a``, after the bytes written so far; returns their number."""
        wires = [wire for wire in self.between(a, b) if wire.connected]
        for wire in wires:
            wire.half_close(self._host(wire, a))
        return len(wires)

    def half_open(self, a: str, b: str) -> None:
        """Have ``b`` lose its streams with ``a``, which only notices when it writes and gets a reset."""
        for wire in self.between(a, b):
            if wire.connected:
                wire.lose(self._host(wire, b))

    @staticmethod
    def _host(wire: Wire, name: str) -> Host:
        return wire.connector if wire.connector.name == name else wire.acceptor
