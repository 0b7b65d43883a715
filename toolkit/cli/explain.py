"""``msgrlab explain`` and ``msgrlab requests``: a capture summarized in sentences, and its requests one by one."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.capture_files import Files, Ports, capture_files, tcp_ports
from toolkit.cli.key_options import KeyLogs, Keyrings
from toolkit.cli.report_files import Html, ReportFiles, provenance

if TYPE_CHECKING:
    from toolkit.dissect.capture import Capture

_SORTS = {"latency": "latency_ms", "sent": "sent_s", "tid": "tid", "object": "object"}
_HEADINGS = {
    "tid": "tid",
    "request": "request",
    "object": "object",
    "pg": "pg",
    "op": "op",
    "sent_s": "at s",
    "latency_ms": "ms",
    "waited_for": "waited for",
    "in_frames": "frames",
    "reply_frame": "reply frame",
    "sent": "sent",
    "streams": "streams",
    "result": "result",
    "between": "between",
}
"""Headings of the table by key of the row."""
_SPACES = dict.fromkeys(b"\t\n\r", " ")
_WIDEST = 60
"""Width of a column in characters; longer texts move the columns behind them to the right."""
_UNDECODED = 1


def explain(
    files: Files,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    ports: Ports = None,
    html: Html = None,
) -> int:
    """Summarize a capture on one page: its peers, encryption, broken links, slow requests and lost messages.

    Each sentence names its frames or streams, for `msgrlab decode --filter`; in the HTML page they are links to
    rows with their contents. Exit 1, with a line on standard error, if anything could not be decoded.
    """
    from toolkit.dissect.analysis.explain import explain as sentences
    from toolkit.dissect.capture import Capture
    from toolkit.report.text import printable

    report = ReportFiles(html)
    capture = Capture(capture_files(files), keyring or (), key_log or (), ports=tcp_ports(ports))
    lines = sentences(capture.analysis)
    if report:  # first, so that a reader of the text who stops early does not cost the page
        report.write_page(_page(capture, lines))
    print("\n".join(map(printable, lines)))
    return _verdict(capture)


def _page(capture: "Capture", lines: list[str]) -> str:
    """Return the description as an HTML page."""
    from toolkit.checks.index import Index
    from toolkit.dissect.direction import Direction
    from toolkit.report.frames import arrows
    from toolkit.report.sentences import StreamRow, render_sentences

    analysis = capture.analysis
    end_ns = analysis.capture_ended_ns or analysis.ended_ns
    streams = [
        StreamRow(
            link.stream.index,
            " → ".join(f"{link.name(way)} ({link.stream.source(way)})" for way in Direction),
            link.ending(end_ns),
        )
        for link in analysis.links
    ]
    frames = (
        arrow
        for part in capture.histories()
        for place, arrow in arrows(Index(part)).items()
        if place in part.judged
    )
    return render_sentences(lines, frames, streams, f"Capture {capture.path}", provenance())


def requests(
    files: Files,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "--filter",
            metavar="EXPR",
            help="Only requests for which this is true, as in 'latency_ms > 100 and object == \"hello\"'; names "
            "are the keys of the JSON row, and name, latency_s and resent.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help=f"{', '.join(_SORTS)}; by default unanswered and slow requests first."
        ),
    ] = "latency",
    least_ms: Annotated[
        float, typer.Option(metavar="MS", min=0, help="Only requests that took this long, or have no reply.")
    ] = 0.0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show at most N rows.")] = None,
    ports: Ports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")] = False,
) -> int:
    """List the requests of a capture, slowest first: time, frames, links, latency and result of each.

    Exit 1, with a line on standard error, if anything could not be decoded.
    """
    from toolkit.dissect.analysis.requests import COLUMNS, NAMES
    from toolkit.dissect.capture import Capture
    from toolkit.dissect.filters import compile_row_filter

    if sort not in _SORTS:
        raise LocalError(f"--sort: unknown column {sort!r}; known: {', '.join(_SORTS)}")
    wanted = None if where is None else compile_row_filter(where, (*COLUMNS, *NAMES))
    capture = Capture(capture_files(files), keyring or (), key_log or (), ports=tcp_ports(ports))
    analysis = capture.analysis
    began_ns = analysis.began_ns or 0
    chosen = [
        request.row(began_ns)
        for request in analysis.requests.all
        if (wanted is None or wanted(request.asked(began_ns)))
        and (request.latency_ns is None or request.latency_ns >= least_ms * 1e6)
    ]
    chosen.sort(key=lambda row: _order(row[_SORTS[sort]], descending=sort == "latency"))
    shown = chosen[:limit]
    if as_json:
        for row in shown:
            print(json.dumps(row))
    else:
        _table(shown)
        print(f"{len(shown):,} of {len(analysis.requests.all):,} requests", file=sys.stderr)
    return _verdict(capture)


def _order(value: object, *, descending: bool) -> tuple[bool, float, str]:
    """Return a sort key: requests without a value come first in descending order, and last in ascending order."""
    if value is None:
        return not descending, 0, ""
    number = float(value) if isinstance(value, int | float) else 0.0
    return descending, -number if descending else number, str(value) if isinstance(value, str) else ""


def _table(rows: list[dict[str, object]]) -> None:
    """Print one line per row, for grep and sort, however long it is."""
    from toolkit.report.text import printable

    names = list(_HEADINGS)
    lines = [list(_HEADINGS.values())]
    for row in rows:
        cells = row | {"between": f"{row['client']} → {row['server']}", "in_frames": _sent_in(row)}
        lines.append([printable(_cell(name, cells[name])).translate(_SPACES) for name in names])
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())


def _sent_in(row: dict[str, object]) -> list[object]:
    """Return the frames of all transmissions of a request."""
    frames, replied = row["frames"], row["reply_frame"] is not None
    assert isinstance(frames, list)
    return frames[:-1] if replied else frames


def _cell(name: str, value: object) -> str:
    if value is None:
        return "no reply" if name == "latency_ms" else ""
    if isinstance(value, float):
        return f"{value:.6f}" if name == "sent_s" else f"{value:.3f}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _verdict(capture: "Capture") -> int:
    if words := "; ".join(filter(None, [capture.note, capture.problem])):
        print(f"msgrlab: {words}", file=sys.stderr)
    return _UNDECODED if capture.problem else 0
