"""The model of the table's rows: the two nodes, the stops, and the expected result."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from messenger.errors import LocalError
from messenger.interception import Action
from toolkit.faults.points import parse_point
from toolkit.scenarios.crimson.instances import Instance

Counts = tuple[int, int, int, int]
_NOTHING = (0, 0, 0, 0)


class Order(StrEnum):
    """The order of the tested side's address and its peer's; the lower one wins a race."""

    ANY = "any"
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected state and counters of one connection instance."""

    state: str
    connect: Counts = _NOTHING
    """Attempts, idents, reconnects and connect events as connector."""
    accept: Counts = _NOTHING
    """Attempts, idents, reconnects and accept events as acceptor."""
    reset: tuple[int, int] = (0, 0)
    """Reset events, remote_reset events."""

    def fits(self, instance: Instance, *, on_sockets: bool = False) -> bool:
        """True if an instance has exactly this state and these counters.

        Args:
            instance: the instance.
            on_sockets: True if bytes that a peer sent before it closed a link may be read or not.
        """
        connect, accept = instance.connect.as_tuple(), instance.accept.as_tuple()
        if on_sockets and self.state == "closed":
            wanted, _, _, events = self.accept
            accept = self.accept if (wanted, events) == (accept[0], accept[3]) else accept
        resets = (instance.resets, instance.remote_resets)
        return (self.state, self.connect, self.accept, self.reset) == (instance.state, connect, accept, resets)

    def __str__(self) -> str:
        words = [self.state]
        words += [f"connect {self.connect}"] if any(self.connect) else []
        words += [f"accept {self.accept}"] if any(self.accept) else []
        words += [f"reset {self.reset}"] if any(self.reset) else []
        return " ".join(words)


Expectation = tuple[Expected, ...]


class Stop(NamedTuple):
    """An action at a point of the grid on the tested side."""

    action: Action
    point: str
    nth: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``ACTION POINT [#NTH]``, for example ``BLOCK HELLO READ #2``.

        Raises:
            LocalError: ``text`` does not have that form.
        """
        action, _, rest = text.partition(" ")
        point, _, nth = rest.partition(" #")
        if action not in list(Action) or not (nth or "1").isdigit():
            raise LocalError(f"{text!r} is not ACTION POINT [#NTH]")
        parse_point(point)
        return cls(Action(action), point, int(nth or 1))

    @property
    def holds(self) -> bool:
        """True if the action holds the link until it is released."""
        return self.action in {Action.BLOCK, Action.STALL}

    def __str__(self) -> str:
        return f"{self.action} {self.point}{f' #{self.nth}' if self.nth > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Check:
    """A step of a script that compares the tested side's instances so far."""

    tested: Expectation


Step = str | Check
"""``send``, ``try send`` (a message that may be lost), ``dial``, ``keepalive``, ``mark down``, each for the other
side with ``peer`` before it; ``held`` and ``release`` of blocked or stalled links; ``arrived`` (everything sent);
``replaced N`` instances; ``standby``; ``pause SECONDS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRun:
    """One row of the table."""

    id: str
    """Its id, such as X001."""
    stops: tuple[Stop, ...]
    tested: Expectation
    """The expected instances of the tested side at the end: c0, c1, c2."""
    peer: Expectation
    """The expected instances of its peer, which crimson's suite does not check."""
    arrives: tuple[int | None, int | None] | None = None
    """Number of messages that reach the tested side and its peer; None for a side that may lose one with its lossy
    session. All that were sent, unless given."""
    order: Order | None = None
    """The required order of the two addresses; None: that of the function."""

    @property
    def label(self) -> str:
        """Its id and the point of its last stop."""
        words = [f"{stop.point} {stop.nth}" if stop.nth > 1 else stop.point for stop in self.stops[-1:]]
        return " ".join([self.id, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of crimson's failover suite, with its sub-runs."""

    id: str
    """Its id, such as CF01."""
    name: str
    policy: str
    """Policy of the tested side."""
    peer_policy: str
    steps: tuple[Step, ...]
    runs: tuple[SubRun, ...]
    order: Order = Order.ANY
    """The required order of the two addresses."""
    note: str = ""
    """How this differs from crimson, and why; empty if it does not."""

    def orders(self, run: SubRun) -> tuple[Order, ...]:
        """The orders of addresses in which to run a sub-run: both, if both sides dial and no order is required."""
        order = run.order or self.order
        if order is not Order.ANY:
            return (order,)
        return (Order.LOWER, Order.HIGHER) if "peer" in self.policy else (Order.LOWER,)


@dataclass(slots=True)
class Table:
    """Functions by id, and sub-runs with their functions by id."""

    functions: dict[str, Function] = field(default_factory=dict)
    runs: dict[str, tuple[Function, SubRun]] = field(default_factory=dict)

    @classmethod
    def of(cls, *functions: Function) -> Self:
        """The table of these functions.

        Raises:
            LocalError: two sub-runs have the same id.
        """
        table = cls()
        for function in functions:
            table.functions[function.id] = function
            for run in function.runs:
                if run.id in table.runs:
                    raise LocalError(f"{run.id} is in the table twice")
                table.runs[run.id] = function, run
        return table
