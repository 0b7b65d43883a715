"""``msgrlab bench decode``: speed and memory of decoding a capture, compared with tshark if it is installed."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_output import Measured, check_out, measured, new_table, show
from toolkit.cli.key_options import KeyLogs, Keyrings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from toolkit.bench.decode import Capture, DecodeResult


def decode(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Capture; by default captures are generated.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Size of most generated captures, as in 50M; by default 200M.")
    ] = None,
    keyring: Keyrings = None,
    key_log: KeyLogs = None,
    runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of each decoder, of which the best counts.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Measure decoders on the same capture, each in its own process.

    columns: decode into an Arrow table, check every crc, decrypt secure frames.

    records: decode the same frames into one object each.

    scapy: build Scapy layers for the first 2,000 messages.

    tshark fields, tshark json: msgr v1 only, without checks; the JSON is loaded
    into a table.

    Without FILE, captures are generated: msgr v1 and v2, crc and secure, with
    large and with small messages, on four and on 300 links. They are removed
    afterwards.

    Figures are the best of several runs; a slow decoder is run once. The time
    that a decoder takes to start is not included. Rates and ratios are of CPU
    time: every decoder runs on one core.
    """
    from messenger.errors import LocalError
    from toolkit.bench.captures import FULL_BYTES
    from toolkit.bench.decode import made_captures
    from toolkit.bench.options import parse_size

    check_out(out)
    if file is not None and size is not None:
        raise LocalError("--size is the size of generated captures; it cannot be combined with FILE")
    if file is None and (keyring or key_log):
        raise LocalError("--keyring and --key-log need FILE; generated captures have their keys")
    if file is not None:
        done = _measure([_given(file, keyring or [], key_log or [])], runs)
    else:
        with made_captures(parse_size("--size", size) if size is not None else FULL_BYTES) as captures:
            done = _measure(captures, runs)
    show(done, _table(done.rows), out, as_json=as_json)


def _given(file: Path, keyrings: "Sequence[Path]", key_logs: "Sequence[Path]") -> "Capture":
    from toolkit.bench.decode import Capture
    from toolkit.capture.formats import open_capture
    from toolkit.dissect.keys import KeyBook

    open_capture(file).close()  # a damaged file fails here, before anything is measured
    KeyBook.read(keyrings, key_logs)
    return Capture(name=file.name, path=file, has_v1=True, keyrings=keyrings, key_logs=key_logs)


def _measure(captures: "Sequence[Capture]", runs: int) -> "Measured[DecodeResult]":
    from toolkit.bench.decode import measure_decoders

    rows = sum(len(capture.decoders()) for capture in captures)
    return measured("decode", rows, partial(measure_decoders, captures, runs))


def _table(results: "Sequence[DecodeResult]") -> "Table":
    headings = ("messages", "seconds", "CPU s", "MB/s", "messages/s", "MiB", "ratio")
    table = new_table(("capture", "decoder"), headings)
    for result in results:
        table.add_row(
            result.capture,
            result.decoder,
            f"{result.messages:,}",
            f"{result.seconds:.2f}",
            f"{result.cpu_s:.2f}",
            f"{result.mb_per_s:,.0f}" if result.mb_per_s >= 10 else f"{result.mb_per_s:.1f}",
            f"{result.messages_per_s:,.0f}",
            f"{result.peak_rss_mib:.0f}",
            f"{result.ratio:.1f}",
        )
    return table
