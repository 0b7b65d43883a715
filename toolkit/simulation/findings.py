"""The report of a failed seed: its options, the shortest schedule that fails, and the command that repeats it."""

import json
import shlex
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS
from toolkit.checks.result import CheckResult, Violation
from toolkit.lab.campaign import Campaign, Failure
from toolkit.report.html import ScenarioReport, Verdict, below, render_report
from toolkit.report.plain import plain_chart
from toolkit.report.sequence import SequenceChart
from toolkit.simulation.draws import Size
from toolkit.simulation.swarm import CRASH, LIVENESS, Outcome

_LAST_FRAMES = 40
_OWN_TITLES = {LIVENESS: "Going on after the faults", CRASH: "No exception but the documented ones"}


def replay_command(outcome: Outcome) -> str:
    """Return the command that runs this life again."""
    words = ["msgrlab", "sim", "--replay", str(outcome.seed)]
    if outcome.options.size is not Size.SMALL:
        words += ["--size", outcome.options.size.value]
    if outcome.keep is not None:
        words += ["--keep", ",".join(map(str, outcome.keep)) or "none"]
    return shlex.join(words)


def schedule(outcome: Outcome) -> list[str]:
    """Return the operations that were carried out, with their indices in the plan."""
    places = range(len(outcome.plan)) if outcome.keep is None else outcome.keep
    return [f"{place:3} {outcome.plan[place]}" for place in places if place < len(outcome.plan)]


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return a life as a JSON object."""
    return {
        "seed": outcome.seed,
        "passed": outcome.passed,
        "failures": failures_json(outcome.failures),
        "options": outcome.options.describe(),
        "operations": len(outcome.plan),
        "schedule": schedule(outcome),
        "keep": None if outcome.keep is None else list(outcome.keep),
        "events": outcome.events,
        "records": len(outcome.history),
        "digest": outcome.digest,
        "replay": replay_command(outcome),
    }


def failures_json(failures: list[Failure]) -> list[dict[str, Any]]:
    """Return failures as JSON objects."""
    return [{"id": failure.id, "text": failure.text} for failure in failures]


def describe_life(outcome: Outcome) -> list[str]:
    """Describe a life in lines of text, the last frames included."""
    options = outcome.options
    lines = [f"seed {outcome.seed}: {'passed' if outcome.passed else 'failed'}"]
    lines += [f"  {failure.id}: {failure.text}" for failure in outcome.failures]
    lines.append(f"drew: {options.way.name}, {options.roles.name}, {', '.join(options.faults)}")
    shared = {
        name: value
        for name, value in options.nodes[0].options.items()
        if all(node.options.get(name) == value for node in options.nodes)
    }
    lines.append(f"  all nodes: {_words(shared)}")
    for node in options.nodes:
        own = {name: value for name, value in node.options.items() if name not in shared}
        if own:
            lines.append(f"  {node.name}: {_words(own)}")
    done = schedule(outcome)
    lines.append(f"schedule, {len(done)} of {len(outcome.plan)} operations:")
    lines += [f"  {line}" for line in done]
    lines.append(f"the last {_LAST_FRAMES} frames:")
    lines += plain_chart(outcome.history, _LAST_FRAMES)
    lines.append(f"again: {replay_command(outcome)}")
    return lines


def _words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "nothing"


def save(outcome: Outcome, directory: Path) -> None:
    """Write a life's history, chart, report and outcome into ``directory``, which must not exist yet.

    Raises:
        LocalError: the directory exists, or cannot be written.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise LocalError(f"{directory} exists already; nothing is overwritten, name another --out") from None
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}") from None
    outcome.history.save(directory / "history.ndjson")
    (directory / "chart.svg").write_text(SequenceChart(outcome.history).svg(), encoding="utf-8")
    (directory / "outcome.json").write_text(json.dumps(as_json(outcome), indent=2) + "\n", encoding="utf-8")
    page = render_report([life_report(outcome, directory, directory)], f"Seed {outcome.seed}")
    (directory / "report.html").write_text(page, encoding="utf-8")


def life_report(outcome: Outcome, kept: Path | None, folder: Path) -> ScenarioReport:
    """Make the page of a life for a report.

    Args:
        outcome: the life.
        kept: directory of the files of :func:`save`; None if they were not saved.
        folder: directory of the report, which links to files below it.
    """
    names = {"history": "history.ndjson", "chart": "chart.svg", "outcome": "outcome.json"}
    return ScenarioReport(
        title=f"Seed {outcome.seed}",
        id=f"{outcome.options.size} {outcome.seed}",
        description=f"{outcome.options.roles.name}: " + "; ".join(schedule(outcome)),
        backend="sim",
        mode=outcome.options.way.name,
        seed=outcome.seed,
        verdict=Verdict.PASSED if outcome.passed else Verdict.FAILED,
        duration_s=outcome.history.duration_s,
        checks=_checks(outcome),
        history=outcome.history,
        replay_command=replay_command(outcome),
        artefacts={} if kept is None else {what: below(kept / name, folder) for what, name in names.items()},
    )


def campaign_report(campaign: Campaign, id_: str, wanted: int, units: str) -> ScenarioReport:
    """Make one page of a report for many runs: their numbers, and the runs that failed.

    Args:
        campaign: the results of the runs.
        id_: id of the page.
        wanted: number of runs that were requested.
        units: what the runs are called, ``seeds`` or ``runs``.
    """
    tally = campaign.tally
    first = "; ".join(
        f"{name}: {failures[0].text if failures else 'failed'}" for name, failures in tally.failed[:3]
    )
    facts = {
        "Done": f"{tally.runs:,} of {wanted:,} {units}",
        "Failed": f"{len(tally.failed):,}",
        "Events": f"{tally.events:,}",
        "Speed": f"{campaign.runs_per_cpu_s:.0f} a second on one core",
        "Never reached": ", ".join(campaign.never) or "no rare state",
    }
    judged = Verdict.PASSED if tally.runs else Verdict.NOT_JUDGED
    return ScenarioReport(
        title=f"{tally.runs:,} {units}",
        id=id_,
        description="Every run draws faults, removes them all, and is checked by the invariants.",
        backend="sim",
        mode="",
        seed=None,
        verdict=Verdict.FAILED if tally.failed else judged,
        duration_s=campaign.seconds,
        checks=[],
        history=History(),
        replay_command="",
        reason=first,
        facts=facts,
    )


def _checks(outcome: Outcome) -> list[CheckResult]:
    titles = {**{check.id: check.title for check in INVARIANTS.values()}, **_OWN_TITLES}
    last = max(len(outcome.history) - 1, 0)
    by_id: dict[str, list[Violation]] = {id_: [] for id_ in titles}
    for failure in outcome.failures:
        place = last if failure.record is None else failure.record
        by_id.setdefault(failure.id, []).append(Violation(place, failure.text))
    return [
        CheckResult(id_, titles.get(id_, id_), not violations, violations) for id_, violations in by_id.items()
    ]
