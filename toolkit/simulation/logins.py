"""What a seed draws about logins: a monitor, which all nodes log in at, and faults between them and it.

A separate generator draws them, so that seeds that draw none of them keep their runs.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from toolkit.simulation.draws import Login, Options, Size, chance, one_of
from toolkit.simulation.login_lab import MONITOR
from toolkit.simulation.schedule import Operation, Plan

_CHANCE = 0.3
_SERVICE_TTL_S = 600.0
"""A quarter of it, the time between a ticket's renewal and its end, is longer than healing takes; and links to the
monitor, which are idle in between, stay open for 900 s."""
_AUTH_TTL_S = 2 * _SERVICE_TTL_S
_LOGIN_S = 0.3
"""Time until traffic begins. Without faults a login takes a tenth of it."""
_PERIOD = 0.8
"""Share of the validity of tickets after which nodes renew them."""


def draw_logins(rng: Random, options: Options, plan: Plan) -> tuple[Options, Plan]:
    """Draw a monitor, and add logins and what may happen to them to the plan of a seed."""
    has_other_plans = options.motif is not None or options.roles.entities[1] == "mon"
    if options.size is not Size.SMALL or has_other_plans or not chance(rng, _CHANCE):
        return options, plan
    method = one_of(rng, ("cephx", 4), ("none", 1 if options.way.mode == "crc" else 0))  # secure mode takes a key
    offers = one_of(rng, ((method,), 2), (("cephx", "none"), 1), (("none", "cephx"), 1))
    drawer = _Drawer(rng, options, plan)
    drawer.draw()
    return replace(options, login=Login(method, offers, _AUTH_TTL_S, _SERVICE_TTL_S)), drawer.plan()


class _Drawer:
    """Draws logins, faults on the way to the monitor, and the passing of time."""

    def __init__(self, rng: Random, options: Options, plan: Plan) -> None:
        self._rng = rng
        self._names = [node.name for node in options.nodes]
        self._operations = [replace(operation, at_s=operation.at_s + _LOGIN_S) for operation in plan]
        self._end_s = max((operation.at_s for operation in self._operations), default=0.0)
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (lambda: self._fault("cut"), 3),
            (lambda: self._fault("half_open"), 1),
            (lambda: self._fault("mark_down"), 3),
            (lambda: self._fault("partition", False), 1),
            (lambda: self._lasting(("freeze", MONITOR), ("thaw", MONITOR)), 1),
            (lambda: self._lasting(("ready", False), ("ready", True)), 1),
            (lambda: self._add(self._time_s(), "rotate_services"), 1),
        ]

    def draw(self) -> None:
        """Draw the first logins, up to four faults and later logins, and sometimes the end of tickets."""
        for name in self._names:
            self._add(self._rng.random() * _LOGIN_S / 10, "login", name)
        for _ in range(self._rng.randrange(5)):
            one_of(self._rng, *self._kinds)()
            self._add(self._time_s(), one_of(self._rng, ("login", 2), ("renew", 1)), self._rng.choice(self._names))
        if chance(self._rng, 0.5):
            self._age()

    def plan(self) -> Plan:
        """The operations in order of time."""
        return tuple(sorted(self._operations, key=lambda operation: operation.at_s))

    def _age(self) -> None:
        """Let so much time pass that keys rotate and tickets are renewed, or expire where a node misses it."""
        for period in range(1, self._rng.randrange(2, 5)):
            at_s = self._end_s + period * _PERIOD * _SERVICE_TTL_S
            self._add(at_s, "rotate_services")
            for name in self._names:
                if chance(self._rng, 0.8):
                    self._add(at_s + 1.0, one_of(self._rng, ("login", 2), ("renew", 1)), name)

    def _fault(self, verb: str, *more: bool) -> None:
        self._add(self._time_s(), verb, self._rng.choice(self._names), MONITOR, *more)

    def _lasting(self, begin: tuple[str, str | bool], end: tuple[str, str | bool]) -> None:
        at_s = self._time_s()
        self._add(at_s, *begin)
        self._add(at_s + self._rng.choice((0.05, 1.0, 5.0)), *end)

    def _time_s(self) -> float:
        return self._rng.random() * self._end_s

    def _add(self, at_s: float, verb: str, *args: str | bool) -> None:
        self._operations.append(Operation(round(at_s, 6), verb, args))
