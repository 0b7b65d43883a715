"""Plays a row of the table in a lab, and compares the result with the row."""

from collections.abc import Callable
from typing import Self

from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.instances import Instance, Instances
from toolkit.scenarios.crimson.model import Check, Expected, Function, Order, Stop, SubRun

TESTED, PEER = "a", "b"
_ENTITIES = {TESTED: "osd.2", PEER: "osd.4"}
_ACKS_S = 0.1
"""Seconds in which acks on their way arrive, and a session notices what its peer did."""
_AFTERWARDS = 2
"""Number of messages each way after the row; they must not change any counter."""


class Play:
    """One row, step by step.

    Args:
        lab: where.
        function: whose row it is.
        run: the row.
        order: the tested side's address: lower or higher than its peer's.
    """

    def __init__(self, lab: Lab, function: Function, run: SubRun, order: Order) -> None:
        self.lab = lab
        self.function = function
        self.run = run
        self.instances = {side: Instances(lab.history, side) for side in (TESTED, PEER)}
        self._hits: dict[str, int] = {}
        self._unsent = {TESTED: 0, PEER: 0}
        """What waits for a connection to be sent on."""
        self._sent = {TESTED: 0, PEER: 0}
        self._steps: dict[str, Callable[[str], None]] = {
            "send": self._send,
            "try send": self._try_send,
            "dial": self._dial,
            "keepalive": lambda side: lab.keepalive(side, _other(side)),
            "mark down": self._mark_down,
        }
        self._has_connection = {TESTED: False, PEER: False}
        self._accepts_before = {TESTED: 0, PEER: 0}
        """Accept events of sessions that are marked down by now."""
        names = (TESTED, PEER) if order is Order.LOWER else (PEER, TESTED)
        policies = {TESTED: function.policy, PEER: function.peer_policy}
        for name in names:  # addresses go up in this order
            lab.node(name, _ENTITIES[name], policies[name])
        lab.start(*names)
        for stop in run.stops:
            lab.arm(TESTED, stop.point, stop.action, stop.nth)
            self._hits[stop.point] = self._hits.get(stop.point, 0) + 1

    @classmethod
    def of(cls, lab: Lab, function: Function, run: SubRun, order: str) -> Self:
        """Make a play, with the order given by its name."""
        return cls(lab, function, run, Order(order))

    def play(self) -> None:
        """Carry out all steps, and judge the result."""
        for step in self.function.steps:
            if isinstance(step, Check):
                self.expect_instances(TESTED, step.tested)
            else:
                self.do(step)
        for point, count in self._hits.items():
            self.lab.expect_hit(TESTED, point, count)
        self.judge()

    def do(self, step: str) -> None:
        """Carry out one step; see :data:`Step`."""
        side, words = (PEER, step.removeprefix("peer ")) if step.startswith("peer ") else (TESTED, step)
        lab = self.lab
        what, _, number = step.partition(" ")
        if words in self._steps:
            self._steps[words](side)
        elif step == "held":
            self._each_held(lambda stop: lab.expect_hit(TESTED, stop.point, self._hits[stop.point]))
        elif step == "release":
            self._each_held(lambda stop: lab.unblock(TESTED, stop.point))
        elif step == "arrived":
            self._flush()
            self._arrived()
        elif what == "replaced":
            self._wait_replaced(int(number))
        elif step == "standby":
            lab.expect_state(TESTED, PEER, "STANDBY")
        else:
            lab.wait(float(number))

    # ---- steps

    def _each_held(self, what: Callable[[Stop], None]) -> None:
        for stop in self.run.stops:
            if stop.holds:
                what(stop)

    def _send(self, side: str) -> None:
        self._sent[side] += 1
        self._try_send(side)

    def _try_send(self, side: str) -> None:
        """Send, or keep the message until there is a connection, as crimson's suite does."""
        accepted = self.lab.events(side, _other(side), EventKind.ACCEPT) > self._accepts_before[side]
        if self._has_connection[side] or accepted:
            self.lab.send(side, _other(side))
        else:
            self._unsent[side] += 1

    def _dial(self, side: str) -> None:
        if not self._unsent[side]:  # sending dials; in one command, so that no fault comes between the two
            self.lab.dial(side, _other(side))
        self._connected(side)
        if self._unsent[_other(side)]:
            self.lab.expect_event(_other(side), side, "accept")
            self._connected(_other(side), dials=False)

    def _connected(self, side: str, *, dials: bool = True) -> None:
        """Send the messages that waited for a connection; an accepted one may be gone, and is not replaced."""
        self._has_connection[side] = True
        waiting, self._unsent[side] = self._unsent[side], 0
        if waiting:
            self.lab.send(side, _other(side), waiting, dials=dials)

    def _flush(self) -> None:
        for side in (TESTED, PEER):
            if self._unsent[side]:
                self.lab.expect_event(side, _other(side), "accept")
                self._connected(side, dials=False)

    def _mark_down(self, side: str) -> None:
        self.lab.wait(_ACKS_S)
        self.lab.mark_down(side, _other(side))
        self._has_connection[side] = False
        self._accepts_before[side] = self.lab.events(side, _other(side), EventKind.ACCEPT)
        self.lab.wait(_ACKS_S)

    def _due(self) -> tuple[int | None, int | None]:
        """Number of messages expected so far at the tested node and at its peer."""
        return self.run.arrives or (self._sent[PEER], self._sent[TESTED])

    def _arrived(self) -> None:
        for side, count in zip((TESTED, PEER), self._due(), strict=True):
            self.lab.expect_delivered(_other(side), side, count or 0)

    def _wait_replaced(self, count: int) -> None:
        def replaced() -> int:
            return sum(instance.state == "replaced" for instance in self.instances[TESTED].now())

        self.lab.wait_for(lambda: replaced() >= count, f"{count} instances replaced at {TESTED}")

    # ---- judging

    def judge(self) -> None:
        """Require that every expected message has arrived, and that both sides' instances are those of the row."""
        lab = self.lab
        self._flush()
        self._arrived()
        self.expect_instances(TESTED, self.run.tested)
        self.expect_instances(PEER, self.run.peer)
        before = self._seen()
        if any(wanted.state == "established" for wanted in self.run.tested):
            lab.exchange(TESTED, PEER, _AFTERWARDS)
            self._sent = {side: count + _AFTERWARDS for side, count in self._sent.items()}
        lab.settle()
        lab.require(self._seen() == before, f"at the end there was {before}, a little later {self._seen()}")
        for side, count in zip((TESTED, PEER), self._due(), strict=True):
            seen = lab.delivered(_other(side), side)
            lab.require(count is None or seen == count, f"{side} got {seen} messages, {count} were to arrive")

    def expect_instances(self, side: str, wanted: tuple[Expected, ...]) -> None:
        """Require that a side's connection instances are exactly these."""
        self.lab.wait_for(
            lambda: self._fit(wanted, self.instances[side].now()),
            f"instances of {side}: {' | '.join(map(str, wanted))}",
            lambda: str(self.instances[side]),
        )

    def _fit(self, wanted: tuple[Expected, ...], seen: list[Instance]) -> bool:
        real = self.lab.real_time
        return len(wanted) == len(seen) and all(
            one.fits(other, on_sockets=real) for one, other in zip(wanted, seen, strict=True)
        )

    def _seen(self) -> str:
        return " / ".join(map(str, self.instances.values()))


def _other(side: str) -> str:
    return PEER if side == TESTED else TESTED
