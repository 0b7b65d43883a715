"""``msgrlab matrix``: test our messenger with several releases of Ceph, cell by cell."""

import contextlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.cli.shares import Dask

if TYPE_CHECKING:
    from toolkit.matrix.runner import Outcome, Run
    from toolkit.matrix.table import Cell
    from toolkit.report.html import ScenarioReport

FAILED = 1
INTERRUPTED = 130
_TITLE = "Releases of Ceph against our messenger"


def matrix(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Only cells with this id or part of it: reef, '*/server/loss*'. Repeatable."
        ),
    ] = None,
    release: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="nautilus, pacific, reef, tentacle; host: the Ceph installed here."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep capture, keys, logs, history and command of each cell in this new folder."
        ),
    ] = None,
    dask: Dask = "",
    list_cells: Annotated[bool, typer.Option("--list", help="List the cells without running them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    junit: Junit = None,
    html: Html = None,
) -> int:
    """Test our messenger with every release of Ceph; exit 1 if a cell fails.

    A cell is RELEASE/WIRE/AUTH/ROLE/CASE. Ceph's daemons and clients are
    unmodified and run from the images of their releases; each setup has a
    cluster of its own, in network namespaces. A cell succeeds if the capture,
    the history of our side and the data read back all prove it.
    With --dask several machines share the setups, and the files of the cells
    are collected here. docs/matrix.md has the results of the four releases.
    """
    from toolkit.matrix.table import select

    files = ReportFiles(html, junit)
    cells = select(only or (), release or ())
    if list_cells:
        _list(cells, as_json=as_json)
        return 0
    directory, is_kept = _directory(out)
    run = _run(cells, directory, dask)
    try:
        interrupted = _go(run, quiet=as_json)
    finally:
        with contextlib.suppress(OSError):  # fails if a cell was run: then the folder is not empty
            directory.rmdir()
    outcomes = run.so_far()
    if files:
        files.write([_report(outcome) for outcome in outcomes], _TITLE)
    counts = dict(Counter(outcome.verdict.value for outcome in outcomes))
    if as_json:
        rows = [outcome.as_json() for outcome in outcomes]
        print(json.dumps({"counts": counts, "interrupted": interrupted, "results": rows}, indent=2))
    else:
        _print(outcomes, counts)
    has_failed = any(outcome.is_failure for outcome in run.outcomes)
    if not is_kept and not has_failed:
        shutil.rmtree(directory, ignore_errors=True)
    elif directory.exists() and not as_json:
        print(f"files of the cells: {directory}")
    if interrupted:
        return INTERRUPTED
    return FAILED if has_failed else 0


def _run(cells: "Sequence[Cell]", directory: Path, dask: str) -> "Run":
    """Return a run on this machine, or one that the workers at ``dask`` share if it is not empty."""
    if dask:
        from toolkit.matrix.shared_run import SharedRun

        return SharedRun(cells, directory, dask=dask)
    from toolkit.matrix.runner import Run

    return Run(cells, directory)


def _directory(out: Path | None) -> tuple[Path, bool]:
    """Return the folder for the files of the cells, and True if it is kept even if every cell succeeds.

    Raises:
        LocalError: the folder exists, or cannot be made.
    """
    from messenger.errors import LocalError

    if out is None:
        return Path(tempfile.mkdtemp(prefix="msgrlab-matrix-")), False
    try:
        out.mkdir(mode=0o700)
    except OSError as error:
        raise LocalError(f"--out {out}: {error.strerror}") from None
    return out, True


def _go(run: "Run", *, quiet: bool) -> bool:
    """Run the cells; return True if Ctrl-C or SIGTERM ended the run."""
    from toolkit.cli.progress import progress
    from toolkit.cli.streams import interrupted_by_sigterm
    from toolkit.matrix.shared_run import SharedRun

    with interrupted_by_sigterm(), progress("running", len(run.cells), quiet=quiet) as steps:
        counted: set[str] = set()

        def show(line: str) -> None:
            steps.show(line)
            cell = line.partition(" ")[0]
            if cell not in counted:  # a cell of a lost worker is run again
                counted.add(cell)
                steps.advance()

        run.report = lambda outcome: show(f"{outcome.cell.id} {outcome.verdict}")
        if isinstance(run, SharedRun):
            run.progress = show
        try:
            run.go()
        except KeyboardInterrupt:
            print(f"msgrlab: interrupted: {len(run.outcomes)} of {len(run.cells)} cells were run", file=sys.stderr)
            return True
    return False


# ---- showing


def _list(cells: "Sequence[Cell]", *, as_json: bool) -> None:
    from toolkit.matrix.table import reason_of

    rows = [(cell.id, reason_of(cell)) for cell in cells]
    if as_json:
        values = [
            {"id": id_, "verdict": reason and reason.verdict.value, "reason": reason and str(reason)}
            for id_, reason in rows
        ]
        print(json.dumps({"cells": values}, indent=2))
        return
    for id_, reason in rows:
        print(id_ if reason is None else f"{id_}  {reason.verdict}: {reason}")


def _print(outcomes: "Sequence[Outcome]", counts: dict[str, int]) -> None:
    from rich.console import Console

    from toolkit.report.terminal import shown_line

    console = Console(highlight=False)

    def line(text: str, style: str = "") -> None:
        console.print(shown_line(text), style=style, markup=False, soft_wrap=True)

    line(", ".join(f"{count} {word}" for word, count in counts.items()), "bold")
    reasons = Counter((outcome.verdict.value, outcome.reason) for outcome in outcomes if not outcome.was_run)
    for (verdict, reason), count in reasons.items():
        line(f"  {count} {verdict}: {reason}")
    for outcome in outcomes:
        if outcome.was_run and not outcome.is_failure:
            line(f"  {outcome.cell.id}: {outcome.verdict}")
    for outcome in outcomes:
        if outcome.was_run and outcome.is_failure:
            line(f"  {outcome.cell.id} failed: {outcome.reason}", "red")
            for text in outcome.evidence:
                line(f"    seen      {text}")
            if outcome.machine:
                line(f"    machine   {outcome.machine}")
            line(f"    files     {outcome.directory}")
            line(f"    again     {outcome.command}")


def _report(outcome: "Outcome") -> "ScenarioReport":
    from toolkit.checks.history import History
    from toolkit.matrix.table import ABOUT
    from toolkit.matrix.table import Verdict as CellVerdict
    from toolkit.report.html import ScenarioReport, Verdict

    cell = outcome.cell
    verdicts = {CellVerdict.SUCCEEDED: Verdict.PASSED, CellVerdict.FAILED: Verdict.FAILED}
    facts = {"Release": cell.release, "Authentication": cell.auth, "Role": cell.role.value}
    facts |= {"Verdict": outcome.verdict.value} | ({"Machine": outcome.machine} if outcome.machine else {})
    facts |= {f"Seen {number}": text for number, text in enumerate(outcome.evidence, 1)}
    return ScenarioReport(
        title=f"{cell.case}: {cell.release}, {cell.wire}, {cell.auth}, {cell.role}",
        id=cell.id,
        description=ABOUT[cell.case],
        backend="matrix",
        mode=cell.wire,
        seed=None,
        verdict=verdicts.get(outcome.verdict, Verdict.UNSUPPORTED),
        duration_s=outcome.duration_s,
        checks=[],
        history=History(),
        replay_command=outcome.command,
        artefacts={} if outcome.directory is None else {"folder": outcome.directory},
        reason=outcome.reason,
        facts=facts,
    )
