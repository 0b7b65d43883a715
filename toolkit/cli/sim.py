"""``msgrlab sim``: seeds of the simulator, each a life of its own."""

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messenger.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolkit.simulation.campaign import Campaign, Tally
    from toolkit.simulation.drawing import Size
    from toolkit.simulation.swarm import Outcome

CHECK_FAILED = 1
INTERRUPTED = 130
_MOST_SHRUNK = 3
"""How many failed seeds are shrunk and told in full; they are seldom more than so many bugs."""


def sim(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO...]", help="Run these, as `msgrlab run` names them, instead of random lives."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that share them; one for each core unless given.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="small (2 or 3 nodes, 30 messages) or cluster (40 nodes, 1000 messages).")
    ] = "small",
    replay: Annotated[
        int | None, typer.Option(min=0, metavar="SEED", help="Live this one seed's life and tell all of it.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="N,N...", help="With --replay: do these operations of its schedule only; or none."),
    ] = None,
    twice: Annotated[
        bool, typer.Option("--check-determinism", help="Live each life twice and compare every byte.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep history, chart and report of failed seeds in folders of DIR."),
    ] = None,
) -> int:
    """Draw nodes, options and faults from each seed, live through them, heal everything and judge the history.

    Exit 1 if any seed fails. Ctrl-C ends it with what was done so far.
    """
    from toolkit.simulation.drawing import Size

    if size not in list(Size):
        raise LocalError(f"unknown size {size!r}; known: {', '.join(Size)}")
    if keep is not None and replay is None:
        raise LocalError("--keep is for --replay: it names operations of one seed's schedule")
    if scenarios:
        if keep is not None or twice or size != Size.SMALL:
            raise LocalError("--keep, --check-determinism and --size are for random lives, not for scenarios")
        first, seeds = (first, seeds) if replay is None else (replay, 1)
        return _run_scenarios(scenarios, range(first, first + seeds), jobs, as_json=as_json)
    if out is not None:
        _make_folder(out)
    if replay is not None:
        return _replay(replay, Size(size), _places(keep), as_json=as_json, out=out)
    return _run_seeds(range(first, first + seeds), Size(size), jobs, twice=twice, as_json=as_json, out=out)


def _places(keep: str | None) -> list[int] | None:
    if keep is None or keep == "none":
        return None if keep is None else []
    try:
        return [int(word) for word in keep.split(",")]
    except ValueError:
        raise LocalError(f"--keep {keep!r}: give numbers with commas between, or none") from None


# ---- random lives


def _replay(seed: int, size: "Size", keep: list[int] | None, *, as_json: bool, out: Path | None) -> int:
    from toolkit.simulation.findings import as_json as life_json
    from toolkit.simulation.findings import tell
    from toolkit.simulation.swarm import live

    outcome = live(seed, size, keep)
    _keep_files([outcome], out)
    print(json.dumps(life_json(outcome), indent=2) if as_json else "\n".join(tell(outcome)))
    return 0 if outcome.passed else CHECK_FAILED


def _run_seeds(
    seeds: range, size: "Size", jobs: int | None, *, twice: bool, as_json: bool, out: Path | None
) -> int:
    from toolkit.simulation.campaign import run_seeds
    from toolkit.simulation.findings import as_json as life_json
    from toolkit.simulation.findings import tell

    with _progress(len(seeds), quiet=as_json) as progress:
        campaign = run_seeds(seeds, size, jobs, twice=twice, progress=progress)
    outcomes = _shrunk([seed for seed, _ in campaign.tally.failed], size)
    _keep_files(outcomes, out)
    if as_json:
        shrunk = {outcome.seed: life_json(outcome) for outcome in outcomes}
        print(json.dumps(_summary(campaign, seeds, size.value, shrunk), indent=2))
    else:
        for outcome in outcomes:
            print("\n".join(tell(outcome)), end="\n\n")
        _print_summary(campaign, len(seeds), "seeds")
    return _verdict(campaign)


def _shrunk(failed: Sequence[int], size: "Size") -> "list[Outcome]":
    """The first few failed seeds, each with the least of its schedule that fails."""
    from toolkit.simulation.shrink import shrink
    from toolkit.simulation.swarm import live

    outcomes = (live(seed, size) for seed in failed[:_MOST_SHRUNK])
    return [shrink(outcome) if outcome.failures else outcome for outcome in outcomes]


def _make_folder(out: Path) -> None:
    """Before hours are spent on what is to go there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"--out {out}: {error.strerror}") from None


def _keep_files(outcomes: "Sequence[Outcome]", out: Path | None) -> None:
    from toolkit.simulation.findings import save

    if out is not None:
        for outcome in outcomes:
            save(outcome, out / f"seed-{outcome.seed}")


# ---- scenarios


def _run_scenarios(names: Sequence[str], seeds: range, jobs: int | None, *, as_json: bool) -> int:
    from toolkit.simulation.scenario_seeds import run_scenario_seeds, units_of

    units = units_of(names, seeds)
    with _progress(len(units), quiet=as_json) as progress:
        campaign = run_scenario_seeds(units, jobs, progress)
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
def _progress(total: int, *, quiet: bool) -> "Iterator[Callable[[Tally], None]]":
    """A bar on stderr where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _tally: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("no failures", total=total)
        failures = 0

        def advance(tally: "Tally") -> None:
            nonlocal failures
            failures += len(tally.failed)
            bar.update(task, advance=tally.runs, description=f"{failures or 'no'} failures")

        yield advance


def _summary(campaign: "Campaign", seeds: range, size: str, shrunk: dict[int, Any]) -> dict[str, Any]:
    from toolkit.simulation.findings import failures_json
    from toolkit.simulation.marks import MARKS

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
    from toolkit.simulation.marks import MARKS

    tally = campaign.tally
    print(
        f"{tally.runs} {units} in {campaign.seconds:.1f} s ({campaign.runs_per_cpu_s:.0f} a second on one core), "
        f"{tally.events} events, {len(tally.failed)} failed"
    )
    if campaign.interrupted:
        print(f"interrupted: {wanted - tally.runs} {units} were not run")
    more = [str(name) for name, _ in tally.failed[:20]]
    if more:
        print(f"failed: {', '.join(more)}{' …' if len(tally.failed) > len(more) else ''}")
    print(f"{len(MARKS) - len(campaign.never)} of {len(MARKS)} rare states reached")
    for mark in campaign.never:
        print(f"  never: {mark}: {MARKS[mark]}")


def _verdict(campaign: "Campaign") -> int:
    if campaign.tally.failed:
        return CHECK_FAILED
    return INTERRUPTED if campaign.interrupted else 0
