"""``msgrlab run``: run scenarios and check the invariants."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import complete_scenarios
from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.cli.shares import Dask, Shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolkit.lab.ways import Way
    from toolkit.report.html import ScenarioReport
    from toolkit.scenarios.batch import Job
    from toolkit.scenarios.coverage import Coverage
    from toolkit.scenarios.runner import ScenarioRun
    from toolkit.scenarios.scenario import Scenario

CHECK_FAILED = 1
INTERRUPTED = 130
EveryWay = Annotated[
    bool,
    typer.Option(
        "--every-way", help="Run each scenario in every protocol, mode, cipher and number of shards it supports."
    ),
]
_LONGEST_TABLE = 60
"""With more runs than this, the table lists only the failed ones."""


def run(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO...",
            autocompletion=complete_scenarios,
            help="Ids as in `msgrlab list`, families (HS), patterns (HS-0*), single cases (HS-03[CASE]) or all. "
            "Your own scenarios: FILE.py, FILE.py::NAME, or `own` for those of your project.",
        ),
    ],
    backend: Annotated[
        str,
        typer.Option(
            help="Where nodes run: sim (virtual time), local (loopback), netns (namespaces), docker (containers), "
            "rdma (soft-RoCE devices), vm (namespaces or soft-RoCE devices of a virtual machine)."
        ),
    ] = "sim",
    mode: Annotated[str | None, typer.Option(help="Connection mode: crc, secure or compressed.")] = None,
    proto: Annotated[str | None, typer.Option(help="Protocol: v1 or v2.")] = None,
    cipher: Annotated[str | None, typer.Option(help="Type of the cephx key: aes or aes256k.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Threads (in sim: shards) per node that serve open connections.")
    ] = 0,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SENDER:TAG[:NTH[:BYTE]]",
            help="Cut the link at the NTH frame TAG from SENDER (default: the first), after BYTE bytes of it "
            "(default: all). Repeatable.",
        ),
    ] = None,
    every_way: EveryWay = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that share the runs; by default 1.")
    ] = None,
    dask: Dask = "",
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Show the actions of the runs at each point of the interception grid."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep history, chart and outcome of each run in a folder of DIR."),
    ] = None,
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Run scenarios and check the invariants on their histories; exit 1 if a run fails.

    Without --proto, --mode, --cipher and --workers each scenario runs in the first way that it lists.
    """
    from toolkit.scenarios.batch import jobs as jobs_of
    from toolkit.scenarios.catalogue import select

    files, shares = ReportFiles(html, junit), Shares(jobs, dask)
    ways = _ways(proto, mode, cipher, workers, every_way=every_way)
    here, elsewhere = _split([scenario for name in scenarios for scenario in select(name)], backend)
    todo = jobs_of(here, backend, ways, seed, cut or ())
    runs, is_interrupted = _run(todo, shares, out)
    _print_runs(runs, elsewhere, backend, _visited(runs) if coverage else None, as_json=as_json)
    if files:
        pages = [done.report(files.folder) for done in runs] + _unsupported(elsewhere, backend)
        files.write(pages, f"msgrlab run {' '.join(scenarios)}")
    if is_interrupted:
        print(f"msgrlab: interrupted: {len(runs)} of {len(todo)} runs were finished", file=sys.stderr)
        return INTERRUPTED
    return 0 if all(done.passed for done in runs) else CHECK_FAILED


def _ways(
    proto: str | None, mode: str | None, cipher: str | None, workers: int, *, every_way: bool
) -> "Sequence[Way] | None":
    """Return the ways that the options name; None stands for the first way of each scenario."""
    from toolkit.lab.ways import ALL_WAYS, Way

    if not any((proto, mode, cipher, workers)):
        return ALL_WAYS if every_way else None
    if every_way:
        raise LocalError("--every-way excludes --proto, --mode, --cipher and --workers")
    return [Way.of(proto or "v2", mode or "crc", cipher or "aes", workers)]


def _split(wanted: "list[Scenario]", backend: str) -> "tuple[list[Scenario], dict[str, str]]":
    """Return the scenarios that run on this backend, and the reason for each other scenario or case.

    A scenario that was named alone is run in any case: its error names the reason.
    """
    here = [scenario for scenario in wanted if scenario.runs_on(backend)] if len(wanted) > 1 else wanted
    elsewhere = {scenario.id: scenario.only for scenario in wanted if scenario not in here}
    cases = {f"{s.id}[{case.name}]": case.only for s in here for case in s.cases if s.obstacle(backend, case)}
    return here, elsewhere | cases


def _run(todo: "list[Job]", shares: Shares, out: Path | None) -> "tuple[list[ScenarioRun], bool]":
    """Run the jobs; return the runs, and True if Ctrl-C or SIGTERM ended them early."""
    from toolkit.cli.streams import interrupted_by_sigterm
    from toolkit.scenarios.runner import save_artefacts

    runs: list[ScenarioRun] = []
    try:
        with interrupted_by_sigterm():
            for done in _shown(todo, shares):
                if out is not None:
                    save_artefacts(done, out / done.name)
                runs.append(done)
    except KeyboardInterrupt:
        return runs, True
    return runs, False


def _unsupported(elsewhere: dict[str, str], backend: str) -> "list[ScenarioReport]":
    """Return report pages for the scenarios that cannot run on this backend."""
    from toolkit.checks.history import History
    from toolkit.report.html import ScenarioReport, Verdict

    verdict = Verdict.UNSUPPORTED
    return [
        ScenarioReport(name, name, "", backend, "", None, verdict, 0, [], History(), "", reason=reason)
        for name, reason in elsewhere.items()
    ]


def _visited(runs: "list[ScenarioRun]") -> "Coverage":
    from toolkit.scenarios.coverage import Coverage

    return Coverage(runs)


def _print_runs(
    runs: "list[ScenarioRun]",
    elsewhere: dict[str, str],
    backend: str,
    visited: "Coverage | None",
    *,
    as_json: bool,
) -> None:
    if as_json:
        coverage = {"coverage": visited.as_json()} if visited is not None else {}
        unsupported = [{"scenario": name, "reason": reason} for name, reason in elsewhere.items()]
        rows = [done.as_json() for done in runs]
        print(json.dumps({"runs": rows, "unsupported": unsupported, **coverage}, indent=2))
        return
    _print_tables(runs)
    if visited is not None:
        from toolkit.cli.grid_table import print_coverage

        print_coverage(visited)
    if elsewhere:
        print(f"UNSUPPORTED on {backend}:")
        for name, reason in elsewhere.items():
            print(f"  {name}: {reason}")


def _print_tables(runs: "list[ScenarioRun]") -> None:
    """Print a table of all runs; of more than ``_LONGEST_TABLE`` runs only the failed ones, and a count."""
    if len(runs) <= _LONGEST_TABLE:
        _print_table(runs)
        return
    _print_table([done for done in runs if not done.passed])
    print(f"{len(runs)} runs, {sum(not done.passed for done in runs)} failed")


def _shown(todo: "list[Job]", shares: Shares) -> "Iterator[ScenarioRun]":
    """Yield the runs as they finish, and show progress."""
    from toolkit.cli.progress import progress
    from toolkit.scenarios.batch import run_all

    with progress("running", len(todo), quiet=len(todo) == 1) as steps:
        for done in run_all(todo, shares.jobs or 1, shares.dask):
            steps.show(done.name)
            steps.advance()
            yield done


def _print_table(runs: "list[ScenarioRun]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("scenario", "backend", "way", "verdict", "seconds", "problems"):
        table.add_column(heading, overflow="fold")
    for done in runs:
        verdict = "[green]passed[/]" if done.passed else "[red]failed[/]"
        table.add_row(
            escape(done.scenario_id),
            done.backend,
            done.way.name,
            verdict,
            f"{done.duration_s:.2f}",
            escape("\n".join(done.complaints)),
        )
    Console().print(table)
    for done in runs:
        if not done.passed:
            print(f"again: {done.replay_command}")
        for name, path in done.artefacts.items():
            print(f"{name}: {path}")
