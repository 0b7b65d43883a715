"""``msgrlab bench rdma``: the messenger over soft-RoCE beside the messenger over TCP."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from toolkit.cli.bench_output import cell_columns, check_out, measured, new_table, show

_ROUNDS = 3


def rdma(
    patterns: Annotated[
        str | None, typer.Option(metavar="LIST", help="request or stream, or both: request,stream.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="LIST", help="Bytes of data per message, as in 4K,64K.")
    ] = None,
    in_flight: Annotated[
        str | None, typer.Option(metavar="LIST", help="Messages in flight without an answer, as in 1,32.")
    ] = None,
    modes: Annotated[str, typer.Option(metavar="LIST", help="crc or secure, or both: crc,secure.")] = "crc",
    proto: Annotated[str, typer.Option(help="Protocol: v1 or v2.")] = "v2",
    cores: Annotated[
        str, typer.Option(metavar="LIST", help="1: both processes share a CPU; 2: a CPU for each process.")
    ] = "1",
    seconds: Annotated[float, typer.Option(min=0.001, max=600.0, help="Seconds per row.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Measure the messenger over RDMA beside the messenger over TCP.

    Patterns, processes and turns are those of `msgrlab bench`. RDMA: two soft-RoCE
    devices on a bridge of this machine, which are removed at the end. TCP: loopback.

    It needs root and a kernel with soft-RoCE: msgrlab vm run -- msgrlab bench rdma

    Figures are medians of 3 turns; the ratio is that of the rates, RDMA / TCP. CPU is
    the user and system time of both processes.
    """
    from dataclasses import replace

    from messenger.errors import LocalError
    from toolkit.bench.measure import possible_cores
    from toolkit.bench.options import parse_grid
    from toolkit.bench.rdma import RDMA_SIZES, measure_rdma

    check_out(out)
    grid = parse_grid(patterns, sizes, in_flight, modes, cores, proto)
    possible = possible_cores()
    if grid.cores and max(grid.cores) > max(possible):
        raise LocalError(f"--cores {max(grid.cores)}: this process may only use {max(possible)} CPU")
    cells = replace(grid, sizes=grid.sizes or RDMA_SIZES).cells(possible, full=False)
    done = measured("rdma", len(cells), partial(measure_rdma, cells, seconds, _ROUNDS))
    table = new_table(
        ("pattern", "mode", "cores"), ("size", "flight", "rdma/s", "tcp/s", "ratio", "CPU us", "tcp us")
    )
    for result in done.rows:
        table.add_row(
            *cell_columns(result.cell),
            f"{result.ops_per_s:,.0f}",
            f"{result.tcp_ops_per_s:,.0f}",
            f"{result.ratio:.2f}",
            f"{result.cpu_us_per_op:.0f}",
            f"{result.tcp_cpu_us_per_op:.0f}",
        )
    show(done, table, out, as_json=as_json)
