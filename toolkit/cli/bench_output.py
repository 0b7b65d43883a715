"""The output of all ``msgrlab bench`` commands: progress, Ctrl-C, tables, JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from messenger.errors import LocalError
from toolkit.cli.progress import progress
from toolkit.cli.streams import interrupted_by_sigterm

if TYPE_CHECKING:
    from rich.table import Table

    from toolkit.bench.cell import Cell


class Row(Protocol):
    """A row of results."""

    def as_json(self) -> dict[str, Any]:
        """Return its values by name."""


_Row = TypeVar("_Row", bound=Row)


@dataclass(slots=True)
class Measured(Generic[_Row]):
    """The rows that were measured, in their order."""

    what: str
    """Key of the rows in the JSON object."""
    rows: list[_Row] = field(default_factory=list)
    is_interrupted: bool = False
    """True if Ctrl-C or SIGTERM ended the measurement before its last row."""
    error: LocalError | None = None
    """The error that ended the measurement before its last row; None if there was none."""
    about: dict[str, Any] = field(default_factory=dict)
    """Values that hold for all rows, added to the JSON object."""


def measured(what: str, total: int, measure: Callable[[Callable[[_Row], None]], object]) -> Measured[_Row]:
    """Measure with progress on standard error; after Ctrl-C, SIGTERM or an error, keep the rows measured so far.

    Args:
        what: key of the rows in the JSON object.
        total: number of rows.
        measure: does the measurement, and calls its argument with each row as soon as it is complete.

    Raises:
        LocalError: the measurement failed before its first row.
    """
    done: Measured[_Row] = Measured(what)
    try:
        with interrupted_by_sigterm(), progress("measuring", total) as steps:

            def finished(row: _Row) -> None:
                done.rows.append(row)
                steps.advance()

            measure(finished)
    except LocalError as error:
        if not done.rows:
            raise
        done.error = error
        print(f"msgrlab: {len(done.rows)} of {total} rows were measured", file=sys.stderr)
    except KeyboardInterrupt:
        done.is_interrupted = True
        print(f"msgrlab: interrupted: {len(done.rows)} of {total} rows were measured", file=sys.stderr)
    return done


def check_out(out: Path | None) -> None:
    """Raise LocalError if the file for ``--out`` exists or its folder does not."""
    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise LocalError(
            f"--out {out}: {'exists already' if out.exists() else f'there is no folder {out.parent}'}"
        )


def show(done: Measured[Any], table: "Table", out: Path | None, *, as_json: bool) -> None:
    """Print the table or the JSON object, and write the JSON object to ``out`` as well.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM ended the measurement; the rows measured before it have been printed.
        LocalError: an error ended the measurement; the rows measured before it have been printed.
    """
    from messenger.form import MESSENGER
    from toolkit.bench.interpreter import Interpreter
    from toolkit.bench.machine import processor
    from toolkit.form import TOOLKIT

    forms = {"messenger_form": MESSENGER.form, "decoder_form": TOOLKIT.form}
    python = Interpreter.this()
    about = {**done.about, "python": python.as_json(), **forms, "processor": processor()}
    values: dict[str, Any] = {done.what: [row.as_json() for row in done.rows], **about}
    if done.is_interrupted:
        values["interrupted"] = True
    if done.error is not None:
        values["error"] = str(done.error)
    text = json.dumps(values, indent=2)
    if done.rows and out is not None:
        with out.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    if as_json:
        print(text)
    elif done.rows:
        from rich.console import Console

        Console().print(table)
        print(f"{python.caption}; {MESSENGER.form} form of the messenger, {TOOLKIT.form} form of the decoder")
    if python.warning:
        print(f"msgrlab: {python.warning}", file=sys.stderr)
    if done.is_interrupted:
        raise KeyboardInterrupt
    if done.error is not None:
        raise done.error


def size_text(size_bytes: int) -> str:
    """Return a number of bytes with the largest unit that leaves a whole number."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def cell_columns(cell: "Cell") -> tuple[str, ...]:
    """Return the columns that name a cell: pattern, mode or protocol, cores, size, messages in flight."""
    mode = cell.mode if cell.protocol == "v2" else cell.protocol
    return cell.pattern, mode, str(cell.cores), size_text(cell.size), str(cell.in_flight)


def new_table(names: Sequence[str], numbers: Sequence[str]) -> "Table":
    """Create a table without lines: text columns ``names``, then number columns ``numbers``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table
