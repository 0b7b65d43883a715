"""Runs a scenario on a backend, judges its history, and saves its artefacts."""

import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.result import CheckResult, Outcome, words
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.faults.tap import Breakpoint
from toolkit.lab.lab import Lab, NotIntercepted
from toolkit.lab.ways import Way
from toolkit.report.text import duration
from toolkit.scenarios.own import place_of
from toolkit.scenarios.scenario import IN_GUEST, OF_LABS, OF_RUNS, Case, Scenario

if TYPE_CHECKING:
    from toolkit.report.html import ScenarioReport
    from toolkit.report.rates import RateChart
    from toolkit.report.sequence import SequenceChart

_MARKS = {Outcome.HOLDS: "✓", Outcome.VIOLATED: "✗", Outcome.NOT_JUDGED: "?"}


@dataclass(slots=True, repr=False)
class ScenarioRun:
    """One run of a scenario."""

    scenario: Scenario
    case: Case
    backend: str
    way: Way
    seed: int
    cuts: tuple[str, ...]
    """The breakpoints of its cuts, as Breakpoint.parse parses them."""
    duration_s: float
    """Wall time of the run in seconds."""
    history: History
    visited: Counter[tuple[str, str]]
    """Number of times that each action was taken at each point of the interception grid."""
    checks: list[CheckResult]
    failure: str = ""
    """The expectation that was not met; empty if all were."""
    artefacts: dict[str, Path] = field(default_factory=dict)
    """Its saved files, by kind."""

    @property
    def passed(self) -> bool:
        """True if all expectations were met and no invariant was violated."""
        return not self.failure and all(result.ok for result in self.checks)

    @property
    def scenario_id(self) -> str:
        """The scenario's id, with the case if it has several: ``HS-03[HELLO READ]``."""
        return f"{self.scenario.id}[{self.case.name}]" if self.case.name else self.scenario.id

    @property
    def name(self) -> str:
        """Name of this run, unique within one invocation and usable for a folder."""
        case = f"-{self.case.name}" if self.case.name else ""
        words = f"{self.scenario.id}{case}-{self.backend}-{self.way.name}"
        return "".join(char if char.isalnum() or char in "-_." else "_" for char in words)

    @property
    def replay_command(self) -> str:
        """The command that repeats the run."""
        words = ["msgrlab", "run", self.scenario_id, "--backend", self.backend, *self.way.options]
        words += ["--seed", str(self.seed)]
        for cut in self.cuts:
            words += ["--cut", cut]
        return shlex.join(words)

    @property
    def complaints(self) -> list[str]:
        """The failure and the violations, a line each; empty if it passed."""
        lines = [self.failure] if self.failure else []
        for result in self.checks:
            lines += [f"{result.id}: {violation.text}" for violation in result.violations]
        return lines

    @property
    def chart(self) -> "SequenceChart":
        """The frames between the nodes as a sequence chart."""
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only charts need it

        return SequenceChart(self.history)

    @property
    def rates(self) -> "RateChart":
        """Messages and bytes per second and latencies over time, with bands for faults."""
        from toolkit.report.rates import RateChart  # noqa: PLC0415 - only charts need it

        return RateChart.of(self.history)

    def report(self, directory: Path) -> "ScenarioReport":
        """Make the run's page of a report in ``directory``, which links to artefacts below it."""
        from toolkit.report.html import ScenarioReport, Verdict, below  # noqa: PLC0415 - as above

        return ScenarioReport(
            title=self.scenario.title,
            id=self.scenario_id,
            description=self.scenario.description,
            backend=self.backend,
            mode=self.way.name,
            seed=self.seed,
            verdict=Verdict.of(self.checks, self.failure),
            duration_s=self.duration_s,
            checks=self.checks,
            history=self.history,
            replay_command=self.replay_command,
            artefacts={name: below(path, directory) for name, path in self.artefacts.items()},
            reason=self.failure,
        )

    def _repr_html_(self) -> str:
        verdict = "passed" if self.passed else "failed"
        rows = "".join(
            f"<tr><td title='{result.outcome}'>{_MARKS[result.outcome]}</td><td>{result.id}</td>"
            f"<td style='text-align:left'>{escape(result.title)}{_unjudged(result)}</td></tr>"
            for result in self.checks
        )
        wrong = "".join(f"<li>{escape(line)}</li>" for line in self.complaints)
        wrong = f"<ul>{wrong}</ul>" if wrong else ""
        took = (
            f"{duration(self.history.duration_s)} of virtual time"
            if self.backend == "sim"
            else duration(self.duration_s)
        )
        return (
            f"<p><b>{escape(self.scenario.title)}</b> on <code>{self.backend}</code>, {self.way}, "
            f"seed {self.seed}: <b>{verdict}</b> in {took}, {len(self.history)} records</p>"
            f"{wrong}<details><summary>Invariants: {words(self.checks)}</summary><table>{rows}</table></details>"
            f"<p><code>{escape(self.replay_command)}</code></p>"
        )

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"<ScenarioRun {self.scenario_id} on {self.backend}, {self.way}, seed {self.seed}: {verdict}>"

    def as_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "scenario": self.scenario.id,
            "case": self.case.name or None,
            "backend": self.backend,
            "way": self.way.name,
            "mode": self.way.mode,
            "protocol": self.way.protocol.value,
            "cipher": self.way.key_type.label,
            "seed": self.seed,
            "workers": self.way.workers,
            "passed": self.passed,
            "failure": self.failure or None,
            "seconds": round(self.duration_s, 3),
            "records": len(self.history),
            "checks": [
                {
                    "id": result.id,
                    "ok": result.ok,
                    "outcome": result.outcome,
                    "note": result.note or None,
                    "violations": [v.text for v in result.violations],
                }
                for result in self.checks
            ],
            "artefacts": {name: str(path) for name, path in self.artefacts.items()},
            "replay": self.replay_command,
        }


def _unjudged(result: CheckResult) -> str:
    """What to append to the title of a check that could not judge the history."""
    return f" <i>(not judged: {escape(result.note)})</i>" if result.outcome is Outcome.NOT_JUDGED else ""


def run_scenario(
    scenario: Scenario,
    backend: str = "sim",
    way: Way | None = None,
    seed: int = 1,
    cuts: Sequence[str] = (),
    *,
    case: Case | None = None,
) -> ScenarioRun:
    """Run one case of a scenario.

    Args:
        scenario: the scenario.
        backend: ``sim``, ``local``, ``netns``, ``docker`` or ``vm``.
        way: the way to run it in; the scenario's first unless given.
        seed: decides everything random.
        cuts: where to cut instead of the scenario's own places, as Breakpoint.parse parses it.
        case: the case to run; the first unless given.

    Raises:
        LocalError: there is no such backend, or the scenario takes no other cuts.
        Unsupported: the scenario cannot run on that backend, or not in that way.
    """
    way = way or scenario.ways[0]
    case = case or next(iter(scenario.cases_in(way, backend)), scenario.cases[0])
    _check_supported(scenario, backend, case, way, cuts)
    if not case.runs_in(way):
        raise Unsupported(
            f"case {case.name!r} of {scenario.id} is about {case.protocol}; it does not run in {way.name}"
        )
    places = tuple(cuts) or scenario.cuts_on(way.protocol)
    if backend == IN_GUEST:
        from toolkit.scenarios.guests import play  # noqa: PLC0415 - only this backend needs it

        played = play(scenario, case, way, seed, cuts)
        history, visited, failure, duration_s = played.history, played.visited, played.failure, played.duration_s
    else:
        began_s = time.monotonic()
        history, visited, failure = play_case(scenario, backend, case, way, seed, cuts)
        duration_s = time.monotonic() - began_s
    checks = [result for result in check(history) if result.id not in scenario.provokes]
    return ScenarioRun(scenario, case, backend, way, seed, places, duration_s, history, visited, checks, failure)


def play_case(
    scenario: Scenario, backend: str, case: Case, way: Way, seed: int, cuts: Sequence[str] = ()
) -> "_Played":
    """Play a case on a backend of this machine, without judging its history.

    Arguments are those of :func:`run_scenario`.

    Returns:
        The history, the visits of interception points, and the failure, empty if there is none.

    Raises:
        Unsupported: this machine does not have the backend.
    """
    places = tuple(cuts) or scenario.cuts_on(way.protocol)
    breakpoints = [Breakpoint.parse(place, way.protocol) for place in places]
    params = {**case.params, "cuts": breakpoints} if scenario.default_cuts else case.params
    return _play(scenario, params, partial(_lab, scenario, backend, way, seed))


_Played = tuple[History, Counter[tuple[str, str]], str]
"""The history, the visits of interception points, and the failure, empty if there is none."""


def _play(scenario: Scenario, params: Mapping[str, Any], new_lab: Callable[[bool], Lab]) -> _Played:
    """Run a script; in simulation without interceptors, and once more with them if it arms a point."""
    try:
        return play_in(new_lab(False), scenario, params)
    except NotIntercepted:
        return play_in(new_lab(True), scenario, params)


def play_in(lab: Lab, scenario: Scenario, params: Mapping[str, Any]) -> _Played:
    """Play a scenario in a lab, which is closed then.

    Raises:
        Unsupported: the lab lacks something that the scenario needs.
        NotIntercepted: its nodes have no interceptor, and the scenario arms a point.
    """
    failure = ""
    try:
        scenario.script(lab, **params)
        lab.finish()
    except ScenarioFailed as error:
        failure = f"{_place(error, scenario)}{error}"
    except (Unsupported, NotIntercepted):
        raise
    except Exception as error:  # noqa: BLE001 - of a node or of the script: what happened is the run's failure
        failure = f"{_place(error, scenario)}{type(error).__name__}: {error}"
    finally:
        # Records that nodes of other processes write when they are stopped are not part of the scenario.
        history = in_order(lab.history)
        lab.close()
    return history, lab.visited, failure


def _place(error: Exception, scenario: Scenario) -> str:
    """The file and line of an exception in a user's own scenario; empty for scenarios of the catalogue."""
    return place_of(error, scenario) if scenario.file else ""


def in_order(history: History) -> History:
    """Sort a history by time, but keep the order in which each node wrote its records.

    A messenger stamps all records of one input with the time of that input, its application with its own time.
    """
    latest_s: dict[str, float] = {}
    stamped = []
    for record in history:
        latest_s[record.node] = max(latest_s.get(record.node, record.time_s), record.time_s)
        stamped.append((latest_s[record.node], record))
    return History(record for _, record in sorted(stamped, key=itemgetter(0)))


def _check_supported(scenario: Scenario, backend: str, case: Case, way: Way, cuts: Sequence[str]) -> None:
    if backend not in OF_RUNS:
        raise LocalError(f"unknown backend {backend!r}; {scenario.id} runs on {scenario.places}")
    reason = scenario.obstacle(backend, case)
    if not scenario.runs_on(backend):
        why = f": {reason}" if reason else ""
        raise Unsupported(f"{scenario.id} cannot run on {backend}{why}; it runs on {scenario.places}")
    if reason:
        raise Unsupported(f"{scenario.id}[{case.name}] cannot run on {backend}: {reason}; it runs on sim")
    if not scenario.runs_in(way):
        known = ", ".join(known.name for known in scenario.ways)
        raise Unsupported(f"{scenario.id} does not run in {way.name}; it runs in {known}")
    if cuts and not scenario.default_cuts:
        raise LocalError(f"{scenario.id} cuts where its description says; --cut is for others")


def _lab(scenario: Scenario, backend: str, way: Way, seed: int, intercepted: bool) -> Lab:  # noqa: FBT001 - called here
    return open_lab(backend, way, seed, processes=scenario.processes, intercepted=intercepted)


def open_lab(backend: str, way: Way, seed: int, *, processes: bool = False, intercepted: bool = True) -> Lab:
    """Open a lab without nodes.

    Args:
        backend: ``sim``, ``local``, ``netns``, ``docker`` or ``rdma``.
        way: protocol, mode, cipher and shards of its nodes.
        seed: decides everything random.
        processes: True if on ``local`` and ``netns`` each node is a process of its own, as on others.
        intercepted: False if nodes have no interceptor in simulation; live nodes always have one.

    Raises:
        LocalError: there is no such backend.
        Unsupported: this machine does not have the backend.
    """
    if backend == "sim":
        from toolkit.lab.sim.sim_lab import SimLab  # noqa: PLC0415 - one backend does not pay for the other

        return SimLab(way, seed, intercepted=intercepted)
    if backend in OF_LABS:
        from toolkit.lab.real.real_lab import RealLab  # noqa: PLC0415

        return RealLab(backend, way, seed, processes=processes)
    raise LocalError(f"unknown backend {backend!r}; known: {', '.join(OF_LABS)}")


def save_artefacts(run: ScenarioRun, directory: Path) -> None:
    """Write a run's history, sequence chart and result into ``directory``, which must not exist yet.

    Raises:
        LocalError: the directory exists, or cannot be written.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise LocalError(f"{directory} exists already; nothing is overwritten, name another --out") from None
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}") from None
    run.artefacts = {
        "history": directory / "history.ndjson",
        "chart": directory / "chart.svg",
        "outcome": directory / "outcome.json",
    }
    run.history.save(run.artefacts["history"])
    outcome = json.dumps(run.as_json(), indent=2) + "\n"
    for name, text in ("chart", run.chart.svg()), ("outcome", outcome):
        try:
            run.artefacts[name].write_text(text, encoding="utf-8")
        except OSError as error:
            raise LocalError(f"{run.artefacts[name]}: {error.strerror}") from None
