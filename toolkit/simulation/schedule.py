"""The schedule of a seed, as plain data: operations in order of time.

An operation that makes no sense at its time, such as the crash of a node that has crashed, does nothing. So any
subset of a schedule is a schedule, which shrinking needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from messenger.interception import Action, Custom
from messenger.link import Protocol
from toolkit.simulation.draws import TICKET_MOTIFS, Fault, Options, Size, chance, one_of
from toolkit.simulation.motifs import draw_motif

_GAPS_S = (0.0, 0.0, 0.0005, 0.002, 0.004, 0.01, 0.05, 0.3, 1.0, 4.0)
_LASTS_S = (0.005, 0.05, 0.5, 2.0, 6.0, 20.0)
_FOR_GOOD = 0.3
"""Probability that a fault lasts until the end of the faults."""
V2_TAGS = (
    *("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE", "AUTH_SIGNATURE"),
    *("CLIENT_IDENT", "SERVER_IDENT", "SESSION_RECONNECT", "SESSION_RECONNECT_OK", "SESSION_RETRY"),
    *("SESSION_RETRY_GLOBAL", "SESSION_RESET", "WAIT", "COMPRESSION_REQUEST", "COMPRESSION_DONE"),
    *("MESSAGE", "MESSAGE", "MESSAGE", "ACK", "KEEPALIVE2", "KEEPALIVE2_ACK"),
)
V1_TAGS = (
    *("BANNER", "IDENTIFY", "CONNECT", "CONNECT", "CONNECT_REPLY", "CONNECT_REPLY", "SEQ", "SEQ"),
    *("MSG", "MSG", "MSG", "ACK", "KEEPALIVE2", "KEEPALIVE2_ACK"),
)
_REPEATED = frozenset({"MESSAGE", "MSG", "ACK"})

Argument = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation at a time."""

    at_s: float
    verb: str
    args: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"{self.at_s:.4f} {self.verb} {' '.join(map(str, self.args))}".rstrip()


Plan = tuple[Operation, ...]


def draw_schedule(rng: Random, options: Options) -> Plan:
    """Draw the operations for nodes with these options."""
    drawer = _Drawer(rng, options)
    if options.motif is not None:
        drawer.draw(traffic=rng.randrange(3, 7), faults=rng.randrange(4))
    elif options.size is Size.SMALL:
        drawer.draw(traffic=rng.randrange(4, 10), faults=rng.randrange(6))
    else:
        drawer.draw(traffic=rng.randrange(180, 240), faults=rng.randrange(5, 25))
    return drawer.plan()


class _Drawer:
    """Draws one schedule."""

    def __init__(self, rng: Random, options: Options) -> None:
        self._rng = rng
        self._options = options
        self._now_s = 0.0
        self._operations: list[Operation] = []
        self._nodes = [node.name for node in options.nodes]
        self._kinds: Mapping[Fault, Callable[[], None]] = {
            Fault.CUT: lambda: self._add("cut", *self._pair()),
            Fault.CUT_FRAME: self._cut_frame,
            Fault.CUT_BYTE: self._cut_byte,
            Fault.HALF_OPEN: lambda: self._add("half_open", *self._pair()),
            Fault.HALF_CLOSE: lambda: self._add("half_close", *self._pair()),
            Fault.PARTITION: lambda: self._on_path("partition", False),
            Fault.ONE_WAY: lambda: self._on_path("partition", True),
            Fault.REFUSE: lambda: self._on_path("refuse"),
            Fault.SLOW: lambda: self._on_path("slow", float(rng.choice((300, 3000, 30000)))),
            Fault.DELAY: lambda: self._on_path("delay", rng.choice((0.01, 0.2, 3.0)), rng.choice((0.0, 0.5))),
            Fault.LATE_DIAL: lambda: self._add("late_dial", *self._pair(), rng.choice((0.005, 0.3, 3.0))),
            Fault.FREEZE: lambda: self._lasting("freeze", "thaw", self._node()),
            Fault.CRASH: lambda: self._lasting("kill", "revive", self._node()),
            Fault.RENAME: lambda: self._lasting("kill", "rename", self._node()),
            Fault.MARK_DOWN: lambda: self._add("mark_down", *self._pair()),
            Fault.HOLD: lambda: self._lasting("hold", "release", self._node()),
            Fault.INTERCEPT: self._intercept,
            Fault.CONFIGURE: self._configure,
        }

    def draw(self, traffic: int, faults: int) -> None:
        """Draw that many operations of traffic and of faults, in random order after one that opens a session."""
        rng, motif = self._rng, self._options.motif
        sorts = [self._traffic] * traffic
        sorts += [self._fault] * (faults if self._allowed else 0)
        motifs = [self._motif] * (0 if motif is None else rng.randrange(1, 3) if motif in TICKET_MOTIFS else 1)
        comes_last = chance(rng, 0.5)  # then no later operation undoes the state that it leads to
        sorts += [] if comes_last else motifs
        rng.shuffle(sorts)
        sorts += motifs if comes_last else []
        self._traffic()
        for operate in sorts:
            self._now_s += self._rng.choice(_GAPS_S)
            operate()

    def plan(self) -> Plan:
        """The operations in order of time."""
        return tuple(sorted(self._operations, key=lambda operation: operation.at_s))

    # ---- traffic

    def _traffic(self) -> None:
        rng = self._rng
        node, peer = rng.choice(self._options.pairs)
        if not self._options.roles.peers and chance(rng, 0.4):
            node, peer = peer, node
        verb = one_of(rng, ("send", 12), ("keepalive", 2), ("connect", 2))
        if verb == "send":
            size_bytes = one_of(rng, (0, 1), (20, 4), (1000, 2), (9000, 1))
            self._add("send", node, peer, rng.randrange(1, 8), size_bytes)
            if self._options.roles.peers and chance(rng, 0.3):  # both at once
                self._add("send", peer, node, rng.randrange(1, 4), size_bytes)
        elif verb == "connect":
            self._add(verb, node, peer, self._options.roles.lossy and chance(rng, 0.5))
        else:
            self._add(verb, node, peer)

    def _motif(self) -> None:
        for after_s, verb, args in draw_motif(self._rng, self._options):
            self._add(verb, *args, later_s=after_s)

    # ---- faults

    @property
    def _allowed(self) -> list[Fault]:
        return [kind for kind in self._options.faults if kind in self._kinds]

    def _fault(self) -> None:
        self._kinds[self._rng.choice(self._allowed)]()

    def _node(self) -> str:
        return self._rng.choice(self._nodes)

    def _pair(self) -> tuple[str, str]:
        a, b = self._rng.choice(self._options.pairs)
        return (b, a) if chance(self._rng, 0.5) else (a, b)

    def _add(self, verb: str, *args: Argument, later_s: float = 0.0) -> None:
        self._operations.append(Operation(round(self._now_s + later_s, 6), verb, args))

    def _lasting(self, verb: str, end: str, *args: Argument, more: tuple[Argument, ...] = ()) -> None:
        """Add a fault that ends after some time, or with the other faults."""
        self._add(verb, *args, *more)
        if not chance(self._rng, _FOR_GOOD):
            self._add(end, *args, later_s=self._rng.choice(_LASTS_S))

    def _on_path(self, verb: str, *more: Argument) -> None:
        self._lasting(verb, "heal", *self._pair(), more=more)

    @property
    def _tags(self) -> tuple[str, ...]:
        return V1_TAGS if self._options.way.protocol is Protocol.V1 else V2_TAGS

    def _cut_frame(self) -> None:
        rng = self._rng
        sender, peer = self._pair()
        tag = rng.choice(self._tags)
        nth = rng.randrange(1, 12) if tag in _REPEATED else rng.randrange(1, 4)
        byte = one_of(rng, ("", 2), ("0", 2), ("1", 1), (str(rng.randrange(200)), 3))
        self._add("cut_at", sender, peer, f"{sender}:{tag}:{nth}:{byte}")

    def _cut_byte(self) -> None:
        rng = self._rng
        byte = one_of(rng, (rng.randrange(200), 1), (rng.randrange(1500), 3), (rng.randrange(20000), 1))
        self._add("cut_at_byte", *self._pair(), byte, rng.randrange(1, 4))

    def _intercept(self) -> None:
        rng = self._rng
        node = self._node()
        places = [f"{tag} {way}" for tag in self._tags for way in ("READ", "WRITE")]
        point = one_of(rng, (rng.choice(places), 8), (rng.choice(_CUSTOM), 1))
        action = one_of(rng, (Action.BLOCK, 2), (Action.STALL, 2), (Action.FAULT, 2))
        self._add("arm", node, point, action.value, rng.randrange(1, 4))
        if not chance(rng, _FOR_GOOD):
            self._add("unblock", node, later_s=rng.choice(_LASTS_S))

    def _configure(self) -> None:
        rng = self._rng
        option, value = rng.choice(
            (
                ("ms_max_backoff", 1.0),
                ("ms_initial_backoff", 0.01),
                ("write_ahead_bytes", 100),
                ("ms_connection_idle_timeout", 2.0),
                ("ms_inject_socket_failures", 40),
            )
        )
        self._add("configure", self._node(), option, value)


_CUSTOM = tuple(custom.value for custom in Custom if custom is not Custom.SOCKET_ACCEPTED)
