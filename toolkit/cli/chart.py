"""``msgrlab chart``: draw a capture or a history as a sequence chart or timeline."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.capture_files import Files, Ports, capture_files, tcp_ports
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from toolkit.checks.history import History
    from toolkit.dissect.capture import Capture
    from toolkit.dissect.frames import DecodedFrame
    from toolkit.report.frame_bytes import ShownFrame

_HISTORIES = frozenset({".ndjson", ".jsonl"})
_LAST_ROWS = 200
_LANES_TITLE = (
    "Links over time: bytes sent by the connector above the line, by the acceptor below, after the handshake bar"
)


def chart(
    files: Files,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    session: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only this session, numbered as in `msgrlab analyze`.")
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Draw links over time instead of single frames.")
    ] = False,
    ports: Ports = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="File to write: .svg, or .html for a page with filters and zoom."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With -o: replace the file if it exists.")] = False,
) -> None:
    """Draw the frames of a capture or history (.ndjson, .jsonl) as arrows between sender and receiver.

    Without -o the last frames are printed as text.
    """
    if force and out is None:
        raise LocalError("--force needs -o FILE")
    if timeline and out is None:
        raise LocalError("--timeline needs -o FILE.svg or -o FILE.html")
    if out is not None:
        from toolkit.cli.frame_output import check_output, output_file

        if out.suffix not in {".svg", ".html"}:
            raise LocalError(f"-o {out}: the name must end in .svg or .html")
        check_output(out, replace=force, sources=files)
    capture, history = _read(files, keyring or [], key_log or [], session, ports)
    if timeline and capture is None:
        raise LocalError("--timeline needs a capture, not a history")
    if out is None:
        from toolkit.report.plain import plain_chart

        print("\n".join(plain_chart(history, _LAST_ROWS)))
    else:
        from toolkit.checks.history import History
        from toolkit.report.sequence import SequenceChart

        is_page = out.suffix == ".html"
        lanes = "" if capture is None or not (timeline or is_page) else _lanes(capture, session)
        if is_page:
            parts = _page(files[0].name, lanes, History() if timeline else history, capture)
        else:
            parts = iter([lanes or SequenceChart(history).svg()])
        with output_file(out, replace=force, sources=files) as output:
            output.writelines(part.encode() for part in parts)


def _read(
    files: list[Path], keyrings: list[Path], key_logs: list[Path], session: int | None, ports: str | None
) -> "tuple[Capture | None, History]":
    from toolkit.checks.history import History
    from toolkit.dissect.capture import Capture

    if any(file.suffix in _HISTORIES for file in files):
        if len(files) > 1:
            raise LocalError("a history cannot be combined with other files")
        if keyrings or key_logs or session is not None or ports is not None:
            raise LocalError("--keyring, --key-log, --session and --ports need a capture, not a history")
        return None, History.load(files[0])
    capture = Capture(capture_files(files), keyrings, key_logs, ports=tcp_ports(ports))
    return capture, capture.drawn(session)


def _lanes(capture: "Capture", session: int | None) -> str:
    return (capture.timeline if session is None else capture.timeline_of(session)).svg()


def _page(title: str, lanes: str, history: "History", capture: "Capture | None") -> Iterator[str]:
    from toolkit.cli.report_files import provenance
    from toolkit.report.html import ScenarioReport, report_parts

    pictures = {_LANES_TITLE: lanes} if lanes else {}
    page = ScenarioReport(title, "", "", "", "", None, None, 0, [], history, "", pictures=pictures)
    if capture is not None:
        page.frames = ((frame.frame, partial(_explored, frame)) for frame in capture)
    return report_parts([page], title, provenance())


def _explored(frame: "DecodedFrame") -> "ShownFrame":
    return frame.explore().shown()
