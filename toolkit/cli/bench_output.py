"""What the forms of ``msgrlab bench`` have in common: progress, tables, JSON."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError

if TYPE_CHECKING:
    from rich.table import Table


def check_out(out: Path | None) -> None:
    """Refuse to write where something is, or where nothing can be."""
    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise LocalError(f"--out {out}: {'exists already' if out.exists() else 'there is no such folder'}")


def show(text: str, table: "Table", out: Path | None, *, as_json: bool) -> None:
    """Print the table, or the same as JSON, which goes to a new file as well."""
    if out is not None:
        with out.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    if as_json:
        print(text)
    else:
        from rich.console import Console

        Console().print(table)


@contextmanager
def progress(total: int) -> Iterator[Callable[[object], None]]:
    """A bar on standard error, advanced by what is yielded."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=total)
        yield lambda _: bars.advance(bar)


def new_table(names: Sequence[str], numbers: Sequence[str]) -> "Table":
    """A table without lines: columns of text, then of numbers."""
    from platform import python_implementation, python_version

    from rich.table import Table

    caption = f"{python_implementation()} {python_version()}"
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
