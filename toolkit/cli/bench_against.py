"""``msgrlab bench --against``: our messenger compared with another program, in turns."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_output import measured, new_table, show
from toolkit.cli.report_files import ReportFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from toolkit.bench.anchor.compare import Comparison, Ratios
    from toolkit.bench.cell import Cell
    from toolkit.report.html import ScenarioReport

Program = Annotated[
    Path | None,
    typer.Option(
        "--against", metavar="PROGRAM", help="Messenger to compare with instead of the floor; see `bench anchor`."
    ),
]
SECONDS = 1.4
"""Default duration of each side's turns in each cell."""
_TITLE = "msgrlab compared with {}"


def against(
    program: Path, cells: "Sequence[Cell]", seconds: float, out: Path | None, html: Path | None, *, as_json: bool
) -> None:
    """Measure the cells and show the results; after an error or Ctrl-C, those of the cells measured so far.

    Raises:
        LocalError: the program does not exist, exited, or sent an invalid answer; or a file cannot be written.
    """
    from messenger.errors import LocalError
    from toolkit.bench.anchor.compare import TURNS, compare

    if not program.is_file():
        raise LocalError(f"--against {program}: there is no such program")
    files = ReportFiles(html)
    done = measured("against", len(cells), partial(compare, cells, program, seconds))
    done.about = {"program": str(program), "turns": TURNS, "seconds": seconds}
    if html is not None and done.rows:
        files.write([_page(program, done.rows)], _TITLE.format(program.name))
    show(done, _table(done.rows), out, as_json=as_json)


def _table(rows: "Sequence[Comparison]") -> "Table":
    headings = ("ops/s", "program", "ratio", "", "CPU us", "program", "ratio", "", "load")
    table = new_table(("cell",), headings)
    for row in rows:
        table.add_row(
            row.cell.name,
            f"{row.ops_per_s:,.0f}",
            f"{row.program_ops_per_s:,.0f}",
            *_ratio(row.rate),
            _us(row.cpu_us_per_op),
            _us(row.program_cpu_us_per_op),
            *_ratio(row.cpu),
            f"{row.load:.0f}",
        )
    return table


def _ratio(ratios: "Ratios") -> tuple[str, str]:
    return f"{ratios.median:.2f}", f"{ratios.least:.2f}-{ratios.greatest:.2f}"


def _us(time_us: float) -> str:
    return f"{time_us:,.{0 if time_us >= 1000 else 1}f}"


def _page(program: Path, rows: "Sequence[Comparison]") -> "ScenarioReport":
    from toolkit.bench.anchor.compare import TURNS
    from toolkit.bench.interpreter import Interpreter
    from toolkit.bench.machine import processor
    from toolkit.checks.history import History
    from toolkit.report.html import ScenarioReport
    from toolkit.report.ratios import RatioChart, RatioRow

    cpu = [
        RatioRow(
            row.cell.name,
            row.cpu.median,
            row.cpu.least,
            row.cpu.greatest,
            f"{_us(row.cpu_us_per_op)} / {_us(row.program_cpu_us_per_op)} us",
        )
        for row in rows
    ]
    rates = [
        RatioRow(
            row.cell.name,
            row.rate.median,
            row.rate.least,
            row.rate.greatest,
            f"{row.ops_per_s:,.0f} / {row.program_ops_per_s:,.0f} per s",
        )
        for row in rows
    ]
    pictures = {
        "CPU time": RatioChart("CPU time per operation, ours / program's (less is better)", cpu, "less").svg(),
        "Rates": RatioChart("Operations per second, ours / program's (more is better)", rates, "more").svg(),
    }
    loads = [row.load for row in rows]
    facts = {
        "Program": str(program),
        "Python": Interpreter.this().caption,
        "Processor": processor(),
        "Load": f"{min(loads):.1f} to {max(loads):.1f}; the measurement itself accounts for up to 2",
        "Turns": f"{TURNS} of each side; dots are the medians of the ratios, bars reach from least to greatest",
    }
    title = _TITLE.format(program.name)
    nothing = History()
    return ScenarioReport(title, "", "", "", "", None, None, 0, [], nothing, "", facts=facts, pictures=pictures)
