"""``msgrlab decode``: decode the messenger frames of a capture."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.capture_files import Files, Ports, capture_files, tcp_ports
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from toolkit.capture.formats import CaptureReader
    from toolkit.cli.frame_jobs import Job

_UNDECODED = 1
_PATIENCE_S = 1.0
"""Progress is shown to a user who waits longer than this."""


class Format(StrEnum):
    """The format of the output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_BY_SUFFIX = {
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}

Payloads = Annotated[
    bool,
    typer.Option(
        "--payloads",
        help="With csv and parquet: add the columns object, pool, pg, snap, op and result of OSD messages.",
    ),
]


def decode(
    files: Files,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Format of the output, by default from the suffix of -o, else table; json is one line per frame.",
        ),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Only frames for which this is true, as in 'stream == 2 and message.seq > 5'; names are the keys "
            "of the JSON record, and packet, direction and compressed.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="File to write instead of standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With -o: replace the file if it exists.")] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after N frames.")] = None,
    ports: Ports = None,
    payloads: Payloads = False,
    utc: Annotated[
        bool,
        typer.Option("--utc", help="In the table: wall-clock time instead of seconds since the first packet."),
    ] = False,
) -> int:
    """Decode the msgr v1 and v2 frames of a capture; check and decrypt them with the keys given.

    Keys inside the capture (see `msgrlab capture --key-log`) are used as well. Exit 1, with a line on standard
    error, if anything could not be decoded.
    """
    from rich.console import Console

    from toolkit.cli.frame_jobs import ColumnJob, FrameJob
    from toolkit.cli.frame_lines import FrameLines
    from toolkit.cli.frame_output import JsonLines, csv_writer, output_file, parquet_writer, text_of
    from toolkit.dissect.filters import compile_filter
    from toolkit.dissect.keys import KeyBook
    from toolkit.machine.garbage import rarely_collecting

    kind = format_ or (_BY_SUFFIX.get(out.suffix.lower()) if out else None) or Format.TABLE
    in_columns = kind in (Format.CSV, Format.PARQUET)
    _check(kind, out, force=force, utc=utc, payloads=payloads)
    wanted = compile_filter(expression) if expression is not None else None
    among = tcp_ports(ports)
    keys = KeyBook.read(keyring or (), key_log or ())
    with contextlib.ExitStack() as stack:
        stack.enter_context(rarely_collecting())
        job: Job
        if in_columns and wanted is None:
            job = ColumnJob(capture_files(files), keys, limit, among, payloads=payloads)
        else:
            job = FrameJob(capture_files(files), keys, limit, wanted, among, payloads=payloads)
        stack.callback(job.reader.close)
        output = stack.enter_context(output_file(out, replace=force, sources=files))
        job.advance = stack.enter_context(_progress(job.reader, quiet=out is None and sys.stdout.isatty()))
        if isinstance(job, FrameJob) and not in_columns:
            text = stack.enter_context(text_of(output))
            job.write_lines(JsonLines() if kind is Format.JSON else FrameLines(Console(file=text), utc=utc), text)
        else:
            writer = csv_writer if kind is Format.CSV else parquet_writer
            job.write_columns(partial(writer, payloads=payloads), output)
    return _print_summary(job, [] if wanted is None else wanted.absent)


def _check(kind: Format, out: Path | None, *, force: bool, utc: bool, payloads: bool) -> None:
    """Raise LocalError for options that exclude each other."""
    if kind is Format.PARQUET and out is None:
        raise LocalError("--format parquet needs -o FILE")
    if force and out is None:
        raise LocalError("--force needs -o FILE")
    if utc and kind is not Format.TABLE:
        raise LocalError("--utc needs --format table; the other formats always have wall-clock time")
    if payloads and kind not in (Format.CSV, Format.PARQUET):
        raise LocalError("--payloads needs --format csv or parquet; the other formats always have all fields")


@contextlib.contextmanager
def _progress(reader: "CaptureReader", *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on standard error once the job takes longer than ``_PATIENCE_S``."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda: None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with contextlib.ExitStack() as shown:
        bar = Progress(*columns, console=console, transient=True)
        task = bar.add_task("", total=reader.size_bytes)
        until_s = time.monotonic() + _PATIENCE_S

        def advance() -> None:
            if not bar.live.is_started and time.monotonic() > until_s:
                shown.enter_context(bar)
            bar.update(task, completed=reader.position_bytes)

        yield advance


def _print_summary(job: "Job", absent: list[str]) -> int:
    """Print the summary line on standard error; return the exit code."""
    problem = job.problem
    if job.reader.unfinished:
        job.tally.forgive_end()
    parts = [job.tally.text(), problem, job.reader.unfinished, job.skipped]
    if job.stopped:
        parts.append(f"stopped after {job.shown:,}")
    if not job.tally.frames and job.other_streams:
        parts.append(f"TCP connections without messenger frames: {job.other_streams:,}")
    if absent:
        parts.append(f"no frame has {' or '.join(absent)}")
    line = "; ".join(filter(None, parts))
    undecoded = bool(job.tally.undecoded or problem or (job.skipped and not job.tally.frames))
    print(f"msgrlab: {line}" if undecoded else line, file=sys.stderr)
    return _UNDECODED if undecoded else 0
