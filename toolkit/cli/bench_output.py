"""What the forms of ``msgrlab bench`` have in common: progress, Ctrl-C, tables, JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from messenger.errors import LocalError
from toolkit.cli.progress import progress

if TYPE_CHECKING:
    from rich.table import Table


class Row(Protocol):
    """What was measured of one kind."""

    def as_json(self) -> dict[str, Any]:
        """Its values, by their names."""


_Row = TypeVar("_Row", bound=Row)


@dataclass(slots=True)
class Measured(Generic[_Row]):
    """The rows that were measured, in their order."""

    what: str
    """Of these rows, in the JSON object."""
    rows: list[_Row] = field(default_factory=list)
    is_interrupted: bool = False
    """True if Ctrl-C ended the measurement before its last row."""


def measured(what: str, total: int, measure: Callable[[Callable[[_Row], None]], object]) -> Measured[_Row]:
    """Measure with progress on standard error; after Ctrl-C the rows so far are kept.

    Args:
        what: is measured: the name of the rows in the JSON object.
        total: number of rows.
        measure: does it, and calls its argument with each row at once.
    """
    done: Measured[_Row] = Measured(what)
    try:
        with progress("measuring", total) as steps:

            def finished(row: _Row) -> None:
                done.rows.append(row)
                steps.advance()

            measure(finished)
    except KeyboardInterrupt:
        done.is_interrupted = True
        print(f"msgrlab: interrupted: {len(done.rows)} of {total} rows were measured", file=sys.stderr)
    return done


def check_out(out: Path | None) -> None:
    """Refuse to write where something is, or where nothing can be."""
    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise LocalError(f"--out {out}: {'exists already' if out.exists() else 'there is no such folder'}")


def show(done: Measured[Any], table: "Table", out: Path | None, *, as_json: bool) -> None:
    """Print the table, or the same as JSON, which goes to a new file as well.

    Raises:
        KeyboardInterrupt: the measurement was interrupted; what there is of it has been printed.
    """
    from messenger.form import form

    values: dict[str, Any] = {done.what: [row.as_json() for row in done.rows], "messenger_form": form()}
    if done.is_interrupted:
        values["interrupted"] = True
    text = json.dumps(values, indent=2)
    if done.rows and out is not None:
        with out.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    if as_json:
        print(text)
    elif done.rows:
        from rich.console import Console

        Console().print(table)
    if done.is_interrupted:
        raise KeyboardInterrupt


def new_table(names: Sequence[str], numbers: Sequence[str]) -> "Table":
    """A table without lines: columns of text, then of numbers."""
    from platform import python_implementation, python_version

    from rich.table import Table

    from messenger.form import form

    caption = f"{python_implementation()} {python_version()}, {form()} form"
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        caption=caption,
        caption_justify="left",
    )
    for name in names:
        table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table
