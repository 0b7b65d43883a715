"""The options ``--html`` and ``--junit``, and the reports that they write."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError

if TYPE_CHECKING:
    from toolkit.report.html import Provenance, ScenarioReport

Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write an HTML report; an earlier report is replaced."),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML, for CI systems.")
]
command_line: list[str] = []
"""The arguments of ``msgrlab``; set when a command line is run."""
_MODE = 0o666
"""Before the umask: a report holds no secrets."""
_OURS = {"--html": b'<meta name="generator" content="msgrlab">', "--junit": b'<testsuites name="msgrlab"'}
_HEAD_BYTES = 1000


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The reports to write. The constructor checks the paths, so that a wrong one fails before the work begins.

    Raises:
        LocalError: a file exists and is no report of msgrlab, or its folder does not exist.
    """

    html: Path | None = None
    junit: Path | None = None

    def __post_init__(self) -> None:
        for option, path in (("--html", self.html), ("--junit", self.junit)):
            if path is not None:
                _check(option, path)

    def __bool__(self) -> bool:
        return self.html is not None or self.junit is not None

    @property
    def folder(self) -> Path:
        """The folder to which links to artefacts are relative: that of the HTML report."""
        return (self.html or Path()).parent

    def write(self, reports: "Sequence[ScenarioReport]", title: str) -> None:
        """Write the reports that were requested.

        Raises:
            LocalError: a file cannot be written.
        """
        if self.html is not None:
            from toolkit.report.html import report_parts

            _write("--html", self.html, report_parts(reports, title, provenance()))
        if self.junit is not None:
            from toolkit.report.junit import render_junit

            _write("--junit", self.junit, [render_junit(reports, title)])

    def write_page(self, page: str) -> None:
        """Write a page as the HTML report, if ``--html`` was given.

        Raises:
            LocalError: the file cannot be written.
        """
        if self.html is not None:
            _write("--html", self.html, [page])


def _check(option: str, path: Path) -> None:
    try:
        if not path.exists():
            if not path.parent.is_dir():
                raise LocalError(f"{option} {path}: there is no folder {path.parent}")
            return
        with path.open("rb") as file:
            is_ours = _OURS[option] in file.read(_HEAD_BYTES)
    except OSError as error:
        raise LocalError(f"{option} {path}: {error.strerror}") from None
    if not is_ours:
        raise LocalError(f"{option} {path} exists already and is not a report of msgrlab; nothing is overwritten")


def _write(option: str, path: Path, parts: Iterable[str]) -> None:
    from messenger.files import replacing

    try:
        with replacing(path, _MODE) as file:
            file.writelines(part.encode("utf-8", "replace") for part in parts)
    except OSError as error:
        raise LocalError(f"{option} {path}: {error.strerror}") from None


def provenance() -> "Provenance":
    """Return the command line, the version of msgrlab and the time, for the footer of a report."""
    from datetime import datetime
    from importlib.metadata import version

    from toolkit.report.html import Provenance

    now = datetime.now().astimezone()
    return Provenance(shlex.join(["msgrlab", *command_line]), version("msgrlab"), f"{now:%Y-%m-%d %H:%M %Z}")
