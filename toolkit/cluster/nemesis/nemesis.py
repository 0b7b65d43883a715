"""Run a timeline of faults on a cluster, watch the invariants meanwhile, and judge once everything is healed."""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from messenger.errors import LocalError
from toolkit.checks.live import LiveChecker, Sighting, check_so_far
from toolkit.checks.result import CheckResult
from toolkit.cluster.nemesis.chaos import Crowd, draw
from toolkit.cluster.nemesis.rest import Rest, come_to_rest
from toolkit.cluster.nemesis.timeline import Timeline, TimelineStep
from toolkit.faults.language import Fault, Scene, Undo
from toolkit.faults.language.processes import Kill, Restart, Start, Stop

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster

REST_TIMEOUT_S = 60.0
_END_S = 60.0
LIVENESS = "LIVE"
"""Id of the failure to become quiet after all faults were healed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was run, successfully or not."""

    step: TimelineStep
    at_s: float
    """Seconds since the timeline began."""
    outcome: str = ""
    error: str = ""
    """Why it failed; empty if it did not."""

    def __str__(self) -> str:
        more = f": not done: {self.error}" if self.error else f": {self.outcome}" if self.outcome else ""
        return f"{self.at_s:8.3f}  {self.step.fault}{more}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a timeline."""

    timeline: Timeline
    done: tuple[Done, ...]
    sightings: tuple[Sighting, ...]
    """Findings of the live checks."""
    results: tuple[CheckResult, ...]
    """Results of the invariants on the whole history."""
    rest: Rest
    problems: tuple[str, ...] = ()
    """Faults that could not be reverted."""
    seed: int | None = None
    """Seed of the random faults; None without any."""

    @property
    def failures(self) -> dict[str, list[str]]:
        """Failures by the id of the invariant."""
        found: dict[str, list[str]] = {}
        for one in self.sightings:
            found.setdefault(one.id, []).append(str(one))
        for result in self.results:
            if not result.ok:
                found.setdefault(result.id, []).extend(violation.text for violation in result.violations)
        if not self.rest.reached:
            found[LIVENESS] = list(self.rest.waits)
        return found

    @property
    def passed(self) -> bool:
        """True if there are no failures."""
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "passed": self.passed,
            "seed": self.seed,
            "timeline": self.timeline.values(),
            "done": [{"at_s": one.at_s, "outcome": one.outcome, "error": one.error} for one in self.done],
            "failures": self.failures,
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        seed = f"seed {self.seed}, " if self.seed is not None else ""
        lines = [f"{seed}{len(self.done)} steps: {'passed' if self.passed else 'failed'}"]
        lines += [f"  {one}" for one in self.done]
        lines += [f"{id_}: {text}" for id_, texts in self.failures.items() for text in texts]
        return "\n".join([*lines, *self.problems])


@dataclass(slots=True, eq=False)
class Nemesis:
    """Runs the steps of a timeline at their times, in its own thread.

    Args:
        scene: faults of the cluster.
        timeline: the steps.
        heals: True to heal all faults after the last step; :meth:`finish` always does.
        seed: seed of the random faults, for the verdict.
        found: called once with each violation that the live checks find.
        live: True to run live checks.
    """

    scene: Scene
    timeline: Timeline
    heals: bool = True
    seed: int | None = None
    found: Callable[[Sighting], None] = lambda _sighting: None
    live: bool = True
    done: list[Done] = field(default_factory=list)
    """Steps that were run so far."""
    problems: list[str] = field(default_factory=list)
    """Faults that could not be reverted so far."""
    _unstarted: set[str] = field(default_factory=set)
    """Nodes that do not run because the step that should have started them failed."""
    _checker: LiveChecker | None = None
    _thread: threading.Thread | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, cluster: "Cluster", *, live: bool = True) -> Self:
        """Return the nemesis for a cluster's spec: its timeline and chaos.

        Raises:
            LocalError: the cluster cannot have one of the faults.
        """
        chaos = cluster.spec.chaos
        steps = list(Timeline.of_moments(cluster.spec.timeline))
        if chaos is not None:
            steps += draw(chaos, Crowd.of(cluster.scene))
        seed = None if chaos is None else chaos.seed
        return cls(cluster.scene, Timeline.of(steps), heals=chaos is not None, seed=seed, live=live)

    def start(self) -> Self:
        """Start the thread."""
        if self.live:
            self._checker = LiveChecker(self.scene.history, self.found, now=self.scene.now_s)
            self._checker.start()
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self._thread.start()
        return self

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the last step has run; returns False at the timeout."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    @property
    def at_work(self) -> bool:
        """True if there are steps left to run."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """Findings of the live checks so far."""
        return tuple(self._checker.sightings) if self._checker is not None else ()

    def status(self) -> dict[str, Any]:
        """Return the progress as JSON."""
        return {
            "seed": self.seed,
            "steps": len(self.timeline),
            "done": [str(one) for one in self.done],
            "next": next((str(step) for step in self.timeline.steps[len(self.done) :]), ""),
            "violations": [str(one) for one in self.sightings],
            "problems": list(self.problems),
        }

    def close(self) -> None:
        """Run no more steps; faults in force stay."""
        self._ended.set()
        self.wait(_END_S)
        if self._checker is not None:
            self._checker.stop()

    def finish(self, timeout_s: float = REST_TIMEOUT_S) -> Verdict:
        """Run to the last step, heal all faults, wait until the cluster is quiet, and check the invariants.

        Args:
            timeout_s: seconds to wait for that; a cluster that takes longer has failed.
        """
        self.wait()
        scene = self.scene
        self.problems += scene.make_whole()
        rest = come_to_rest(scene, timeout_s)
        results = check_so_far(scene.history, rest.ends, rest.at_s)
        if trouble := getattr(scene.history, "trouble", ""):
            self.problems.append(f"{trouble}: nothing later is judged")
        if self._checker is not None:
            self._checker.stop(rest.at_s)
        scene.resume_traffic(*(name for name in scene.names if scene.node(name).alive))
        done, problems = tuple(self.done), tuple(self.problems)
        return Verdict(self.timeline, done, self.sightings, tuple(results), rest, problems, self.seed)

    # ---- in the thread

    def _run(self) -> None:
        began_s = time.monotonic()
        for step in self.timeline:
            if self._ended.wait(max(0.0, began_s + step.at_s - time.monotonic())):
                return
            at_s = round(time.monotonic() - began_s, 3)
            self.done.append(self._do(step, at_s))
            self._start_again(besides=step.fault)
        if self.heals and not self._ended.is_set():
            self.problems += self.scene.make_whole()

    def _do(self, step: TimelineStep, at_s: float) -> Done:
        """Run one step; a failure is recorded, and the next step follows."""
        try:
            outcome = self.scene.do(step.fault)
        except LocalError as error:
            self.scene.not_done(step.fault, str(error))
            if _starts(step.fault):
                self._unstarted.update(step.fault.nodes)
            return Done(step, at_s, error=str(error))
        if isinstance(step.fault, Kill | Stop) or _starts(step.fault):
            self._unstarted.difference_update(step.fault.nodes)
        return Done(step, at_s, outcome)

    def _start_again(self, besides: Fault) -> None:
        """Try again to start nodes, except for those that the last step has just failed to start.

        A daemon of Ceph cannot start while others are down or not reachable, which later steps change.
        """
        for name in sorted(self._unstarted - (set(besides.nodes) if _starts(besides) else set())):
            with contextlib.suppress(LocalError):  # the next step tries once more
                if not self.scene.node(name).alive:
                    self.scene.do(Start(name))
                self._unstarted.discard(name)


def _starts(fault: Fault) -> bool:
    """True for faults that start a node which does not run."""
    return isinstance(fault, Start | Restart) or (isinstance(fault, Undo) and isinstance(fault.fault, Kill | Stop))


def torment(cluster: "Cluster", timeline: Timeline, *, seed: int | None = None) -> Verdict:
    """Run a timeline of faults on a running cluster, and judge.

    Args:
        cluster: the cluster.
        timeline: the steps.
        seed: seed of the random faults, for the verdict.

    Raises:
        LocalError: a timeline is running already, possibly that of the spec.
    """
    if cluster.nemesis is not None:
        if cluster.nemesis.at_work:
            raise LocalError(f"cluster {cluster.name!r} runs a timeline already; msgrlab status shows it")
        cluster.nemesis.close()
    cluster.nemesis = Nemesis(cluster.scene, timeline, seed=seed)
    return cluster.nemesis.start().finish()
