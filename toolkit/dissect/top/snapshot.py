"""All sessions at a moment: sorting and filtering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.dissect.frames import utc
from toolkit.dissect.top.row import COLUMNS, Row
from toolkit.dissect.top.text import TITLES, amount, cells, lines
from toolkit.report.terminal import shown_line
from toolkit.tables import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

SORTED_BY = "bytes"
"""The default order: sessions with most bytes per second first."""
_TEXTS = tuple(each.name for each in fields(Row) if each.type in {"str", str})
"""The columns that are texts."""

_ORDERS: dict[str, Callable[[Row], tuple[str | float, ...]]] = {
    "bytes": lambda row: (-(row.bytes_out_per_s + row.bytes_in_per_s),),
    "frames": lambda row: (-(row.frames_out_per_s + row.frames_in_per_s),),
    "latency": lambda row: (-(row.p99_ms or 0.0),),
    "in-flight": lambda row: (-((row.in_flight_out or 0) + (row.in_flight_in or 0)),),
    "reconnects": lambda row: (-row.reconnects,),
    "entity": lambda row: (row.entity, row.peer),
    "peer": lambda row: (row.peer, row.entity),
    "state": lambda row: (row.state,),
    "verdict": lambda row: (row.verdict == "ok", row.verdict),
    "age": lambda row: (-row.age_s,),
}
ORDERS = tuple(_ORDERS)
"""Keys by which rows can be sorted; numbers in descending order."""


def check_order(key: str) -> str:
    """Return ``key`` if it is one of :data:`ORDERS`.

    Raises:
        LocalError: it is none of them.
    """
    if key not in _ORDERS:
        raise LocalError(f"no order {key!r}; rows are sorted by {', '.join(ORDERS)}")
    return key


def matching(rows: Sequence[Row], words: Sequence[str]) -> list[Row]:
    """Return the rows that match every word: a text that a cell contains, or ``COLUMN=TEXT`` for one column."""
    return [row for row in rows if all(_fits(row, word) for word in words)]


def check_words(words: Sequence[str]) -> None:
    """Validate the words of a filter.

    Raises:
        LocalError: a word names an unknown column.
    """
    for word in words:
        column, equals, _ = word.partition("=")
        if equals and column not in COLUMNS:
            raise LocalError(f"--filter {word!r}: no column {column!r}; there are {', '.join(COLUMNS)}")


def _fits(row: Row, word: str) -> bool:
    column, equals, text = word.partition("=")
    if not equals:
        return any(word in getattr(row, name) for name in _TEXTS)
    value = getattr(row, column)
    return text in value if isinstance(value, str) else text == str(value)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All sessions at a moment."""

    time_ns: int
    interval_s: float
    """Length in seconds of the interval over which rates are means."""
    rows: tuple[Row, ...]
    folded: int = 0
    """Sessions without a row, because they ended or were silent long ago."""
    folded_bytes: int = 0
    folded_frames: int = 0
    packets: int = 0
    dropped: int | None = None
    """Packets that the kernel's socket dropped because they came faster than they were read; None for a file."""
    problem: str = ""
    """What could not be decoded, in one line."""

    def sorted(self, key: str = SORTED_BY) -> "Snapshot":
        """Return the snapshot with rows sorted by a key.

        Raises:
            LocalError: it is none of :data:`ORDERS`.
        """
        order = _ORDERS[check_order(key)]
        return replace(self, rows=tuple(sorted(self.rows, key=lambda row: (order(row), row.session))))

    def only(self, words: Sequence[str]) -> "Snapshot":
        """Return the snapshot with the rows that match every word; see :func:`matching`."""
        return replace(self, rows=tuple(matching(self.rows, words))) if words else self

    def as_json(self) -> dict[str, object]:
        """Return the snapshot as JSON values."""
        about = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rows"}
        return {"time": utc(self.time_ns), **about, "sessions": [row.as_json() for row in self.rows]}

    def table(self) -> "DataFrame":
        """Return a table with one row per session and all columns."""
        return data_frame([row.as_json() for row in self.rows], columns=COLUMNS)

    @property
    def heading(self) -> str:
        """The totals in one line."""
        open_now = sum(row.state in {"open", "sealed"} for row in self.rows)
        parts = [utc(self.time_ns)[11:19], f"{len(self.rows)} sessions, {open_now} open"]
        if self.folded:
            parts.append(f"{self.folded:,} ended ones folded ({amount(self.folded_bytes)})")
        parts.append(f"{self.packets:,} packets")
        if self.dropped is not None:
            parts.append(f"{self.dropped:,} dropped by the kernel")
        return "; ".join(parts)

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.heading, *lines(self.rows), shown_line(self.problem)]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(title)}</th>" for title in TITLES)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for _, cell in cells(row)) + "</tr>" for row in self.rows
        )
        return f"<p>{escape(self.heading)}</p><table><tr>{head}</tr>{body}</table>"
