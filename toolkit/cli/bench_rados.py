"""``msgrlab bench rados``: our RADOS client and our embedded OSD compared with Ceph's, in turns."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_output import check_out, measured, new_table, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from toolkit.bench.rados.measure import RadosResult


def rados(
    sides: Annotated[
        str, typer.Option(metavar="LIST", help="What is compared: client or osd, or both: client,osd.")
    ] = "client,osd",
    sizes: Annotated[str, typer.Option(metavar="LIST", help="Bytes of each object, as in 4K,4M.")] = "4K,4M",
    modes: Annotated[str, typer.Option(metavar="LIST", help="crc or secure, or both: crc,secure.")] = "crc,secure",
    in_flight: Annotated[int, typer.Option(min=1, max=1024, help="Writes without an answer.")] = 16,
    count: Annotated[
        int, typer.Option(min=0, max=100_000, help="Objects in each turn; by default 192 MiB, 5000 at most.")
    ] = 0,
    turns: Annotated[int, typer.Option(min=1, max=100, help="Turns of each side.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Write objects with `rados bench`, with msgrlab's RADOS client, and to both kinds of OSD.

    client: msgrlab's client and `rados bench` write to the same OSD of Ceph, one
    process each. CPU is that of the client, without its start.

    osd: `rados bench` writes to the embedded OSD and to that of Ceph. CPU is that
    of the OSD.

    Ceph is the one installed here: a monitor and one OSD with its objects in
    memory. The embedded cluster is that of `msgrlab up embedded`, with one OSD; it
    records its history. Medians of 5 pairs of turns, and the range of the ratios,
    ours / Ceph's. After Ctrl-C the rows measured so far are shown.
    """
    from messenger.errors import LocalError
    from toolkit.bench.cell import MIB, MODES
    from toolkit.bench.options import parse_names, parse_size
    from toolkit.bench.rados.measure import SIDES, Case, default_count, measure_rados

    check_out(out)
    cases = [
        Case(side=side, mode=mode, size=size, in_flight=in_flight, count=count or default_count(size))  # type: ignore[arg-type]
        for mode in parse_names("--modes", MODES, modes)
        for side in parse_names("--sides", SIDES, sides)
        for size in [parse_size("--sizes", word.strip()) for word in sizes.split(",")]
    ]
    for case in cases:
        if case.size * case.count > 512 * MIB:
            raise LocalError(f"--count {case.count}: objects of {case.size} bytes exceed 512 MiB, which OSDs hold")
    done = measured("rados", len(cases), partial(measure_rados, cases, turns))
    done.about = {"turns": turns}
    show(done, _table(done.rows), out, as_json=as_json)


def _table(rows: "Sequence[RadosResult]") -> "Table":
    headings = ("ops/s", "Ceph", "ratio", "", "CPU us", "Ceph", "ratio", "", "load")
    table = new_table(("writes",), headings)
    for row in rows:
        table.add_row(
            row.case.name,
            f"{row.ops_per_s:,.0f}",
            f"{row.ceph_ops_per_s:,.0f}",
            f"{row.rate.median:.2f}",
            f"{row.rate.least:.2f}-{row.rate.greatest:.2f}",
            f"{row.cpu_us_per_op:,.0f}",
            f"{row.ceph_cpu_us_per_op:,.0f}",
            f"{row.cpu.median:.2f}",
            f"{row.cpu.least:.2f}-{row.cpu.greatest:.2f}",
            f"{row.load:.0f}",
        )
    return table
