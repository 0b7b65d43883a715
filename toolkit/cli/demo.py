"""``msgrlab demo``: run three scenarios over real sockets and write a report."""

import os
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.report_files import Html, Junit, ReportFiles

if TYPE_CHECKING:
    from toolkit.scenarios.runner import ScenarioRun

CHECK_FAILED = 1
INTERRUPTED = 130
_DEFAULT_OUT = Path("msgrlab-out")
_OPENER = "xdg-open"
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the report; by default msgrlab-out/demo-N."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Run reconnect, standby and session-reset in crc and secure mode, and write one HTML report.

    If there is a display, the report opens in a browser.
    """
    from toolkit.cli.progress import progress
    from toolkit.cli.streams import interrupted_by_sigterm
    from toolkit.lab.ways import ways
    from toolkit.scenarios.catalogue import select
    from toolkit.scenarios.runner import run_scenario, save_artefacts

    ReportFiles(html, junit)
    directory = out or _new_directory()
    todo = [(scenario, way) for scenario in select("TOUR") for way in ways("v2-crc", "v2-secure")]
    runs: list[ScenarioRun] = []
    interrupted = False
    with interrupted_by_sigterm(), progress("demo", len(todo)) as steps:
        try:
            for scenario, way in todo:
                steps.show(f"{scenario.id} {way}")
                done = run_scenario(scenario, "local", way, seed)
                save_artefacts(done, directory / done.name)
                steps.advance()
                _print(done, titled=not runs or runs[-1].scenario is not scenario)
                runs.append(done)
        except KeyboardInterrupt:
            interrupted = True
    if not runs:
        with suppress(OSError):
            directory.rmdir()  # if nothing was written
        return INTERRUPTED
    files = ReportFiles(html or directory / "report.html", junit)
    files.write([done.report(files.folder) for done in runs], "Sessions under faults")
    _open(files.folder.resolve() / (files.html or Path()).name)
    if interrupted:
        print(f"msgrlab: interrupted: {len(runs)} of {len(todo)} runs were finished", file=sys.stderr)
        return INTERRUPTED
    return 0 if all(done.passed for done in runs) else CHECK_FAILED


def _print(done: "ScenarioRun", titled: bool) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True)
    if titled:
        console.print(f"[bold]{done.scenario.id}[/]: {done.scenario.title}")
    mark = "[green]passed[/]" if done.passed else "[red]failed[/]"
    console.print(f"  {mark}  {done.way.name:<9} {done.duration_s:5.2f} s")
    for complaint in done.complaints:
        console.print(f"          {complaint}", markup=False)


def _open(report: Path) -> None:
    """Open the report in a browser if there is a display; otherwise print the command that opens it."""
    import shlex
    import shutil
    import subprocess

    print(f"\nReport: {report.as_uri()}")
    opener = shutil.which(_OPENER)
    if opener is None or not any(map(os.environ.get, _DISPLAYS)):
        print(f"To open it: {_OPENER} {shlex.quote(str(report))}")
        return
    nothing = subprocess.DEVNULL
    command = [opener, str(report)]
    viewer = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    viewer.returncode = 0  # the browser outlives this process; without this, Popen would warn about it


def _new_directory() -> Path:
    """Make the first folder msgrlab-out/demo-N that does not exist; no other demo gets the same.

    Raises:
        LocalError: it cannot be made.
    """
    try:
        _DEFAULT_OUT.mkdir(exist_ok=True)
        for number in count(1):
            directory = _DEFAULT_OUT / f"demo-{number}"
            with suppress(FileExistsError):
                directory.mkdir()
                return directory
    except OSError as error:
        raise LocalError(f"{_DEFAULT_OUT}: {error.strerror}; --out names another folder") from None
    raise AssertionError("count() has no end")
