"""``msgrlab demo``: the scenarios on real processes, with a report at the end."""

from pathlib import Path
from typing import Annotated

import typer

CHECK_FAILED = 1
_DEFAULT_OUT = Path("msgrlab-out")


def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the report; msgrlab-out/demo-N unless given."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 1,
) -> int:
    """Run reconnect, standby and session-reset in crc and secure mode, and write one HTML report."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from toolkit.report.html import render_report
    from toolkit.scenarios.families.tour import TOUR
    from toolkit.scenarios.runner import run_scenario, save_artefacts
    from toolkit.scenarios.ways import ways

    directory = out or _unused_directory()
    todo = [(scenario, way) for scenario in TOUR.scenarios for way in ways("v2-crc", "v2-secure")]
    runs = []
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(todo))
        for scenario, way in todo:
            progress.update(bar, description=f"{scenario.id} [dim]{way}[/]")
            done = run_scenario(scenario, "local", way, seed)
            save_artefacts(done, directory / done.name)
            runs.append(done)
            mark = "[green]passed[/]" if done.passed else "[red]failed[/]"
            line = f"{mark}  {scenario.id:<14} {way.name:<9} {done.duration_s:5.2f} s"
            console.print(f"{line}  [dim]{scenario.title}[/]")
            for line in done.complaints:
                console.print(f"        {line}", markup=False)
            progress.advance(bar)
    report = directory / "report.html"
    pages = [done.report(directory) for done in runs]
    report.write_text(render_report(pages, "Sessions under faults"), encoding="utf-8")
    print(f"\nReport: {report.resolve().as_uri()}")
    return 0 if all(done.passed for done in runs) else CHECK_FAILED


def _unused_directory() -> Path:
    """The next folder of its kind; nothing that exists is written into."""
    number = 1
    while (directory := _DEFAULT_OUT / f"demo-{number}").exists():
        number += 1
    return directory
