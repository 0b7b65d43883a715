"""Breadth-first search through the states of a scope, and the requirements on them.

States that do not differ in anything relevant count as one (see :func:`canonical`). Because the search is breadth
first, the first schedule that reaches a state is a shortest one. For each state it keeps its predecessor and its
successor under a fair schedule without further faults, so that liveness takes one pass over all states at the end.
"""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toolkit.exploration.scope import Scope
from toolkit.exploration.world import IDLE_US, SOON_US, ExplorationStep, State, World
from toolkit.machine.garbage import rarely_collecting

RESTLESS = "a fair schedule without further faults"
"""Beginning of the texts about schedules that never reach a state without steps."""
_MOST_FAIR_STEPS = 3000
_UNEXPANDED = -2
_TERMINAL = -1
_PROGRESS_EVERY = 2000


@dataclass(slots=True)
class Violation:
    """A violation, and the shortest schedule that leads to it."""

    text: str
    steps: tuple[ExplorationStep, ...]
    is_confirmed: bool = False
    """True if a replay on running endpoints, without copies and lookups, had the same violation."""

    @property
    def choices(self) -> str:
        """The steps as ``--replay`` parses them."""
        return " ".join(map(str, self.steps))


@dataclass(slots=True)
class Result:
    """The result of an exploration."""

    scope: Scope
    states: int = 0
    """Number of distinct states."""
    transitions: int = 0
    """Number of steps taken, including those to known states."""
    terminals: int = 0
    """Number of states in which no step is possible."""
    depth: int = 0
    """Number of steps to the most distant state."""
    node_states: int = 0
    """Number of distinct states of single nodes."""
    inputs: int = 0
    """Number of inputs that an endpoint has handled."""
    seconds: float = 0.0
    is_complete: bool = True
    """True if every state of the scope was visited."""
    violations: list[Violation] = field(default_factory=list)
    ends: list[tuple[ExplorationStep, ...]] = field(default_factory=list)
    """Schedules to some of the terminal states, whose whole histories are checked."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        scope = self.scope
        return {
            "proto": scope.protocol.value,
            "policy": scope.pairing,
            "messages": list(scope.messages),
            "faults": scope.faults,
            "kinds": [kind.value for kind in scope.kinds],
            "grain": scope.grain.value,
            "states": self.states,
            "transitions": self.transitions,
            "terminals": self.terminals,
            "deepest": self.depth,
            "node_states": self.node_states,
            "endpoint_inputs": self.inputs,
            "seconds": round(self.seconds, 2),
            "complete": self.is_complete,
            "violations": [
                {
                    "text": violation.text,
                    "steps": len(violation.steps),
                    "choices": violation.choices,
                    "confirmed": violation.is_confirmed,
                }
                for violation in self.violations
            ],
        }


def canonical(state: State) -> tuple[Any, ...]:
    """Return the part of a state that decides its future.

    Cookies count by equality, global_seqs of either node by order, connect_seqs by their differences, pauses
    between dials by their time left, longer timers by their order. Timers of idle links do not count.
    """
    a, b = state.nodes
    streams = state.streams
    forms: list[Any] = [a.form, b.form, state.faults, state.overtakes]
    cookies = [*a.cookies, *b.cookies]
    connect_seqs = [*a.connect_seqs, *b.connect_seqs]
    seqs_a, seqs_b = [*a.own_seqs, *b.peer_seqs], [*b.own_seqs, *a.peer_seqs]
    for stream in streams:
        near, far = (a, b) if stream.by == 0 else (b, a)
        forms.append(
            (
                stream.by,
                near.links.index(stream.near) if stream.near >= 0 else -1,
                far.links.index(stream.far) if stream.far >= 0 else -1,
                stream.phase,
                stream.out_ends,
                stream.back_ends,
            )
        )
        for is_back, queue in enumerate((stream.out, stream.back)):
            forms.append(len(queue))
            of_a = is_back == stream.by
            mine, theirs = (seqs_a, seqs_b) if of_a else (seqs_b, seqs_a)
            for piece in queue:
                forms.append(piece.form)
                cookies += piece.cookies
                connect_seqs += piece.connect_seqs
                mine += piece.own_seqs
                theirs += piece.peer_seqs
    names = {0: 0}
    forms += [names.setdefault(cookie, len(names)) for cookie in cookies]
    least = min(connect_seqs, default=0)
    forms += [seq - least for seq in connect_seqs] if least else connect_seqs
    forms.append(least > 0)
    for seqs in (seqs_a, seqs_b):
        ranks = {seq: rank for rank, seq in enumerate(sorted({0, *seqs}))}
        forms += [ranks[seq] for seq in seqs]
    forms += _times(state)
    return tuple(forms)


def _times(state: State) -> list[int]:
    times: list[int] = []
    long: list[int] = []
    for node, lag in zip(state.nodes, state.lags_us, strict=True):
        times.append(-1)
        for deadline in node.deadlines_us:
            left = max(0, deadline - lag)
            if left <= SOON_US:
                times.append(left)
            elif left <= IDLE_US:
                long.append(left)
                times.append(-2 - len(long))
    ranks = {left: rank for rank, left in enumerate(sorted(set(long)))}
    return times + [ranks[left] for left in long]


class Explorer:
    """Explores a scope.

    Args:
        scope: the nodes, messages and faults.
        max_states: maximum number of distinct states.
        most_violations: number of different violations after which to stop.
        most_ends: number of terminal states whose schedules are kept.
        progress: called from time to time with the result so far and the number of states to expand.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        max_states: int = 1_000_000,
        most_violations: int = 1,
        most_ends: int = 100,
        progress: Callable[[Result, int], None] | None = None,
    ) -> None:
        self._world = World(scope)
        self._max_states = max_states
        self._most_violations = most_violations
        self._most_ends = most_ends
        self._progress = progress
        self.result = Result(scope)
        self._known: dict[int, int] = {}
        self._parents = array("q")
        self._steps: list[ExplorationStep | None] = []
        self._fair = array("q")
        self._texts: set[str] = set()

    def run(self) -> Result:
        """Visit every state, or as many as ``max_states`` allows."""
        with rarely_collecting():
            return self._run()

    def _run(self) -> Result:
        began_s = time.perf_counter()
        result = self.result
        start = self._world.start()
        self._number(start, -1, None)
        level: list[tuple[int, State]] = [(0, start)]
        while level and not self._is_enough:
            following: list[tuple[int, State]] = []
            for number, state in level:
                self._expand(number, state, following)
                if self._is_enough:
                    break
            level = following
            result.depth += bool(level)
        result.is_complete = not level and not result.violations
        result.states = len(self._parents)
        if not result.violations:
            self._judge_fair_schedules(level)
        result.seconds = time.perf_counter() - began_s
        result.node_states, result.inputs = len(self._world.locals), self._world.locals.runs
        return result

    @property
    def _is_enough(self) -> bool:
        return len(self._parents) >= self._max_states or len(self.result.violations) >= self._most_violations

    def _number(self, state: State, parent: int, step: ExplorationStep | None) -> tuple[int, bool]:
        """Return the number of a state, and True if it is new."""
        key = hash(canonical(state))
        number = self._known.get(key)
        if number is not None:
            return number, False
        number = self._known[key] = len(self._parents)
        self._parents.append(parent)
        self._steps.append(step)
        self._fair.append(_UNEXPANDED)
        return number, True

    def _expand(self, number: int, state: State, following: list[tuple[int, State]]) -> None:
        world, result = self._world, self.result
        steps = world.steps(state)
        if not steps:
            self._fair[number] = _TERMINAL
            self._judge_terminal(number, state)
        for place, step in enumerate((*steps, *world.faults(state))):
            after, wrong = world.after(state, step)
            result.transitions += 1
            if wrong:
                for text in wrong:
                    self._violation(text, number, step)
                continue
            reached, is_new = self._number(after, number, step)
            if is_new:
                following.append((reached, after))
            if place == 0 and steps:
                self._fair[number] = reached
        if self._progress is not None and number % _PROGRESS_EVERY == 0:
            result.states = len(self._parents)
            self._progress(result, len(following))

    def _judge_terminal(self, number: int, state: State) -> None:
        result = self.result
        result.terminals += 1
        if len(result.ends) < self._most_ends:
            result.ends.append(self._schedule(number))
        for text in unfinished(self._world.scope, state):
            self._violation(f"nothing moves any more, but {text}", number, None)

    def _violation(self, text: str, number: int, step: ExplorationStep | None) -> None:
        if text not in self._texts:
            self._texts.add(text)
            steps = self._schedule(number)
            self.result.violations.append(Violation(text, steps if step is None else (*steps, step)))

    def _schedule(self, number: int) -> tuple[ExplorationStep, ...]:
        steps = []
        while (step := self._steps[number]) is not None:
            steps.append(step)
            number = self._parents[number]
        return tuple(reversed(steps))

    # ---- liveness

    def _judge_fair_schedules(self, level: list[tuple[int, State]]) -> None:
        """Require that a fair schedule without faults leads from every state to one without steps."""
        ends = bytearray(len(self._fair))
        for number, state in level:
            if not self._comes_to_rest(state):
                self._violation(f"{RESTLESS} never comes to rest", number, None)
                return
            ends[number] = 1
        for start in range(len(self._fair)):
            path = []
            number = start
            while not ends[number]:
                ends[number] = 2
                path.append(number)
                if self._fair[number] < 0:
                    break
                number = self._fair[number]
                if ends[number] == 2:
                    self._violation(f"{RESTLESS} goes in circles", start, None)
                    return
            for passed in path:
                ends[passed] = 1

    def _comes_to_rest(self, state: State) -> bool:
        for _ in range(_MOST_FAIR_STEPS):
            steps = self._world.steps(state)
            if not steps:
                return True
            state, wrong = self._world.after(state, steps[0])
            if wrong:
                return False
        return False


def unfinished(scope: Scope, state: State) -> list[str]:
    """Return the unfinished work in a state without steps.

    Empty if the scope may lose messages: then only the histories are checked.
    """
    if not scope.is_strict:
        return []
    texts = []
    for name, node, peer in zip("ab", state.nodes, reversed(state.nodes), strict=True):
        texts += [f"{name}'s {text}" for text in node.unsettled]
        if peer.sent < scope.messages[1 - node.index]:
            texts.append(f"{name}'s peer could not send")
        if len(node.got) < peer.sent:
            texts.append(f"{name} has {len(node.got)} of {peer.sent} messages")
    return texts
