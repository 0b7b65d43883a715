"""The report: one self-contained HTML file, for any number of runs."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from itertools import chain, dropwhile
from os import PathLike
from pathlib import Path, PurePath
from urllib.parse import quote

from markupsafe import Markup

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.result import CheckResult, Outcome, tally
from toolkit.report.assets import asset, environment
from toolkit.report.chart_data import as_script, chart_values, event_values
from toolkit.report.frame_bytes import MOST_PAGE_BYTES, FrameLines, FrameSource
from toolkit.report.rates import LEAST_DELIVERIES, Delivered, RateChart, deliveries_of
from toolkit.report.sequence import style
from toolkit.report.text import duration, printable

GENERATOR = "msgrlab"
"""Name of the generator in a report."""
_TELEPHONE_PLOT = 226.0
"""Width in pixels of the plots of rates if the window is 390 pixels wide."""
_SCRIPTS = ("elements.js", "rows.js", "drawing.js", "frame_panel.js", "chart.js", "events.js", "report.js")
_MOST_VIOLATIONS = 50
"""Limit of violations shown per check; further ones rarely add anything."""
_MOST_DATA_BYTES = 48 << 20
"""Limit of charts and events in one page, failed runs first; further runs have their facts and checks only."""


class Verdict(StrEnum):
    """The verdict on a run."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    UNSUPPORTED = "unsupported"

    @classmethod
    def of(cls, checks: Sequence[CheckResult], failure: str = "") -> "Verdict":
        """Return the verdict of checks; ``failure`` describes any other failure."""
        counts = tally(checks)
        if failure or counts[Outcome.VIOLATED]:
            return cls.FAILED
        return cls.PASSED if counts[Outcome.HOLDS] else cls.NOT_JUDGED


@dataclass(slots=True)
class ScenarioReport:
    """One run of a scenario, a seed, a cluster or a schedule; or a history without any checks."""

    title: str
    id: str
    description: str
    """Description of the run, as prose."""
    backend: str
    mode: str
    seed: int | None
    verdict: Verdict | None
    """Results of the checks; None if nothing is judged, as for a chart of a capture."""
    duration_s: float
    checks: Sequence[CheckResult]
    history: History
    replay_command: str
    artefacts: Mapping[str, "str | PathLike[str]"] = field(default_factory=dict)
    """Files that it wrote, by description; relative paths become links."""
    reason: str = ""
    """Reason why it failed, was not judged or is unsupported, if no check shows it."""
    lifelines: Sequence[str] = ()
    """Order of the nodes in the chart."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further facts by name: counters of a campaign, the daemons of a cluster."""
    pictures: Mapping[str, str] = field(default_factory=dict)
    """Further charts as SVG, by title."""
    frames: FrameSource | None = None
    """The frames with their bytes, if these were recorded; iterated once."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a report, shown in its footer."""

    command: str
    """The command line that wrote it."""
    version: str
    """Version of msgrlab."""
    made_at: str
    """Date and time with time zone."""


class _Page:
    """The data of one run for the template."""

    def __init__(self, report: ScenarioReport, number: int) -> None:
        self.report = report
        self.anchor = f"s{number}"
        self.duration = duration(report.duration_s)
        self.simulated = duration(report.history.duration_s)
        self.by_outcome = {
            outcome: [check for check in report.checks if check.outcome is outcome] for outcome in Outcome
        }
        self.most_violations = _MOST_VIOLATIONS
        self.pictures = {title: Markup(drawn) for title, drawn in report.pictures.items()}  # noqa: S704 - by svg.py
        self.artefacts = [(name, str(path), _href(path)) for name, path in report.artefacts.items()]
        self.chart = self.events = self.frames = self.rates = Markup()
        self._shown: frozenset[int] = frozenset()
        self._numbers: set[int] = set()

    @property
    def first_complaint(self) -> str:
        """The first problem, for the index."""
        texts = (violation.text for check in self.report.checks for violation in check.violations)
        return self.report.reason or next(texts, "")

    def draw(self, room_bytes: int) -> int:
        """Add chart and events if they fit into ``room_bytes``; returns their length."""
        history, checks = self.report.history, self.report.checks
        if not len(history) or room_bytes <= 0:
            return 0
        wrong = {one.record for check in checks for one in check.violations[:_MOST_VIOLATIONS]}
        index = Index(history)
        values = chart_values(history, self.report.lifelines, index)
        chart, numbers = as_script(values), {row["frame"] for row in values["rows"] if "frame" in row}
        del values  # of a long history these are a hundred megabytes
        events = event_values(history, wrong)
        written = as_script(events)
        size_bytes = len(chart) + len(written)
        if size_bytes <= room_bytes:
            self.chart, self.events = Markup(chart), Markup(written)  # noqa: S704 - as_script() escapes markup
            self._shown = frozenset(row[0] for row in events["rows"])
            self._numbers = numbers
            if len(deliveries := deliveries_of(index)) >= LEAST_DELIVERIES:
                self.rates = Markup(_rates(history, deliveries))  # noqa: S704 - by svg.py
        return size_bytes

    def add_bytes(self, room_bytes: int) -> int:
        """Add the bytes of the chart's frames, up to ``room_bytes``; returns their length."""
        if self.report.frames is None or not self._numbers:
            return 0
        lines = FrameLines()
        lines.fill(self.report.frames, self._numbers, room_bytes)
        self.frames = Markup(lines.text())  # noqa: S704 - FrameLines escapes markup
        return lines.size_bytes

    @property
    def left_out(self) -> bool:
        """True if there is a history that did not fit into the page."""
        return bool(len(self.report.history)) and not self.chart

    def link(self, place: int) -> str:
        """Return the link to a record in the page; empty if the page does not show it."""
        return f"#{self.anchor}-{place}" if place in self._shown else ""


def below(path: Path, folder: Path) -> Path:
    """Return the path of an artefact for a report in ``folder``; absolute, and not a link, if it is outside."""
    whole, root = path.absolute(), folder.absolute()
    return whole.relative_to(root) if whole.is_relative_to(root) else whole


def _href(path: "str | PathLike[str]") -> str:
    """Return a link if the path stays below the report; else an empty text."""
    pure = PurePath(path)
    return "" if pure.is_absolute() or ".." in pure.parts else "./" + quote(pure.as_posix())


def render_report(
    reports: Sequence[ScenarioReport], title: str = "Scenario report", provenance: Provenance | None = None
) -> str:
    """Render the report as one HTML document; :func:`report_parts` describes it."""
    return "".join(report_parts(reports, title, provenance))


def report_parts(
    reports: Sequence[ScenarioReport], title: str = "Scenario report", provenance: Provenance | None = None
) -> Iterator[str]:
    """Return the parts of a report, one HTML document that loads no other resource. A page may have 50 MB.

    Charts and events are in it as data, which its scripts draw when they come into view. All data is read before
    this returns, so that a writer of the parts leaves no half page if a frame source fails.

    Args:
        reports: the runs, in the order of display.
        title: title of the document.
        provenance: origin, for the footer.
    """
    pages = [_Page(report, number) for number, report in enumerate(reports, 1)]
    room_bytes = _MOST_DATA_BYTES
    for page in sorted(pages, key=lambda page: page.report.verdict is not Verdict.FAILED):
        room_bytes -= page.draw(room_bytes)
    room_bytes = MOST_PAGE_BYTES
    for page in pages:
        room_bytes -= page.add_bytes(room_bytes)
    script = "".join(map(asset, _SCRIPTS))
    took_s = sum(report.duration_s for report in reports)
    parts = (
        environment()
        .get_template("report.html.j2")
        .generate(
            title=title,
            pages=pages,
            counts=[(verdict, sum(report.verdict is verdict for report in reports)) for verdict in Verdict],
            duration=duration(took_s),
            took=took_s > 0,
            provenance=provenance,
            generator=GENERATOR,
            css=Markup(asset("report.css") + asset("chart.css") + asset("frame_panel.css") + style()),  # noqa: S704 - our own files
            script=Markup(script),  # noqa: S704
            script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        )
    )
    first = next(dropwhile(str.isspace, parts)).lstrip()
    return map(printable, chain([first], parts))


def _rates(history: History, deliveries: Sequence[Delivered]) -> str:
    """Draw the rates in two widths; the style sheet shows the one that fits."""
    widths = {"broad": RateChart.of(history, deliveries=deliveries)}
    widths["narrow"] = RateChart.of(history, deliveries=deliveries, wide=_TELEPHONE_PLOT)
    return "".join(f'<div class="{name}">{chart.inline()}</div>' for name, chart in widths.items())
