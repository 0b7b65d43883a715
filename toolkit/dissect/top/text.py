"""Rows of sessions as text."""

from collections.abc import Sequence

from toolkit.dissect.top.row import Row
from toolkit.report.terminal import shown_line

TITLES = (
    *("entity (global_id)", "peer", "mode", "state", "frames/s →", "←", "bytes/s →", "←"),
    *("in flight", "p50 ms", "p99", "rec", "verdict", "last fault or end"),
)
NUMBERS = frozenset({"frames/s →", "←", "bytes/s →", "in flight", "p50 ms", "p99", "rec"})
"""Titles of right-aligned columns."""

_NONE = "-"
"""Stands for a missing number."""


def lines(rows: Sequence[Row]) -> list[str]:
    """Return a table: a line of titles, and one per row; empty without rows."""
    if not rows:
        return []
    table = [TITLES, *([text for _, text in cells(row)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    made = []
    for line in table:
        parts = (
            f"{cell:>{width}}" if title in NUMBERS else f"{cell:<{width}}"
            for title, cell, width in zip(TITLES, line, widths, strict=True)
        )
        made.append("  ".join(parts).rstrip())
    return made


def cells(row: Row) -> list[tuple[str, str]]:
    """Return the cells of a row, each with its title."""
    known = f"{row.entity} ({row.global_id})" if row.global_id else row.entity
    in_flight = _NONE if row.in_flight_out is None and row.in_flight_in is None else ""
    return [
        (title, shown_line(text))
        for title, text in (
            ("entity (global_id)", known),
            ("peer", row.peer),
            ("mode", " ".join(filter(None, (row.protocol, row.cipher or row.mode)))),
            ("state", row.state),
            ("frames/s →", _rate(row.frames_out_per_s)),
            ("←", _rate(row.frames_in_per_s)),
            ("bytes/s →", amount(row.bytes_out_per_s)),
            ("←", amount(row.bytes_in_per_s)),
            ("in flight", in_flight or f"{row.in_flight_out or 0}/{row.in_flight_in or 0}"),
            ("p50 ms", _ms(row.p50_ms)),
            ("p99", _ms(row.p99_ms)),
            ("rec", str(row.reconnects)),
            ("verdict", row.verdict),
            ("last fault or end", row.last),
        )
    ]


def amount(size_bytes: float) -> str:
    """Format bytes with three digits and a unit.

    >>> amount(12345)
    '12.3k'
    """
    for unit in ("", "k", "M", "G", "T"):
        if size_bytes < 999.5 or unit == "T":
            return f"{size_bytes:.3g}{unit}" if size_bytes < 999.5 else f"{size_bytes:.0f}{unit}"
        size_bytes /= 1000
    raise AssertionError


def _rate(per_s: float) -> str:
    return f"{per_s:.3g}" if per_s < 999.5 else f"{per_s:,.0f}"


def _ms(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
