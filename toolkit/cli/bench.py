"""``msgrlab bench``: speed, CPU time and memory of the messenger, compared with a plain socket."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_against import SECONDS, Program
from toolkit.cli.bench_against import against as compare
from toolkit.cli.bench_anchor import anchor
from toolkit.cli.bench_clusters import clusters
from toolkit.cli.bench_decode import decode
from toolkit.cli.bench_hostile import hostile
from toolkit.cli.bench_links import links
from toolkit.cli.bench_output import Measured, cell_columns, check_out, measured, new_table, show, size_text
from toolkit.cli.bench_rados import rados
from toolkit.cli.bench_rdma import rdma
from toolkit.cli.report_files import Html

if TYPE_CHECKING:
    from rich.table import Table

    from toolkit.bench.cell import Cell, Grid, Result
    from toolkit.bench.core import CoreResult
    from toolkit.bench.idle import IdleResult

_ROUNDS = 3
_QUICK_SECONDS = 0.3
_FULL_SECONDS = 2.0
_LEAST_SECONDS = 0.001
_MOST_SECONDS = 600.0
Patterns = Annotated[str | None, typer.Option(metavar="LIST", help="request or stream, or both: request,stream.")]
Sizes = Annotated[str | None, typer.Option(metavar="LIST", help="Bytes of data per message, as in 64,4K,1M.")]
InFlight = Annotated[
    str | None, typer.Option(metavar="LIST", help="Messages in flight without an answer, as in 1,32.")
]
Modes = Annotated[str | None, typer.Option(metavar="LIST", help="crc or secure, or both: crc,secure.")]
Proto = Annotated[str, typer.Option(help="Protocol: v1 or v2.")]
Cores = Annotated[
    str | None, typer.Option(metavar="LIST", help="1: both processes share a CPU; 2: a CPU for each process.")
]
Cells = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Only rows whose names contain these words, as in 'crc 4K x32,v2 1M'."),
]
Full = Annotated[bool, typer.Option("--full", help="Measure longer, and also streams with one message in flight.")]
Seconds = Annotated[
    float | None,
    typer.Option(help="Seconds per row; by default 0.3, with --full 2, with --against 1.4."),
]


app = typer.Typer(invoke_without_command=True)
app.command()(anchor)
app.command()(decode)
app.command()(clusters)
app.command()(hostile)
app.command()(links)
app.command()(rados)
app.command()(rdma)


@app.callback()
def bench(
    context: typer.Context,
    patterns: Patterns = None,
    sizes: Sizes = None,
    in_flight: InFlight = None,
    modes: Modes = None,
    proto: Proto = "v2",
    cores: Cores = None,
    cells: Cells = None,
    against: Program = None,
    seconds: Seconds = None,
    full: Full = False,
    core: Annotated[
        bool, typer.Option("--core", help="Measure building and parsing one message, without sockets.")
    ] = False,
    idle: Annotated[bool, typer.Option("--idle", help="Measure the memory of an idle connection.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
    html: Html = None,
) -> None:
    """Measure the messenger over loopback, compared with the same messages over a plain socket.

    Two processes, pinned to their CPUs, with one lossless session and cephx.

    request: each message gets an answer of 64 bytes, as in Ceph's perf_msgr.

    stream: messages flow one way; the receiver sends 64 bytes after each half
    window.

    floor: the same messages as length and payload over a plain socket, on the
    same kind of event loop, in turns with the messenger.

    Figures are medians of 3 turns. CPU is the user and system time of both
    processes, followed by that of the floor; memory is the peak of the larger
    process. Python's garbage collector keeps its defaults. After Ctrl-C the rows
    measured so far are shown.

    --against: compare with PROGRAM instead of the floor, for example with Ceph's
    messenger as `msgrlab bench anchor` builds it; medians of 7 pairs of turns,
    and the range of the ratios.
    """
    from messenger.errors import LocalError
    from toolkit.bench.options import parse_grid

    if context.invoked_subcommand is not None:
        return
    connection = bool(patterns or in_flight or cores or full or cells or against or proto != "v2")
    if core and (connection or idle):
        raise LocalError("--core can only be combined with --sizes, --modes and --seconds")
    if idle and (connection or sizes):
        raise LocalError("--idle can only be combined with --modes")
    if html is not None and against is None:
        raise LocalError("--html needs --against PROGRAM")
    duration_s = _duration_s(seconds, SECONDS if against else _FULL_SECONDS if full else _QUICK_SECONDS)
    check_out(out)
    grid = parse_grid(patterns, sizes, in_flight, modes, cores, proto)
    if against is not None:
        compare(against, _cells(grid, cells, full=full), duration_s, out, html, as_json=as_json)
        return
    kind = _idle if idle else _core if core else partial(_connections, cells=cells, full=full)
    done, table = kind(grid, duration_s)
    show(done, table, out, as_json=as_json)


def _duration_s(seconds: float | None, usual_s: float) -> float:
    from messenger.errors import LocalError

    if seconds is None:
        return usual_s
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise LocalError(f"--seconds: {seconds:g} is not from {_LEAST_SECONDS:g} to {_MOST_SECONDS:g}")
    return seconds


def _cells(grid: "Grid", names: str | None, *, full: bool) -> "list[Cell]":
    from messenger.errors import LocalError
    from toolkit.bench.measure import possible_cores
    from toolkit.bench.options import choose_cells

    possible = possible_cores()
    if grid.cores and max(grid.cores) > max(possible):
        raise LocalError(f"--cores {max(grid.cores)}: this process may only use {max(possible)} CPU")
    cells = grid.cells(possible, full=full)
    return cells if names is None else choose_cells(cells, names)


def _connections(
    grid: "Grid", seconds: float, *, cells: str | None, full: bool
) -> "tuple[Measured[Result], Table]":
    from toolkit.bench.measure import measure

    chosen = _cells(grid, cells, full=full)
    done = measured("results", len(chosen), partial(measure, chosen, seconds, _ROUNDS))
    return done, _table(done.rows)


def _core(grid: "Grid", seconds: float) -> "tuple[Measured[CoreResult], Table]":
    from toolkit.bench.cell import MODES
    from toolkit.bench.core import CORE_SIZES, LAYERS, measure_core

    sizes, modes = grid.sizes or CORE_SIZES, grid.modes or MODES
    rows = len(LAYERS) * len(sizes) * len(modes)
    done = measured("core", rows, partial(measure_core, sizes, modes, seconds))
    return done, _core_table(done.rows)


def _idle(grid: "Grid", _seconds: float) -> "tuple[Measured[IdleResult], Table]":
    from toolkit.bench.cell import MODES
    from toolkit.bench.idle import CONNECTIONS, measure_idle

    modes = grid.modes or MODES
    done = measured("idle", len(modes), partial(measure_idle, modes, CONNECTIONS))
    table = new_table(("mode",), ("connections", "bytes each"))
    for result in done.rows:
        table.add_row(result.mode, str(result.connections), f"{result.python_bytes_per_connection:,}")
    return done, table


def _table(results: "Sequence[Result]") -> "Table":
    headings = ("size", "flight", "ops/s", "floor/s", "ratio", "CPU us", "floor", "MiB")
    table = new_table(("pattern", "mode", "cores"), headings)
    for result in results:
        table.add_row(
            *cell_columns(result.cell),
            f"{result.ops_per_s:,.0f}",
            f"{result.floor_ops_per_s:,.0f}",
            f"{result.ratio:.2f}",
            _us(result.cpu_us_per_op),
            _us(result.floor_cpu_us_per_op),
            f"{result.peak_rss_mib:.0f}",
        )
    return table


def _core_table(results: "Sequence[CoreResult]") -> "Table":
    table = new_table(("layer", "mode"), ("size", "build us", "parse us", "both us"))
    for result in results:
        times = (result.build_us, result.parse_us, result.build_us + result.parse_us)
        table.add_row(result.layer, result.mode, size_text(result.size), *(f"{time_us:.2f}" for time_us in times))
    return table


def _us(time_us: float) -> str:
    return f"{time_us:.{0 if time_us >= 1000 else 1}f}"
