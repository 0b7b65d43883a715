"""Draws, beside the faults of a seed: misuse by applications, false peers, other rules, smaller limits.

A random generator of their own draws them, so that the runs of seeds without them do not change.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any

from messenger.link import Protocol
from messenger.rules import SETTINGS
from toolkit.simulation.draws import TICKET_MOTIFS, Options, Size, chance, one_of
from toolkit.simulation.schedule import Operation, Plan

CALLBACKS = ("dispatch", "connect", "accept", "reset", "remote_reset", "refused")
"""The callbacks of an application in which it may misuse the messenger."""


class Carelessness(StrEnum):
    """Kinds of misuse and unusual settings, beside the kinds of faults."""

    CALLBACK = "callback"
    """An application raises, marks down, dials or sends in one of its callbacks."""
    UNSENDABLE = "unsendable"
    """An application releases a buffer of a message that the messenger still needs."""
    ONE_ADDRESS = "one_address"
    """An application dials one of a peer's two addresses."""
    STRANGER = "stranger"
    """An unknown peer stops, claims another's address, or declares a message that it does not send in full."""
    CLOCK = "clock"
    """A node's wall clock is set."""
    RULES = "rules"
    """Two disputed rules differ from their defaults."""
    LIMITS = "limits"
    """Limits are small, and an application stops reading for longer than the deadlines of links."""


_CHANCE = 0.4
_CHANCE_OF_KIND = 0.35
_ACTIONS = (("raise", 3), ("mark_down", 3), ("send", 2), ("dial", 2), ("release", 1))
_ENDINGS = (("stop", 2), ("close", 1), ("noise", 1), ("declare", 2), ("stall", 1), ("squat", 2), ("own", 1))
NO_LIVENESS = frozenset(
    {
        # A race whose winner cannot dial never ends, which the default prevents.
        ("race_winner", "insists"),
        # Peers whose clients have no port, or that listen at two addresses, are refused permanently.
        ("portless_peer", "refuse"),
        ("server_addresses", "exact"),
        ("server_number", "close"),
        ("hello_addr", "own"),
    }
)
"""Settings with which some nodes may never get a session: their runs are checked for safety only."""
_CHANCE_OF_LIVENESS = 0.8
_RULES = tuple(
    (rule, setting)
    for rule, settings in SETTINGS.items()
    for setting in settings[1:]
    if (rule, setting) not in NO_LIVENESS
)


def may_never_meet(options: Options) -> bool:
    """True if a node has a rule by which it may refuse its peers permanently."""
    return any(node.options.get(rule) == setting for node in options.nodes for rule, setting in NO_LIVENESS)


def draw_carelessness(rng: Random, options: Options, plan: Plan) -> tuple[Options, Plan]:
    """Draw misuse and unusual settings, and add them to the options and the plan of a seed."""
    if options.size is not Size.SMALL or not chance(rng, _CHANCE):
        return options, plan
    kinds = tuple(kind for kind in Carelessness if chance(rng, _CHANCE_OF_KIND)) or (Carelessness.CALLBACK,)
    drawer = _Drawer(rng, options, end_s=plan[-1].at_s if plan else 0.0)
    for kind in kinds:
        drawer.draw(kind)
    if Carelessness.RULES in kinds and not chance(rng, _CHANCE_OF_LIVENESS):
        drawer.draw_rule_without_liveness()
    operations = sorted((*plan, *drawer.operations), key=lambda operation: operation.at_s)
    return drawer.options, tuple(operations)


class _Drawer:
    """Draws the operations and options of each kind."""

    def __init__(self, rng: Random, options: Options, end_s: float) -> None:
        self._rng = rng
        self._end_s = end_s
        self.options = options
        self.operations: list[Operation] = []
        self._kinds: Mapping[Carelessness, Callable[[], None]] = {
            Carelessness.CALLBACK: self._callbacks,
            Carelessness.UNSENDABLE: self._unsendable,
            Carelessness.ONE_ADDRESS: self._one_address,
            Carelessness.STRANGER: self._strangers,
            Carelessness.CLOCK: self._clock,
            Carelessness.RULES: self._rules,
            Carelessness.LIMITS: self._limits,
        }

    def draw(self, kind: Carelessness) -> None:
        """Draw the operations and options of one kind."""
        self._kinds[kind]()

    # ---- operations

    def _callbacks(self) -> None:
        for _ in range(self._rng.randrange(1, 4)):
            action = one_of(self._rng, *_ACTIONS)
            self._add("react", self._node(), self._rng.choice(CALLBACKS), self._rng.randrange(1, 4), action)

    def _unsendable(self) -> None:
        for _ in range(self._rng.randrange(1, 3)):
            self._add("take_back", *self._pair(), self._rng.randrange(3))

    def _one_address(self) -> None:
        """Have every listening node listen for both protocols, and applications dial one address of a peer."""
        if self.options.way.protocol is Protocol.V1:  # address vectors list v2 first: nodes would use v2
            return
        self.options = replace(self.options, both_protocols=True)
        for _ in range(self._rng.randrange(1, 4)):
            self._add("dial_one", *self._pair(), self._rng.randrange(2))

    def _strangers(self) -> None:
        for _ in range(self._rng.randrange(1, 3)):
            target, victim = self._pair()
            ending = one_of(self._rng, *_ENDINGS)
            if ending == "squat" and self.options.way.protocol is Protocol.V1:
                ending = "own"  # on v1, without entity numbers, a squatter looks like a restarted peer
            self._add("stranger", target, victim, ending, self._rng.randrange(9))

    def _clock(self) -> None:
        if self.options.motif in TICKET_MOTIFS:
            return
        node = self._node()
        self._add("skew", node, float(self._rng.choice((-600, 1, 600))))
        self._add("skew", node, 0.0)

    # ---- options

    def _rules(self) -> None:
        """Set two rules, at one node or at all."""
        (one, setting), (other, other_setting) = self._rng.sample(_RULES, 2)
        name = None if chance(self._rng, 0.5) else self._node()
        self._set({one: setting, other: other_setting}, name)

    def draw_rule_without_liveness(self) -> None:
        """Set one rule with which nodes may never get a session."""
        self._set(dict([self._rng.choice(sorted(NO_LIVENESS))]), None if chance(self._rng, 0.5) else self._node())

    def _limits(self) -> None:
        """Set small limits, and have an application keep messages for longer than the deadlines of links."""
        rng = self._rng
        limits: dict[str, Any] = {
            "max_held_messages": rng.choice((1, 3)),
            "frame_timeout_s": rng.choice((0.5, 3.0)),
        }
        if chance(rng, 0.5):
            limits["ms_connection_idle_timeout"] = 3.0
        node = self._node()
        self._add("hold", node)
        self._add("release", node, later_s=rng.choice((2.0, 8.0, 20.0)))
        limits["frame_timeout_contended_s"] = rng.choice((0.2, 5.0))
        self._set(limits, None)

    def _set(self, settings: Mapping[str, Any], name: str | None) -> None:
        nodes = tuple(
            replace(node, options={**node.options, **settings}) if name in {None, node.name} else node
            for node in self.options.nodes
        )
        self.options = replace(self.options, nodes=nodes)

    # ----

    def _add(self, verb: str, *args: str | float, later_s: float = 0.0) -> None:
        at_s = self._rng.random() * self._end_s + later_s
        self.operations.append(Operation(round(at_s, 6), verb, args))

    def _node(self) -> str:
        return self._rng.choice(self.options.nodes).name

    def _pair(self) -> tuple[str, str]:
        return self._rng.choice(self.options.pairs)
