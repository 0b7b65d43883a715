"""Chaos: draw a timeline at random. It depends only on the seed, the nodes and the chaos section of the spec."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Self

from messenger.errors import LocalError
from messenger.interception import Action
from toolkit.cluster.nemesis.timeline import Timeline, TimelineStep
from toolkit.faults.language import Fault, Scene, Undo, words
from toolkit.faults.language.messengers import Arm, MarkDown
from toolkit.faults.language.network import BlackHole, Finish, Flap, ImpairLink, Isolate, Partition, Refuse, Reset
from toolkit.faults.language.processes import Clock, Descriptors, Freeze, Kill, Memory, Restart, Stop
from toolkit.network.state import LinkState
from toolkit.scanner import did_you_mean

if TYPE_CHECKING:
    from toolkit.cluster.spec.model import Chaos

_TRIES = 12
"""Number of draws for a time, if faults conflict with those in force."""
_MOST_STEPS = 100_000
PACKETS = "packets"
"""Key of :attr:`NetworkFaults.lacks` for faults of single packets."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """The nodes of a cluster, and the faults that they can have."""

    nodes: tuple[str, ...]
    ours: tuple[str, ...]
    """Nodes that are messengers of msgrlab."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Words that the cluster cannot have, and why."""
    has_packets: bool = True
    """True if the network can lose and reorder packets; otherwise links are only delayed and slowed."""

    @classmethod
    def of(cls, scene: Scene) -> Self:
        """Return the nodes and possible faults of a cluster."""
        ours = tuple(name for name in scene.names if not scene.not_ours(name))
        cannot = {word.word: word.missing for word in words(scene) if word.missing}
        return cls(tuple(scene.names), ours, cannot, has_packets=not scene.lacks(PACKETS))


class _Draw:
    """Draws single faults."""

    def __init__(self, rng: Random, crowd: Crowd) -> None:
        self.rng = rng
        self.crowd = crowd

    def node(self) -> str:
        return self.rng.choice(self.crowd.nodes)

    def own(self) -> str:
        return self.rng.choice(self.crowd.ours)

    def pair(self) -> tuple[str, str]:
        a, b = self.rng.sample(self.crowd.nodes, 2)
        return a, b

    def own_pair(self) -> tuple[str, str]:
        a = self.own()
        return a, self.rng.choice([name for name in self.crowd.nodes if name != a])

    def link(self) -> ImpairLink:
        rng = self.rng
        states = [
            LinkState(delay_ms=rng.choice((1, 20, 200))),
            LinkState(delay_ms=rng.choice((20, 100)), jitter_ms=rng.choice((5, 20))),
            LinkState(rate_bits_per_s=rng.choice((100_000, 1_000_000, 10_000_000))),
        ]
        if self.crowd.has_packets:
            states += [
                LinkState.model_validate({"loss": {"percent": rng.choice((1, 10, 40))}}),
                LinkState.model_validate({"loss": {"to_bad_percent": 5, "to_good_percent": rng.choice((20, 50))}}),
                LinkState(duplicate_percent=rng.choice((1, 20))),
                LinkState(delay_ms=10, reorder_percent=rng.choice((5, 50))),
                LinkState(corrupt_percent=rng.choice((0.1, 5))),
            ]
        return ImpairLink(*self.pair(), rng.choice(states), rng.random() < 0.5)

    def arm(self) -> Arm:
        rng = self.rng
        point = rng.choice(("MESSAGE READ", "MESSAGE WRITE", "ACK READ", "ACK WRITE", "SERVER_IDENT READ"))
        return Arm(self.own(), point, rng.choice((Action.FAULT, Action.BLOCK, Action.STALL)), rng.randrange(1, 6))


_KINDS: Mapping[str, Callable[[_Draw], Fault]] = {
    "kill": lambda draw: Kill(draw.node()),
    "stop": lambda draw: Stop(draw.node()),
    "freeze": lambda draw: Freeze(draw.node()),
    "restart": lambda draw: Restart(draw.node(), draw.rng.random() < 0.3),
    "clock": lambda draw: Clock(draw.own(), draw.rng.choice((-7200.0, -60.0, -1.0, 1.0, 60.0, 7200.0))),
    "descriptors": lambda draw: Descriptors(draw.own(), draw.rng.randrange(3)),
    "memory": lambda draw: Memory(draw.node(), draw.rng.choice((1, 16))),
    "partition": lambda draw: Partition(*draw.pair(), draw.rng.random() < 0.4),
    "isolate": lambda draw: Isolate(draw.node()),
    "flap": lambda draw: Flap(*draw.pair(), draw.rng.choice((0.1, 0.5, 1.0)), draw.rng.choice((0.2, 0.5, 0.8))),
    "link": lambda draw: draw.link(),
    "refuse": lambda draw: Refuse(*draw.pair()),
    "black-hole": lambda draw: BlackHole(*draw.pair(), draw.rng.choice((100, 576, 1000))),
    "reset": lambda draw: Reset(*draw.pair()),
    "finish": lambda draw: Finish(*draw.pair()),
    "mark-down": lambda draw: MarkDown(*draw.own_pair()),
    "arm": lambda draw: draw.arm(),
}
DRAWN = tuple(_KINDS)
"""Words that can be drawn."""
_ON_REQUEST = frozenset({"memory", "stop"})
"""Words that are drawn only if the spec names them: a process without memory may exit, and a stop is no
failure."""
_FOR_OURS = frozenset({"clock", "mark-down", "arm", "descriptors"})
"""Words that are drawn for messengers of msgrlab only. Without descriptors a daemon of Ceph may abort: a monitor
of 20.2 does so when it cannot open its store to measure it."""
_FOR_ONE = frozenset({"kill", "stop", "freeze", "restart", "clock", "descriptors", "memory", "arm"})


def kinds_for(chaos: "Chaos", crowd: Crowd) -> list[str]:
    """Return the words to draw from.

    Raises:
        LocalError: a word of the spec does not exist, is never drawn, or is impossible here; or no word is
            possible.
    """
    for word in chaos.faults:
        if word not in _KINDS:
            raise LocalError(f"chaos: {word!r} is not drawn{did_you_mean(word, DRAWN)}")
        if reason := _why_not(word, crowd):
            raise LocalError(f"chaos: {word}: {reason}")
    wanted = chaos.faults or [word for word in DRAWN if word not in _ON_REQUEST]
    found = [word for word in DRAWN if word in wanted and not _why_not(word, crowd)]
    if not found:
        raise LocalError("chaos: this cluster supports no fault")
    return found


def _why_not(word: str, crowd: Crowd) -> str:
    if word in crowd.cannot:
        return crowd.cannot[word]
    if word in _FOR_OURS and not crowd.ours:
        return "no node is one of ours"
    if not crowd.nodes:
        return "there are no nodes"
    if word not in _FOR_ONE and len(crowd.nodes) < 2:
        return "it needs two nodes"
    return "between two nodes it is a partition" if word == "isolate" and len(crowd.nodes) == 2 else ""


def draw(chaos: "Chaos", crowd: Crowd) -> Timeline:
    """Draw a timeline.

    Faults start every ``every_s`` on average, and those that last do so for ``lasts_s`` on average, so they
    overlap if that is longer; but there are never two on the same process or on the same link. All end by
    ``for_s``.

    Raises:
        LocalError: see :func:`kinds_for`.
    """
    if chaos.for_s / chaos.every_s > _MOST_STEPS:
        raise LocalError(
            f"chaos: more than {_MOST_STEPS} faults: for_s is {chaos.for_s:g}, every_s {chaos.every_s:g}"
        )
    rng = Random(f"chaos {chaos.seed}")
    kinds, single = kinds_for(chaos, crowd), _Draw(rng, crowd)
    busy_until_s: dict[str, float] = {}
    steps: list[TimelineStep] = []
    at_s = 0.0
    while True:
        at_s = round(at_s + chaos.every_s * rng.uniform(0.5, 1.5), 3)
        if at_s >= chaos.for_s:
            return Timeline.of(steps)
        until_s = round(min(at_s + chaos.lasts_s * rng.uniform(0.5, 1.5), chaos.for_s), 3)
        for _ in range(_TRIES):
            fault = _KINDS[rng.choice(kinds)](single)
            things = _things(fault)
            if all(busy_until_s.get(thing, 0.0) < at_s for thing in things):
                steps.append(TimelineStep(at_s, fault))
                if fault.LASTS:
                    steps.append(TimelineStep(until_s, Undo(fault)))
                    busy_until_s.update(dict.fromkeys(things, until_s))
                break


def _things(fault: Fault) -> list[str]:
    """Return what a fault affects; two faults of the same thing at a time would revert each other."""
    if isinstance(fault, Isolate):
        return [f"isolated {fault.a}"]
    if fault.pairs and not isinstance(fault, MarkDown):
        return [f"way {' '.join(sorted(pair))}" for pair in fault.pairs]
    return [f"process {fault.nodes[0]}"]
