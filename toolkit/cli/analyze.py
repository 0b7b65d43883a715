"""``msgrlab analyze``: the sessions, handshakes, latencies and violations of a capture."""

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.capture_files import Files, Ports, capture_files, tcp_ports
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console

    from toolkit.dissect.capture import Capture

CHECK_FAILED = 1
_SESSION_DETAILS = ("client_address", "server_address", "global_id", "cipher", "compression", "began", "ended")
"""Columns that only the JSON object has, because a terminal is too narrow for them."""
_MOST_ROWS = 500
"""Rows of a table that are printed as text."""


def analyze(
    files: Files,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    seq: Annotated[
        int | None,
        typer.Option("--where", metavar="SEQ", min=1, help="Only trace the messages with this sequence number."),
    ] = None,
    session: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="With --where: only in this session.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Analyse at most N frames.")] = None,
    ports: Ports = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Check each frame against the rules of the protocol, and list them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> int:
    """Show sessions and their links, replayed and lost messages, handshake times, latencies and violations.

    Exit 1, with a line on standard error, if anything could not be decoded, if an invariant is violated, or if the
    capture is longer than the limit: --limit, or the number of frames that fit into half of the machine's memory.
    """
    from messenger.errors import LocalError
    from toolkit.dissect.analysis import Limits
    from toolkit.dissect.capture import Capture

    if session is not None and seq is None:
        raise LocalError("--session needs --where SEQ")
    if audit and seq is not None:
        raise LocalError("--audit and --where SEQ exclude each other")
    capture = Capture(
        capture_files(files),
        keyring or (),
        key_log or (),
        ports=tcp_ports(ports),
        limits=Limits(limit) if limit else None,
        each_request=False,
    )
    if seq is not None:
        lines = capture.analysis.where(seq, session)
        print(json.dumps(lines) if as_json else "\n".join(lines) or f"no message with seq {seq}")
    elif audit:
        from toolkit.cli.audit_output import audit_json, audit_lines

        print(json.dumps(audit_json(capture), indent=2) if as_json else "\n".join(audit_lines(capture)))
    elif as_json:
        print(json.dumps(_as_json(capture), indent=2))
    else:
        _print(capture)
    return _verdict(capture)


def _as_json(capture: "Capture") -> dict[str, object]:
    from dataclasses import asdict

    from toolkit.dissect.analysis.explain import encryption
    from toolkit.dissect.frames import utc

    analysis = capture.analysis
    return {
        "began": None if analysis.began_ns is None else utc(analysis.began_ns),
        "began_ns": analysis.began_ns,
        "ended": utc(analysis.ended_ns) if analysis.links else None,
        "sessions": _records(analysis.session_table()),
        "links": _records(analysis.handshake_table()),
        "ends": _records(analysis.end_table()),
        "failed_connects": [
            asdict(failed) | {"outcome": str(failed.outcome), "first": utc(failed.first_ns)}
            for failed in analysis.failed()
        ],
        "encryption": encryption(analysis),
        "note": capture.note,
        "latency": _records(analysis.latency_table()),
        "batches": _records(analysis.batch_table()),
        "traffic": _records(analysis.traffic_table()),
        "problem": capture.problem,
        "violations": [
            {"check": result.id, "text": violation.text}
            for result in capture.check()
            for violation in result.violations
        ],
    }


def _records(table: "DataFrame") -> list[dict[str, object]]:
    """Convert rows to JSON values; pandas' own JSON writer fails on integers beyond 64 bits."""
    rows = table.astype(object).to_dict(orient="records")
    return [{str(name): None if _is_missing(value) else value for name, value in row.items()} for row in rows]


def _is_missing(value: object) -> bool:
    from pandas import NA

    return value is None or value is NA or (isinstance(value, float) and math.isnan(value))


def _print(capture: "Capture") -> None:
    from rich.console import Console

    from toolkit.dissect.analysis.explain import encryption

    console = Console(highlight=False)
    analysis = capture.analysis
    if not analysis.links:
        console.print("no messenger link in this capture")
    elif analysis.began_ns is not None:
        from toolkit.dissect.frames import utc

        lasted_s = (analysis.ended_ns - analysis.began_ns) / 1e9
        zero = (
            f"Times count from the first packet, {utc(analysis.began_ns)}; the last frame is at {lasted_s:.6f} s."
        )
        console.print(zero, soft_wrap=True)
        console.print()
    sessions = _joined(analysis.session_table(), "client", "server", " ↔ ")
    _table(
        console,
        "Sessions",
        sessions.rename(columns={"to_server": "→", "to_client": "←"}),
        "identity",
        "protocol",
        "mode",
        *_SESSION_DETAILS,
    )
    links = _joined(analysis.handshake_table(), "client", "server", " → ")
    links.columns = links.columns.str.removesuffix("_ms")
    _table(console, "Handshakes: phases in ms", links, "protocol", "mode", "session")
    ends = analysis.end_table()
    known = ends["hop_of"].notna().any() if len(ends) else False
    _table(console, "How links ended", ends, "client", "server", "outcome", *([] if known else ["hop_of"]))
    for failed in analysis.failed():
        console.print(f"{failed.client} → {failed.server}: {failed.count:,} x {failed.ending}", soft_wrap=True)
    _lines(console, "Encryption", encryption(analysis))
    _table(console, "Requests and replies", analysis.latency_table())
    batches = _joined(analysis.batch_table(), "sender", "receiver", " → ")
    _table(console, "Frames per packet", batches.rename(columns={"frames_per_packet": "mean"}))


def _lines(console: "Console", title: str, lines: list[str]) -> None:
    if lines:
        console.print(title, style="bold")
        for line in lines[:_MOST_ROWS]:
            console.print(line, soft_wrap=True, markup=False)
        console.print()


def _joined(rows: "DataFrame", first: str, second: str, arrow: str) -> "DataFrame":
    """Join two columns of names into one column, ``between``, which is narrower."""
    if not rows.empty:
        rows[first] = rows[first] + arrow + rows[second]
    return rows.drop(columns=second).rename(columns={first: "between"})


def _table(console: "Console", title: str, rows: "DataFrame", *left_out: str) -> None:
    """Print the first ``_MOST_ROWS`` rows of a data frame without some columns; nothing if it is empty."""
    from rich.table import Table
    from rich.text import Text

    if rows.empty:
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    rows = rows.drop(columns=list(left_out))
    for name in rows.columns:
        numeric = rows[name].dtype.kind in "if"
        table.add_column(
            str(name), justify="right" if numeric else "left", overflow="fold", no_wrap=name != "between"
        )
    for row in rows.head(_MOST_ROWS).itertuples(index=False):
        table.add_row(*(Text("" if _is_missing(cell) else _cell(cell)) for cell in row))
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"… and {len(rows) - _MOST_ROWS:,} more rows; --json has all")
    console.print()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _verdict(capture: "Capture") -> int:
    """Print all problems as one line on standard error; return the exit code."""
    violated = [f"{result.id}: {result.violations[0].text}" for result in capture.check() if not result.ok]
    problems = [problem for problem in (capture.problem, *violated) if problem]
    if capture.note or problems:
        print(f"msgrlab: {'; '.join(filter(None, [capture.note, *problems]))}", file=sys.stderr)
    return CHECK_FAILED if problems else 0
