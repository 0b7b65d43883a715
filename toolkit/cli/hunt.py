"""``msgrlab hunt``: run the interception grid on links between Ceph's own clients and daemons."""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.report_files import Html, ReportFiles

if TYPE_CHECKING:
    from toolkit.hunt import Cell, Hunt, Outcome
    from toolkit.report.html import ScenarioReport

FOUND = 1
INTERRUPTED = 130
_TITLE = "Faults at every frame between real clients and daemons"


def hunt(
    release: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="nautilus, pacific, reef or tentacle (images); host: the Ceph installed here; embedded: "
            "msgrlab's own daemons, with the client installed here.",
        ),
    ] = "host",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Only cells with this id or part of it: client, 'HELLO-*', cut. Repeatable."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of a random order of the cells.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep results, and captures and logs of findings, in this folder; a later run resumes there.",
        ),
    ] = None,
    list_cells: Annotated[bool, typer.Option("--list", help="List the cells and their rules.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    html: Html = None,
) -> int:
    """Cut, hold, drop and duplicate each frame between Ceph's own client and daemons; exit 1 on a finding.

    A cell is LINK/POINT/ACTION: the client appends to an object while the frame-aware proxy applies the
    action to the first frame of the point. Afterwards the object must contain each acknowledged write
    once, no process may hang, and the daemons must still run. docs/hunt.md has the results for Pacific.
    """
    from messenger.errors import MsgrError
    from toolkit.hunt import Hunt, Verdict, cells
    from toolkit.hunt.ground import links_of

    chosen = cells(links_of(release), only or (), seed)
    if list_cells:
        _list(chosen, as_json=as_json)
        return 0
    files = ReportFiles(html, None)
    directory = _directory(out)
    run = Hunt(chosen, release, directory)
    try:
        interrupted = _go(run, quiet=as_json)
    except MsgrError:
        if out is None and not run.outcomes:
            directory.rmdir()
        raise
    outcomes = run.so_far()
    if files:
        files.write([_report(outcome) for outcome in outcomes], _TITLE)
    _print(outcomes, interrupted=interrupted, as_json=as_json)
    has_left = any(outcome.directory is not None for outcome in outcomes)
    if out is None and not has_left and not interrupted:
        shutil.rmtree(directory)
    elif not as_json:
        print(f"results, captures and logs: {directory}")
    if interrupted:
        return INTERRUPTED
    return FOUND if any(outcome.verdict is Verdict.FOUND for outcome in outcomes) else 0


def _directory(out: Path | None) -> Path:
    """Return the folder for results, captures and logs; a temporary one if ``out`` is None.

    Raises:
        LocalError: the folder cannot be made.
    """
    from messenger.errors import LocalError

    if out is None:
        return Path(tempfile.mkdtemp(prefix="msgrlab-hunt-"))
    try:
        out.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise LocalError(f"--out {out}: {error.strerror}") from None
    return out


def _go(run: "Hunt", *, quiet: bool) -> bool:
    """Run the cells; return True if Ctrl-C or SIGTERM ended the run."""
    from toolkit.cli.progress import progress
    from toolkit.cli.streams import interrupted_by_sigterm

    with interrupted_by_sigterm(), progress("hunting", len(run.cells), quiet=quiet) as steps:

        def report(outcome: "Outcome") -> None:
            steps.show(f"{outcome.cell.id} {outcome.verdict}")
            steps.advance()

        run.report = report
        try:
            run.go()
        except KeyboardInterrupt:
            again = f"; --out {run.directory} resumes the run" if run.outcomes else ""
            print(f"msgrlab: interrupted: {len(run.outcomes)} of {len(run.cells)} cells{again}", file=sys.stderr)
            return True
    return False


def _list(chosen: "Sequence[Cell]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"cells": [{"id": cell.id, "rule": cell.rule} for cell in chosen]}, indent=2))
        return
    for cell in chosen:
        print(f"{cell.id}  {cell.rule}")


def _print(outcomes: "Sequence[Outcome]", *, interrupted: bool, as_json: bool) -> None:
    from toolkit.hunt.runner import by_cause
    from toolkit.report.terminal import shown

    counts = dict(Counter(outcome.verdict.value for outcome in outcomes))
    causes = by_cause(outcomes)
    if as_json:
        grouped = {cause: [outcome.cell.id for outcome in group] for cause, group in causes.items()}
        results = [outcome.as_json() for outcome in outcomes]
        values = {"counts": counts, "interrupted": interrupted, "causes": grouped, "results": results}
        print(json.dumps(values, indent=2))
        return
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    for cause, group in causes.items():
        print(shown(f"{group[0].verdict}: {cause}: {len(group)}"))
        for outcome in group:
            print(f"  {outcome.cell.id}, {outcome.cell.rule}")
            if outcome.directory is not None:
                print(f"    files  {outcome.directory}\n    again  {outcome.command}")


def _report(outcome: "Outcome") -> "ScenarioReport":
    from toolkit.checks.history import History
    from toolkit.hunt.cells import Verdict as Found
    from toolkit.report.html import ScenarioReport, Verdict

    verdicts = {Found.HELD: Verdict.PASSED, Found.STUCK: Verdict.PASSED, Found.FOUND: Verdict.FAILED}
    return ScenarioReport(
        title=f"{outcome.cell.action} at {outcome.cell.point}, {outcome.cell.link}",
        id=outcome.cell.id,
        description=f"The proxy applies the rule {outcome.cell.rule!r} while a client appends to an object.",
        backend="hunt",
        mode="v2-crc",
        seed=None,
        verdict=verdicts.get(outcome.verdict, Verdict.UNSUPPORTED),
        duration_s=outcome.seconds,
        checks=[],
        history=History(),
        replay_command=outcome.command,
        artefacts={} if outcome.directory is None else {"folder": outcome.directory},
        reason=outcome.cause,
        facts={"Release": outcome.release, "Verdict": outcome.verdict.value, "Rule": outcome.cell.rule},
    )
