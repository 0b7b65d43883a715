"""The life of one seed: draw a schedule, run its faults, heal, require liveness, check (swarm testing).

Phase 1 runs the schedule. Phase 2 heals the network, releases everything that is held, restarts dead nodes, and
then requires within :func:`bound_s` of virtual time that a message of every node that may send arrives and that
all nodes come to rest. The invariants judge the history of both.
"""

import hashlib
import traceback
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from random import Random
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from messenger.interception import BLOCK_LIMIT_S
from messenger.session.session import SessionState
from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.errors import ScenarioFailed
from toolkit.lab.campaign import Failure
from toolkit.simulation.careless import draw_carelessness, may_never_meet
from toolkit.simulation.draws import Options, Size, draw_options
from toolkit.simulation.login_lab import MONITOR
from toolkit.simulation.logins import draw_logins
from toolkit.simulation.operations import Operations
from toolkit.simulation.schedule import Plan, draw_schedule
from toolkit.simulation.shapes import draw_shapes
from toolkit.simulation.swarm_lab import Probe, SwarmLab

if TYPE_CHECKING:
    from toolkit.report.sequence import SequenceChart

LIVENESS = "LIVE"
"""Id of the failure to deliver or to come to rest after the faults."""
CRASH = "CRASH"
"""Id of an undocumented exception."""
CALLS = "CALLS"
"""Id of a messenger that called its application more or less often than its history shows."""
SAFETY = tuple(id_ for id_ in INVARIANTS if id_ not in {"INV-6", "liveness_after_heal"})
"""The invariants that do not require any delivery."""
_MOST_PROBES = 6
_CHANCE_OF_ALL_AT_ONCE = 0.25
_CHANCE_OF_WAKING = 0.3
_LOGIN_STEP_S = 2.0
"""Seconds after which a node without a login tries again, as a MonClient does on its tick."""
_REST_STEPS_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Outcome:
    """The result of one life."""

    seed: int
    options: Options
    plan: Plan
    history: History
    failures: list[Failure]
    events: int
    """Number of events of the simulation."""
    keep: Collection[int] | None = None
    """Indices in the plan of the operations that were carried out; None: all."""

    @property
    def passed(self) -> bool:
        """True if it has no failure."""
        return not self.failures

    @property
    def chart(self) -> "SequenceChart":
        """Its frames as a sequence chart."""
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only charts need it

        return SequenceChart(self.history)

    @property
    def schedule(self) -> list[str]:
        """The operations that were carried out, a line each, with their indices in the plan."""
        from toolkit.simulation.findings import schedule  # noqa: PLC0415 - as above

        return schedule(self)

    @property
    def replay_command(self) -> str:
        """The command that runs this life again."""
        from toolkit.simulation.findings import replay_command  # noqa: PLC0415 - as above

        return replay_command(self)

    def shrink(self) -> "Outcome":
        """The life of the same seed with as few operations as still cause the first failure (delta debugging).

        Raises:
            LocalError: nothing has failed.
        """
        from toolkit.simulation.shrink import shrink  # noqa: PLC0415 - as above

        if self.passed:
            raise LocalError(f"seed {self.seed} passed: there is nothing to shrink")
        return shrink(self)

    def _repr_html_(self) -> str:
        from toolkit.simulation.findings import describe_life  # noqa: PLC0415 - as above

        return f"<pre>{escape(chr(10).join(describe_life(self)))}</pre>"

    @property
    def digest(self) -> str:
        """A hash over every byte of the history."""
        return hashlib.sha256(self.history.dump().encode()).hexdigest()


def draw(seed: int, size: Size = Size.SMALL) -> tuple[Options, Plan]:
    """The options and the plan of a seed."""
    rng = Random(f"swarm {size} {seed}")
    options = draw_options(rng, size)
    plan = draw_schedule(rng, options)
    options, plan = draw_carelessness(Random(f"careless {size} {seed}"), options, plan)
    options, plan = draw_shapes(Random(f"shapes {size} {seed}"), options, plan)
    return draw_logins(Random(f"logins {size} {seed}"), options, plan)


def live(seed: int, size: Size = Size.SMALL, keep: Collection[int] | None = None) -> Outcome:
    """Run the life of a seed and judge it.

    Args:
        seed: decides everything random.
        size: size of the life.
        keep: indices in the plan of the operations to carry out; all unless given.
    """
    options, plan = draw(seed, size)
    kept = plan if keep is None else tuple(plan[place] for place in sorted(set(keep)) if place < len(plan))
    return live_plan(seed, options, plan, kept, keep)


def live_plan(seed: int, options: Options, plan: Plan, kept: Plan, keep: Collection[int] | None = None) -> Outcome:
    """Run the operations ``kept`` of a plan, and judge the history."""
    verbs = {operation.verb for operation in plan}
    runner = _Runner(seed, options, intercepted="arm" in verbs, visited="stranger" in verbs)
    failures = runner.run(kept)
    history = runner.lab.history
    failures += [
        Failure(result.id, violation.text, violation.record)
        for result in check(history, SAFETY if may_never_meet(options) else None)
        for violation in result.violations
    ]
    return Outcome(seed, options, plan, history, failures, runner.lab.clock.events, keep)


def bound_s(options: Options) -> float:
    """Seconds in which all nodes have to connect after the faults, and again to come to rest."""
    backoff_s = options.option("ms_max_backoff", 15.0)
    ready_s = options.option("ms_connection_ready_timeout", 10.0)
    return 4 * backoff_s + 2 * ready_s + BLOCK_LIMIT_S


class _Stuck(Exception):
    """A node made no progress; the text describes it."""


class _Runner:
    """Carries out a plan."""

    def __init__(self, seed: int, options: Options, *, intercepted: bool, visited: bool) -> None:
        self.options = options
        self.lab = SwarmLab(options, seed, intercepted=intercepted, visited=visited)
        self._operations = Operations(options, self.lab)
        self._rng = Random(f"probes {seed}")

    def run(self, operations: Plan) -> list[Failure]:
        """Run both phases; returns the failures that no invariant detects."""
        try:
            self.lab.start()
            for operation in operations:
                self._operations.carry_out(operation)
            self.lab.end_faults()
            if may_never_meet(self.options):
                self._try_to_meet()
                return []
            self._log_in()
            logged_in_at = len(self.lab.history)
            self._probe()
            self._rest()
            self._wake()
            self.lab.write_ends()
            self.lab.expect_method(logged_in_at)
            for node in self.options.nodes:
                self.lab.expect_calls(node.name)
                self.lab.expect_counters(node.name)
        except _Stuck as error:
            return [Failure(LIVENESS, str(error))]
        except ScenarioFailed as error:
            return [Failure(CALLS, str(error))]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
            return [Failure(CRASH, f"{type(error).__name__}: {error} (at {place}, {where.name})")]
        return []

    # ---- phase 2

    def _try_to_meet(self) -> None:
        """Run phase 2 without requiring delivery or rest, and without ``end`` records, which would be judged."""
        with suppress(_Stuck):
            self._log_in()
            self._probe()
            self._rest()

    def _log_in(self) -> None:
        """Require that every node logs in at the monitor, if there is one; then break what was opened before."""
        lab = self.lab
        if self.options.login is None:
            return
        limit_s = bound_s(self.options)
        deadline_s = lab.clock.now_s + limit_s
        for node in self.options.nodes:
            if self._rng.random() < 0.5 and lab.has_connection(node.name, MONITOR):
                lab.mark_down(node.name, MONITOR)
        while missing := lab.without_login():
            if lab.clock.now_s >= deadline_s:
                raise _Stuck(f"not logged in {limit_s:g} s after the faults: {lab.describe(missing)}")
            for name in missing:
                lab.log_in(name)
            lab.clock.run_until(lambda: not lab.without_login(), min(deadline_s, lab.clock.now_s + _LOGIN_STEP_S))
        lab.expect_no_refusal()
        for a, b in self.options.pairs:
            lab.cut(a, b)

    def _probe(self) -> None:
        """Require that a message of every node that may send arrives."""
        if not self.options.roles.peers:
            self._probe_by([*self.options.pairs, *((b, a) for a, b in self.options.pairs)])
        elif self._rng.random() < _CHANCE_OF_ALL_AT_ONCE:
            self._probe_by(self.options.pairs)
        else:
            # One side alone sends first: if both sent, the dial of one would hide that the other never dials.
            pairs = [(a, b) for a, b in self.options.pairs if a < b]
            first = [(a, b) if self._rng.random() < 0.5 else (b, a) for a, b in pairs]
            self._probe_by(first)
            self._probe_by([(b, a) for a, b in first])

    def _probe_by(self, pairs: list[Probe]) -> None:
        """Require that a message of each sender arrives in time; one that a reset may have lost is sent again."""
        lab = self.lab
        deadline_s = lab.clock.now_s + bound_s(self.options)
        lab.interrupted = list(pairs)
        for _ in range(_MOST_PROBES):
            wanted, lab.interrupted = lab.interrupted, []
            for sender, receiver in wanted:
                if self._operations.can_send(sender, receiver):
                    lab.probe(sender, receiver)
            lab.clock.run_until(lambda: not lab.expected, deadline_s)
            if not lab.interrupted:
                break
        if lab.expected or lab.interrupted:
            late = ", ".join(f"{a} to {b} ({self._states(a, b)})" for a, b in [*lab.expected, *lab.interrupted])
            raise _Stuck(f"{bound_s(self.options):g} s after the faults messages have not arrived: {late}")

    def _states(self, a: str, b: str) -> str:
        return f"{self.lab.session_state(a, b) or 'none'}, {self.lab.session_state(b, a) or 'none'}"

    def _rest(self) -> None:
        lab = self.lab
        deadline_s = lab.clock.now_s + bound_s(self.options)
        steps = iter(_REST_STEPS_S)
        while not self._stays_at_rest():
            if lab.clock.now_s >= deadline_s:
                raise _Stuck(f"not at rest {bound_s(self.options):g} s after the last message: {self._unrest()}")
            lab.clock.run_until(lambda: False, min(deadline_s, lab.clock.now_s + next(steps, _REST_STEPS_S[-1])))

    def _wake(self) -> None:
        """Sometimes cut an idle link; require that a KEEPALIVE2 wakes the session in STANDBY, and is answered."""
        lab, options = self.lab, self.options
        wakes = all(node.options.get("standby_keepalive") != "stay" for node in options.nodes)
        is_a_pair = len(options.nodes) == 2 and not options.roles.lossy
        if not wakes or not is_a_pair or self._rng.random() > _CHANCE_OF_WAKING:
            return
        a, b = self._rng.choice(options.pairs)
        lab.cut(a, b)
        lab.clock.run_until(lambda: False, lab.clock.now_s + _REST_STEPS_S[1])
        if lab.session_state(a, b) != SessionState.STANDBY or not self._operations.can_send(a, b):
            return
        place = len(lab.history)
        lab.keepalive(a, b)
        lab.clock.run_until(lambda: lab.is_answered(a, place), lab.clock.now_s + bound_s(options))
        if not lab.is_answered(a, place):
            raise _Stuck(f"a KEEPALIVE2 in STANDBY is not answered: {a} with {b}, {self._states(a, b)}")
        self._rest()

    def _stays_at_rest(self) -> bool:
        """True if the nodes are at rest now, and still after events on their way have come."""
        lab = self.lab
        if not lab.is_at_rest():
            return False
        lab.clock.run_until(lambda: False, lab.clock.now_s + _REST_STEPS_S[0])
        return lab.is_at_rest()

    def _unrest(self) -> str:
        return ", ".join(f"{node.name}: {self.lab.snapshot(node.name)}" for node in self.options.nodes)
