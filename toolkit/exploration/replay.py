"""Runs one schedule again, step by step on running endpoints, and writes its history.

It copies nothing and looks nothing up, so it confirms the results of a search independently.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from messenger.compat import override
from messenger.errors import LocalError
from messenger.outputs import TraceRecord
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.exploration.local import Change, LocalState, LocalStates
from toolkit.exploration.node import ADDRS, Input, Node
from toolkit.exploration.scope import NAMES, FaultKind, Scope
from toolkit.exploration.search import RESTLESS, unfinished
from toolkit.exploration.world import FAULTS, ExplorationStep, State, World

if TYPE_CHECKING:
    from toolkit.report.sequence import SequenceChart

_STEP_S = 0.0001
"""Seconds between steps in the history, in which time otherwise stands still."""
_MOST_FAIR_STEPS = 3000
_JUDGED = tuple(id_ for id_ in INVARIANTS if id_ != "link_timeouts")
"""All invariants except the one on timeouts: here a pause of any length may end while frames are on their way."""


@dataclass(slots=True)
class Replay:
    """The result of a schedule."""

    history: History
    wrong: list[str]
    """Violations."""
    is_at_rest: bool
    """True if no step was possible at the end."""

    @property
    def chart(self) -> "SequenceChart":
        """The frames between the two nodes."""
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only charts need it

        return SequenceChart(self.history, NAMES)


def parse_choices(text: str) -> list[ExplorationStep]:
    """Parse the steps of a text.

    Raises:
        LocalError: a word is not a step.
    """
    steps = []
    for word in text.split():
        try:
            steps.append(ExplorationStep.parse(word))
        except ValueError:
            raise LocalError(
                f"{word!r} is not a step; examples of steps: a:connect, arrive0, forth1, notice0@b"
            ) from None
    return steps


def replay(scope: Scope, steps: Iterable[ExplorationStep], *, to_rest: bool = False) -> Replay:
    """Run a schedule.

    Args:
        scope: the scope that the schedule belongs to.
        steps: the steps, in order.
        to_rest: True to continue with a fair schedule without faults until no step is possible.

    Raises:
        LocalError: a step is not possible at its place.
    """
    nodes = _RunningNodes(scope)
    world = World(scope, nodes)
    state = world.start()
    wrong: list[str] = []
    for step in steps:
        if step not in world.steps(state) and step not in world.faults(state):
            possible = " ".join(map(str, (*world.steps(state), *world.faults(state))))
            raise LocalError(f"step {nodes.count + 1} cannot be {step}; possible are {possible}")
        state = _do(world, nodes, state, step, wrong)
    moves = world.steps(state)
    for _ in range(_MOST_FAIR_STEPS if to_rest and not wrong else 0):
        if not moves:
            break
        state = _do(world, nodes, state, moves[0], wrong)
        moves = world.steps(state)
    if not moves:
        wrong += [f"nothing moves any more, but {text}" for text in unfinished(scope, state)]
        nodes.at_rest()
        wrong += [f"{result.id}: {v.text}" for result in check(nodes.history, _JUDGED) for v in result.violations]
    elif to_rest and not wrong:
        wrong.append(f"{RESTLESS} never comes to rest")
    return Replay(nodes.history, wrong, is_at_rest=not moves)


def _do(world: World, nodes: "_RunningNodes", state: State, step: ExplorationStep, wrong: list[str]) -> State:
    nodes.step(step)
    state, bad = world.after(state, step)
    wrong += bad
    return state


def judge(
    scope: Scope, schedules: Sequence[Sequence[ExplorationStep]]
) -> list[tuple[str, Sequence[ExplorationStep]]]:
    """Check whole schedules by the invariants of toolkit/checks; return each violation with its schedule."""
    return [(text, schedule) for schedule in schedules for text in replay(scope, schedule).wrong]


class _RunningNodes(LocalStates):
    """Two nodes that run once, and their history."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, live_nodes=0)
        self.history = History()
        self.count = 0
        self._running: dict[int, Node] = {}
        self._cookies = 0

    def step(self, step: ExplorationStep) -> None:
        """Record that a step begins."""
        self.count += 1
        self._write(SCENARIO, "step", {"verb": str(step), "args": ""})
        if step.what in FAULTS and step.what != FaultKind.MARK_DOWN:
            self._write(NETWORK, "cut", {"a": NAMES[0], "b": NAMES[1], "at": {}, "detail": str(step)})

    def at_rest(self) -> None:
        """Record the nodes' final counters."""
        for index, node in sorted(self._running.items()):
            self._write(NAMES[index], "end", node.endpoint.snapshot())

    @override
    def start(self, index: int, sent: int = 0, incarnation: int = 1) -> LocalState:
        if incarnation > 1:
            self._write(NAMES[index], "process", {"action": "kill", "incarnation": incarnation - 1})
        process = {
            "action": "start",
            "incarnation": incarnation,
            "addrs": f"{self._scope.protocol}:{ADDRS[index]}",
        }
        self._write(NAMES[index], "process", process)
        self._running[index] = Node(self._scope, index, sent, incarnation)
        return self._state(index, None)

    @override
    def after(
        self, state: LocalState, given: Input, elapsed_us: int, taken: set[int] | None = None
    ) -> tuple[LocalState, Change] | None:
        """Return the state of the running node."""
        if taken is None:
            return None
        index = state.index
        node = self._running[index]
        node.chance.fresh = self._cookies  # unlike a search, a replay never reuses a cookie
        effects = node.take(given, elapsed_us, lambda record: self._trace(index, node.incarnation, record))
        self._cookies += node.chance.draws
        change = Change(effects, self._pieces)
        return self._state(index, (state, given, elapsed_us, 0)), change

    def _state(self, index: int, origin: Any) -> LocalState:  # noqa: ANN401
        node = self._running[index]
        return LocalState(node, node.digest(), 0, origin)

    def _trace(self, index: int, incarnation: int, record: TraceRecord) -> None:
        fields = dict(record.fields)
        if "link" in fields:
            restarts = "" if incarnation == 1 else f".{incarnation}"
            fields["link"] = f"{NAMES[index]}{restarts}/{fields['link']}"
        if "session" in fields and "peer" in fields and str(fields["peer"]).endswith(ADDRS[1 - index]):
            fields["peer"] = NAMES[1 - index]
        self._write(NAMES[index], record.kind, fields)

    def _write(self, node: str, kind: str, fields: dict[str, Any]) -> None:
        now = max((node.now for node in self._running.values()), default=0.0)
        self.history.append(now + self.count * _STEP_S, node, kind, **fields)
