"""``msgrlab sim``: run random simulations, one per seed, and check the invariants."""

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import complete_scenarios
from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.cli.shares import Dask, Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolkit.lab.campaign import Campaign, Tally
    from toolkit.simulation.draws import Size
    from toolkit.simulation.swarm import Outcome

CHECK_FAILED = 1
INTERRUPTED = 130
_MOST_SEEDS = 1 << 40
"""More than a lifetime of a machine; a range of a length beyond 63 bits has none in Python."""
_SEEDS = 1000
"""Number of seeds unless given."""
_MOST_SHRUNK = 3
"""Number of failed seeds that are shrunk and reported in full: more seeds seldom show more bugs."""


def sim(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO...]",
            autocompletion=complete_scenarios,
            help="Run these scenarios, named as in `msgrlab run`, instead of random simulations.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=_MOST_SEEDS, help="Number of seeds; by default 1000.")
    ] = None,
    first: Annotated[int | None, typer.Option(min=0, help="The first seed; by default 0.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that share the seeds; by default one per core.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="small (2 or 3 nodes, 30 messages) or cluster (40 nodes, 1000 messages).")
    ] = "small",
    replay: Annotated[
        int | None, typer.Option(min=0, metavar="SEED", help="Run only this seed, and print its whole schedule.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="N,N...", help="With --replay: run only these operations of its schedule, or `none`."
        ),
    ] = None,
    twice: Annotated[
        bool, typer.Option("--check-determinism", help="Run each seed twice and compare every byte.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep history, chart and report of failed seeds in folders of DIR."),
    ] = None,
    dask: Dask = "",
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Simulate a random cluster with random faults for each seed, heal all faults and check the invariants.

    Exit 1 if any seed fails. After Ctrl-C or SIGTERM the results so far are shown.
    """
    from toolkit.simulation.draws import Size

    files, shares = ReportFiles(html, junit), Shares(jobs, dask)
    if size not in list(Size):
        raise LocalError(f"--size: unknown size {size!r}; known: {', '.join(Size)}")
    if keep is not None and replay is None:
        raise LocalError("--keep needs --replay SEED: it names operations of the schedule of one seed")
    if replay is not None:
        if twice:
            raise LocalError("--check-determinism cannot be combined with --replay: give --first SEED --seeds 1")
        if seeds is not None or first is not None:
            raise LocalError("--first and --seeds cannot be combined with --replay, which runs one seed")
        first, seeds = replay, 1
    begin = first or 0
    chosen = range(begin, begin + (seeds or _SEEDS))
    if scenarios:
        if keep is not None or twice or size != Size.SMALL:
            raise LocalError("--keep, --check-determinism and --size cannot be combined with scenarios")
        return _run_scenarios(scenarios, chosen, shares, files, as_json=as_json)
    if out is not None:
        _make_folder(out)
    if replay is not None:
        return _replay(replay, Size(size), _places(keep), files, as_json=as_json, out=out)
    return _run_seeds(chosen, Size(size), shares, files, twice=twice, as_json=as_json, out=out)


def _places(keep: str | None) -> list[int] | None:
    if keep is None or keep == "none":
        return None if keep is None else []
    try:
        return [int(word) for word in keep.split(",")]
    except ValueError:
        raise LocalError(f"--keep: {keep!r} is neither a list of numbers, as in 1,4,7, nor none") from None


# ---- random lives


def _replay(
    seed: int, size: "Size", keep: list[int] | None, files: ReportFiles, *, as_json: bool, out: Path | None
) -> int:
    from toolkit.simulation.findings import as_json as life_json
    from toolkit.simulation.findings import describe_life, life_report
    from toolkit.simulation.swarm import live

    outcome = live(seed, size, keep)
    _keep_files([outcome], out)
    if files:
        files.write([life_report(outcome, _kept(outcome, out), files.folder)], f"Seed {seed}")
    print(json.dumps(life_json(outcome), indent=2) if as_json else "\n".join(describe_life(outcome)))
    return 0 if outcome.passed else CHECK_FAILED


def _run_seeds(
    seeds: range,
    size: "Size",
    shares: Shares,
    files: ReportFiles,
    *,
    twice: bool,
    as_json: bool,
    out: Path | None,
) -> int:
    from toolkit.simulation.findings import as_json as life_json
    from toolkit.simulation.findings import describe_life, life_report
    from toolkit.simulation.lives import run_seeds

    with _progress(len(seeds)) as progress:
        campaign = run_seeds(seeds, size, shares.jobs, twice=twice, progress=progress, dask=shares.dask)
    outcomes = _shrunk([seed for seed, _ in campaign.tally.failed], size)
    _keep_files(outcomes, out)
    if files:
        from toolkit.simulation.findings import campaign_report

        lives = [life_report(outcome, _kept(outcome, out), files.folder) for outcome in outcomes]
        whole = campaign_report(campaign, f"{size} {seeds.start}-{seeds.stop - 1}", len(seeds), "seeds")
        files.write([whole, *lives], "Simulated seeds")
    if as_json:
        shrunk = {outcome.seed: life_json(outcome) for outcome in outcomes}
        print(json.dumps(_summary(campaign, seeds, size.value, shrunk), indent=2))
    else:
        for outcome in outcomes:
            print("\n".join(describe_life(outcome)), end="\n\n")
        _print_summary(campaign, len(seeds), "seeds")
    return _verdict(campaign)


def _shrunk(failed: Sequence[int], size: "Size") -> "list[Outcome]":
    """Run the first few failed seeds again, each with the smallest part of its schedule that still fails."""
    from toolkit.simulation.shrink import shrink
    from toolkit.simulation.swarm import live

    outcomes = (live(seed, size) for seed in failed[:_MOST_SHRUNK])
    return [shrink(outcome) if outcome.failures else outcome for outcome in outcomes]


def _make_folder(out: Path) -> None:
    """Make the folder for ``--out`` now: an error must not come after hours of simulation."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"--out {out}: {error.strerror}") from None


def _keep_files(outcomes: "Sequence[Outcome]", out: Path | None) -> None:
    from toolkit.simulation.findings import save

    if out is not None:
        for outcome in outcomes:
            save(outcome, out / f"seed-{outcome.seed}")


def _kept(outcome: "Outcome", out: Path | None) -> Path | None:
    """Return the folder with the files of a seed; None if none are kept."""
    return None if out is None else out / f"seed-{outcome.seed}"


# ---- scenarios


def _run_scenarios(
    names: Sequence[str], seeds: range, shares: Shares, files: ReportFiles, *, as_json: bool
) -> int:
    from toolkit.scenarios.seeds import run_scenario_seeds, units_of

    units = units_of(names, seeds)
    with _progress(len(units)) as progress:
        campaign = run_scenario_seeds(units, shares.jobs, progress, shares.dask)
    if files:
        from toolkit.simulation.findings import campaign_report

        whole = campaign_report(campaign, " ".join(names), len(units), "runs")
        files.write([whole], "Simulated seeds of scenarios")
    if as_json:
        print(json.dumps(_summary(campaign, seeds, "scenarios", {}), indent=2))
    else:
        for name, failures in campaign.tally.failed:
            print(f"failed: {name}")
            print("\n".join(f"  {failure.id}: {failure.text}" for failure in failures))
        _print_summary(campaign, len(units), "runs")
    return _verdict(campaign)


# ---- what comes out


@contextmanager
def _progress(total: int) -> "Iterator[Callable[[Tally], None]]":
    """Show progress; yield the function to call with the tally of each batch of runs."""
    from toolkit.cli.progress import progress
    from toolkit.cli.streams import interrupted_by_sigterm

    failed: list[int | str] = []
    with interrupted_by_sigterm(), progress("simulating", total) as steps:

        def advance(tally: "Tally") -> None:
            failed.extend(run for run, _ in tally.failed)
            steps.show(f"{len(failed)} failed, the last one: {failed[-1]}" if failed else "no failures")
            steps.advance(tally.runs)

        yield advance


def _summary(campaign: "Campaign", seeds: range, size: str, shrunk: dict[int, Any]) -> dict[str, Any]:
    from toolkit.checks.marks import MARKS
    from toolkit.simulation.findings import failures_json

    tally = campaign.tally
    return {
        "seeds": len(seeds),
        "first": seeds.start,
        "size": size,
        "runs": tally.runs,
        "failures": len(tally.failed),
        "seconds": round(campaign.seconds, 3),
        "seeds_per_second_per_core": round(campaign.runs_per_cpu_s, 1),
        "events": tally.events,
        "records": tally.records,
        "interrupted": campaign.interrupted,
        "marks": {mark: tally.marks[mark] for mark in MARKS},
        "never": campaign.never,
        "failed": [
            {"seed": seed, "failures": failures_json(failures), "shrunk": shrunk.get(seed)}
            for seed, failures in tally.failed
        ],
    }


def _print_summary(campaign: "Campaign", wanted: int, units: str) -> None:
    from toolkit.checks.marks import MARKS

    tally = campaign.tally
    print(
        f"{tally.runs} {units} in {campaign.seconds:.1f} s ({campaign.runs_per_cpu_s:.0f} per second and core), "
        f"{tally.events} events, {len(tally.failed)} failed"
    )
    if campaign.interrupted:
        print(f"interrupted: {tally.runs} of {wanted} {units} were run")
    more = [str(name) for name, _ in tally.failed[:20]]
    if more:
        print(f"failed: {', '.join(more)}{' …' if len(tally.failed) > len(more) else ''}")
    print(f"{len(MARKS) - len(campaign.never)} of {len(MARKS)} rare states reached")
    for mark in campaign.never:
        print(f"  not reached: {mark}: {MARKS[mark]}")


def _verdict(campaign: "Campaign") -> int:
    if campaign.tally.failed:
        return CHECK_FAILED
    return INTERRUPTED if campaign.interrupted else 0
