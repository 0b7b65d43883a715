"""The report: one HTML file with everything inside, for any number of scenario runs."""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from pathlib import PurePath
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from toolkit.checks.describe import describe
from toolkit.checks.history import History
from toolkit.checks.records import KINDS
from toolkit.checks.result import CheckResult
from toolkit.report.sequence import SequenceChart, style
from toolkit.report.text import duration, printable

_TEMPLATES = "templates"
_DETAIL_KINDS = frozenset({"frame", "send", "deliver", "throttle", "link"})
"""Kinds a reader asks for when the others have not said enough."""
_MOST_ROWS = 1200
_LAST_ROWS = 400
_MOST_LINES = 5000
_MOST_VIOLATIONS = 50
"""Of one check; the others are seldom news."""
_ALL_OPEN = 8
"""Up to so many scenarios show their charts at once; more only those of failures."""


class Verdict(StrEnum):
    """How a scenario ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(slots=True)
class ScenarioReport:
    """One scenario, run once."""

    title: str
    id: str
    description: str
    """Prose: what it shows."""
    backend: str
    mode: str
    seed: int | None
    verdict: Verdict
    duration_s: float
    checks: Sequence[CheckResult]
    history: History
    replay_command: str
    artefacts: Mapping[str, "str | PathLike[str]"] = field(default_factory=dict)
    """Files it left, by what they are; relative paths become links."""
    reason: str = ""
    """Why it failed or is unsupported, where no check says so."""
    lifelines: Sequence[str] = ()
    """Order of the nodes in the chart."""


@dataclass(slots=True)
class _Event:
    """A row of the table of events; ``skipped`` rows are missing before it."""

    place: int
    time: str
    node: str
    kind: str
    text: str
    skipped: int
    wrong: bool


class _Page:
    """What the template needs to know of one scenario."""

    def __init__(self, report: ScenarioReport, number: int, *, chart_open: bool) -> None:
        self.report = report
        self.anchor = f"s{number}"
        history = report.history
        self.chart = Markup(SequenceChart(history, report.lifelines).inline()) if len(history) else ""  # noqa: S704 - escaped by svg.py
        self.chart_open = chart_open
        self.passed_checks = sum(check.ok for check in report.checks)
        self.duration = duration(report.duration_s)
        self.simulated = duration(history.duration_s)
        self.events = _events(report)
        self.most_violations = _MOST_VIOLATIONS
        self._shown = {event.place for event in self.events}
        counts = Counter(record.kind for record in history)
        self.kinds = [(kind, counts[kind], kind not in _DETAIL_KINDS) for kind in KINDS if counts[kind]]
        self.ndjson = History(history.records[:_MOST_LINES]).dump()
        self.lines_left = max(0, len(history) - _MOST_LINES)
        self.artefacts = [(name, str(path), _href(path)) for name, path in report.artefacts.items()]

    def link(self, place: int) -> str:
        """Where the page shows a record; empty if it does not."""
        return f"#{self.anchor}-{place}" if place in self._shown else ""


def _events(report: ScenarioReport) -> list[_Event]:
    """The records as rows; of very many the beginning, the end, and those that violations point to."""
    records = report.history.records
    wrong = {violation.record for check in report.checks for violation in check.violations[:_MOST_VIOLATIONS]}
    places = sorted({*range(len(records))} if len(records) <= _MOST_ROWS else _chosen(len(records), wrong))
    rows, last = [], -1
    for place in places:
        record = records[place]
        rows.append(
            _Event(
                place,
                f"{record.time_s:.6f}",
                record.node,
                record.kind,
                describe(record),
                place - last - 1,
                place in wrong,
            )
        )
        last = place
    return rows


def _chosen(count: int, wrong: set[int]) -> set[int]:
    return {*range(_MOST_ROWS - _LAST_ROWS), *range(count - _LAST_ROWS, count), *(wrong & {*range(count)})}


def _href(path: "str | PathLike[str]") -> str:
    """A link that stays below the report; empty for paths that do not."""
    pure = PurePath(path)
    return "" if pure.is_absolute() or ".." in pure.parts else "./" + quote(pure.as_posix())


def render_report(reports: Sequence[ScenarioReport], title: str = "Scenario report") -> str:
    """The report as one HTML document that loads nothing, not even with a network."""
    environment = Environment(
        loader=PackageLoader("toolkit.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("report.js")
    few = len(reports) <= _ALL_OPEN
    pages = [
        _Page(report, number, chart_open=few or report.verdict is Verdict.FAILED)
        for number, report in enumerate(reports, 1)
    ]
    page = environment.get_template("report.html.j2").render(
        title=title,
        pages=pages,
        counts=[(verdict, sum(report.verdict is verdict for report in reports)) for verdict in Verdict],
        duration=duration(sum(report.duration_s for report in reports)),
        css=Markup(_asset("report.css") + style()),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
    )
    return printable(page)


def _asset(name: str) -> str:
    return files("toolkit.report").joinpath(_TEMPLATES, name).read_text(encoding="utf-8")
