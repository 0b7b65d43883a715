"""A sequence chart as text for terminals and logs: one line per row."""

from collections.abc import Sequence

from toolkit.checks.history import History
from toolkit.report.rows import Arrow, Cut, Fate, Gap, Marks, Row, Steps
from toolkit.report.text import printable
from toolkit.report.timeline import Timeline


def plain_chart(history: History, last: int = 40) -> list[str]:
    """Return the last rows of a history's chart.

    Args:
        history: the history to show.
        last: number of frames; the other rows between them are included.
    """
    return plain_rows(Timeline(history).rows, last)


def plain_rows(rows: Sequence[Row], last: int) -> list[str]:
    """Return the last of these rows, in the form of :func:`plain_chart`."""
    frames = [place for place, row in enumerate(rows) if isinstance(row, Arrow)]
    first = frames[-last] if len(frames) >= last else 0
    shown = [(row, *pair) for row in rows[first:] for pair in _lines(row)]
    party_width = max((len(party) for _, party, _ in shown), default=0) + 2
    return [f"{row.time_s:12.6f}  {printable(f'{party:<{party_width}}{what}')}" for row, party, what in shown]


def _lines(row: Row) -> list[tuple[str, str]]:
    """Return node and text of a row, printed after its time."""
    match row:
        case Arrow():
            lost = "  (lost)" if row.fate is Fate.LOST else ""
            many = f"{row.count} " if row.count > 1 else ""
            return [(f"{row.source} → {row.target}", f"{many}{row.tag} {row.detail}".rstrip() + lost)]
        case Marks():
            note = f" {row.note}" if row.note else ""
            return [(row.node, f"[{', '.join(chip.text for chip in row.chips)}]{note}")]
        case Cut():
            return [(f"{row.a} x {row.b}", row.text)]
        case Steps():
            return [("", f"# {line}") for line in row.lines]
        case Gap():
            return [("", row.text)]
