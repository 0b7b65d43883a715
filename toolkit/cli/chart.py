"""``msgrlab chart``: a capture or a history as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from toolkit.checks.history import History
    from toolkit.dissect.reading import Capture

_HISTORIES = frozenset({".ndjson", ".jsonl"})
_LAST_ROWS = 200
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ margin: 24px; font: 15px/1.5 system-ui, sans-serif; color-scheme: light dark }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def chart(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Capture in pcap or pcapng, also gzipped; or a history (.ndjson, .jsonl)."
        ),
    ],
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    session: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This session only, as `msgrlab analyze` numbers them.")
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Links over time instead of frame by frame.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Write there: .svg, or .html with the timeline as well."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With -o: replace the file if it exists.")] = False,
) -> None:
    """Draw who sent what to whom. Without -o the last frames are printed as text."""
    if force and out is None:
        raise LocalError("--force is for -o FILE")
    if timeline and out is None:
        raise LocalError("--timeline is a picture: give -o FILE.svg")
    if out is not None and out.suffix not in {".svg", ".html"}:
        raise LocalError(f"{out}: give a name that ends in .svg or .html")
    capture, history = _read(file, keyring or [], key_log or [], session)
    if timeline and capture is None:
        raise LocalError("--timeline is for captures")
    if out is None:
        from toolkit.report.plain import plain_chart

        print("\n".join(plain_chart(history, _LAST_ROWS)))
    else:
        from toolkit.cli.frame_output import output_file

        picture = _drawn(file.name, capture, history, timeline=timeline, page=out.suffix == ".html")
        with output_file(out, replace=force, source=file) as output:
            output.write(picture.encode())


def _read(
    file: Path, keyrings: list[Path], key_logs: list[Path], session: int | None
) -> "tuple[Capture | None, History]":
    from toolkit.checks.history import History
    from toolkit.dissect.reading import Capture

    if file.suffix in _HISTORIES:
        if keyrings or key_logs or session is not None:
            raise LocalError("--keyring, --key-log and --session are for captures, not for histories")
        return None, History.load(file)
    capture = Capture(file, keyrings, key_logs)
    return capture, capture.history(session)


def _drawn(title: str, capture: "Capture | None", history: "History", *, timeline: bool, page: bool) -> str:
    from html import escape

    from toolkit.report.sequence import SequenceChart

    lanes = capture.timeline.svg() if capture is not None and (timeline or page) else ""
    frames = "" if timeline else SequenceChart(history).svg()
    return _PAGE.format(title=escape(title), body=lanes + frames) if page else lanes or frames
