"""Sequence charts: frames between nodes, losses, and the states of sessions, as one SVG."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from toolkit.checks.history import History
from toolkit.checks.records import MESSAGE_TAGS
from toolkit.report import svg
from toolkit.report.folds import FOLDED_TAGS, cap, fold_frames, mark_silences
from toolkit.report.layout import (
    CHIP_HEIGHT,
    CHIP_SPACE,
    LABEL_SIZE,
    STEP_LINE,
    Layout,
    chip_width,
)
from toolkit.report.lifelines import draw_lifelines
from toolkit.report.plain import plain_rows
from toolkit.report.rows import Arrow, Chip, Cut, Fate, Gap, Marks, Row, Steps
from toolkit.report.text import fit, fit_parts, width
from toolkit.report.theme import sheet
from toolkit.report.timeline import Timeline, lifelines_of

if TYPE_CHECKING:
    from pandas import DataFrame

_SESSION_TAGS = frozenset(
    {
        "CLIENT_IDENT",
        "SERVER_IDENT",
        "IDENT_MISSING_FEATURES",
        "SESSION_RECONNECT",
        "SESSION_RECONNECT_OK",
        "SESSION_RESET",
        "SESSION_RETRY",
        "SESSION_RETRY_GLOBAL",
        "WAIT",
        "CONNECT",
        "CONNECT_REPLY",
        "SEQ",
    }
)
_MOST_IDLE_LIFELINES = 32
"""With more lifelines than this, only those with rows are drawn."""
_MOST_PLAIN_FRAMES = 60
"""Number of frames shown in a terminal."""
_SLOPE = 5.0
_HEAD = 7.0


class SequenceChart:
    """A history as a sequence chart. Displays itself in a notebook.

    Args:
        history: the history to show.
        nodes: order of the lifelines; those not named follow in order of appearance.
        longest_run: longer runs of data frames are folded.
        silence_s: pauses of at least this many seconds are marked.
        most_rows: maximum number of rows; the middle of longer charts is omitted.
        between: begin and end in seconds since the run began; everything unless given.
    """

    def __init__(
        self,
        history: History,
        nodes: Sequence[str] = (),
        *,
        longest_run: int = 12,
        silence_s: float = 0.1,
        most_rows: int = 300,
        between: tuple[float, float] | None = None,
    ) -> None:
        timeline = Timeline(history)
        if between is not None:
            timeline.rows = [row for row in timeline.rows if between[0] <= row.time_s <= between[1]]
        lifelines = list(dict.fromkeys([*nodes, *timeline.lifelines()]))
        rows = mark_silences(timeline.rows, silence_s)  # before folding: a silence ends a run
        self.rows = cap(fold_frames(rows, longest_run), most_rows)
        if len(lifelines) > _MOST_IDLE_LIFELINES:
            shown = {name for row in self.rows for name in lifelines_of(row)}
            lifelines = [name for name in lifelines if name in shown]
        self.lifelines = lifelines
        known = frozenset(timeline.nodes)
        self.outside = [name for name in self.lifelines if name not in known]
        self.layout = Layout(self.lifelines, self.rows)
        self._description = f"{len(history)} records of {', '.join(self.lifelines) or 'no node'}"
        self._digits = time_digits([row.time_s for row in self.rows])

    def svg(self) -> str:
        """Return the chart as a self-contained SVG file."""
        return self._svg(style(), xmlns="http://www.w3.org/2000/svg")

    def inline(self) -> str:
        """Return the chart for a page that has :func:`style` in its head."""
        return self._svg("")

    def narrow(self) -> str:
        """Return the chart for telephones: with close lifelines, and without tooltips, which need a mouse."""
        chart = copy(self)
        chart.layout = Layout(self.lifelines, self.rows, narrow=True)
        return svg.without_tips(chart.inline())

    def table(self) -> "DataFrame":
        """Return a table with one row per frame of the chart.

        Columns: ``time`` (seconds), ``from``, ``to``, ``frame`` (its tag), ``detail`` (the main fields), ``count``
        (frames folded into the row) and ``fate`` (arrived, lost, or unknown).
        """
        from pandas import DataFrame  # noqa: PLC0415 - only notebooks pay for it

        arrows = [row for row in self.rows if isinstance(row, Arrow)]
        rows = [(a.time_s, a.source, a.target, a.tag, a.detail, a.count, str(a.fate)) for a in arrows]
        return DataFrame(rows, columns=["time", "from", "to", "frame", "detail", "count", "fate"])

    def __repr__(self) -> str:
        return "\n".join(plain_rows(self.rows, _MOST_PLAIN_FRAMES))

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'

    # ---- drawing

    def _svg(self, css: str, **attributes: str) -> str:
        layout = self.layout
        parts = [
            svg.element("title", "Sequence chart"),
            svg.element("desc", svg.escape(self._description)),
            svg.element("style", css) if css else "",
            svg.box(0, 0, layout.width, layout.height, "sheet", 8),
            *draw_lifelines(layout, self.lifelines, self.outside, self.rows),
            *self._rows(),
        ]
        size = {"width": layout.width, "height": layout.height}
        view = f"0 0 {layout.width:g} {layout.height:g}"
        return svg.element("svg", "".join(parts), class_="seq", viewBox=view, role="img", **size, **attributes)

    def _rows(self) -> list[str]:
        drawn, last_time = [], ""
        for row, top in zip(self.rows, self.layout.tops, strict=True):
            drawn.append(self._row(row, top))
            time = f"{row.time_s:.{self._digits}f}"
            if time != last_time and not isinstance(row, Gap):
                middle = top + self.layout.row_height(row) / 2 + 4
                drawn.append(svg.text(self.layout.time_x, middle, time, "time", "end"))
                last_time = time
        return drawn

    def _row(self, row: Row, top: float) -> str:
        if isinstance(row, Arrow):
            return self._arrow(row, top)
        if isinstance(row, Marks):
            return self._marks(row, top)
        if isinstance(row, Cut):
            return self._cut(row, top)
        if isinstance(row, Steps):
            return self._steps(row, top)
        return self._gap(row, top)

    def _arrow(self, row: Arrow, top: float) -> str:
        x1, x2 = self.layout.x(row.source), self.layout.x(row.target)
        y1, y2 = top + 20, top + 20 + _SLOPE
        sign = 1 if x2 >= x1 else -1
        shaft = "shaft many" if row.count > 1 else "shaft"
        label = self._label(row, top + 14)
        if row.fate is Fate.LOST:
            x2, y2 = (x1 + x2) / 2, (y1 + y2) / 2
            end = svg.path(f"M{x2 - 5:g} {y2 - 5:g}l10 10m0 -10l-10 10", "cross")
        else:
            end = svg.path(f"M{x2:g} {y2:g}l{-sign * _HEAD:g} {-_HEAD / 2 - 0.5:g}l0 {_HEAD:g}z", "tip")
            x2 -= sign * _HEAD / 2
        kind = f"{frame_family(row.tag)} {row.fate}"
        return svg.group([svg.line(x1, y1, x2, y2, shaft), end, label], row.tip, kind)

    def _label(self, row: Arrow, y: float) -> str:
        x, room = self.layout.label_place(row.source, row.target)
        tag = f"… {row.count} {row.tag}" if row.count > 1 else row.tag
        detail = fit_parts(row.detail, LABEL_SIZE, room - width(tag, LABEL_SIZE) * 1.1 - 8)
        spans = svg.element("tspan", svg.escape(tag), class_="tag")
        if detail:
            spans += svg.element("tspan", svg.escape(detail), class_="detail", dx=6)
        return svg.element("text", spans, x=x, y=y, class_="label", text_anchor="middle")

    def _marks(self, row: Marks, top: float) -> str:
        widths = [chip_width(chip.text) for chip in row.chips]
        whole = sum(widths) + CHIP_SPACE * (len(widths) - 1)
        begin = left = self.layout.chips_begin(row.node, whole)
        end = begin + whole
        parts = []
        for chip, chip_wide in zip(row.chips, widths, strict=True):
            parts.append(_chip(chip, left, top + 4, chip_wide))
            left += chip_wide + CHIP_SPACE
        room = self.layout.pitch - whole / 2 - 24
        note = fit(row.note, LABEL_SIZE, room)
        if note and self.layout.right_of_all(row.node):
            parts.append(svg.text(begin - 8, top + 17, note, "label note", "end"))
        elif note:
            parts.append(svg.text(end + 8, top + 17, note, "label note"))
        return svg.group(parts)

    def _cut(self, row: Cut, top: float) -> str:
        x1, x2 = sorted((self.layout.x(row.a), self.layout.x(row.b)))
        y = top + 19
        teeth = max(2, int((x2 - x1) / 24) // 2 * 2)
        step = (x2 - x1) / teeth
        zigzag = "".join(f"L{x1 + step * (n + 0.5):.1f} {y + (-6 if n % 2 else 6):g}" for n in range(teeth))
        label = fit(row.text, LABEL_SIZE, x2 - x1 - 60)
        wide = width(label, LABEL_SIZE) * 1.1 + 16
        middle = (x1 + x2) / 2
        parts = [
            svg.path(f"M{x1:g} {y:g}{zigzag}L{x2:g} {y:g}", "bolt"),
            svg.box(middle - wide / 2, y - 10, wide, 20, "plate", 10),
            svg.text(middle, y + 4, label, "", "middle"),
        ]
        return svg.group(parts, f"{row.text}\n{row.a} and {row.b} at {row.time_s:.6f} s", "cut")

    def _steps(self, row: Steps, top: float) -> str:
        layout = self.layout
        lines = layout.step_lines(row)
        parts = [
            svg.box(layout.left, top + 3, layout.width - layout.left - 14, STEP_LINE * len(lines) + 6, "band", 4)
        ]
        for number, text in enumerate(lines):
            parts.append(svg.text(layout.left + 10, top + 16 + number * STEP_LINE, text, "step"))
        return svg.group(parts, "\n".join(row.lines))

    def _gap(self, row: Gap, top: float) -> str:
        layout = self.layout
        y = top + 16
        left, right = layout.left, layout.width - 14
        middle = (left + right) / 2
        wide = width(row.text, LABEL_SIZE) + 24
        parts = [
            svg.line(left, y, right, y, "gap"),
            svg.box(middle - wide / 2, y - 10, wide, 20, "plate", 10),
            svg.text(middle, y + 4, row.text, "gaptext", "middle"),
        ]
        return svg.group(parts)


def _chip(chip: Chip, x: float, y: float, wide: float) -> str:
    look = "ready-state" if chip.style == "ready" else chip.style
    parts = [
        svg.box(x, y, wide, CHIP_HEIGHT, "", CHIP_HEIGHT / 2),
        svg.text(x + wide / 2, y + CHIP_HEIGHT / 2 + 3.5, chip.text, "", "middle"),
    ]
    return svg.group(parts, chip.tip, f"chip {look}")


def frame_family(tag: str) -> str:
    """Return the style of a frame: data, quiet, session or handshake."""
    if tag in FOLDED_TAGS:
        return "data" if tag in MESSAGE_TAGS else "quiet"
    return "session" if tag in _SESSION_TAGS else "handshake"


def time_digits(times: Sequence[float]) -> int:
    """Return the number of digits with which most different times look different."""
    moments = sorted(set(times))
    for digits in (3, 4, 5):
        if len({f"{time:.{digits}f}" for time in moments}) >= 0.9 * len(moments):
            return digits
    return 6


def style() -> str:
    """Return the style sheet of all charts of a page."""
    return sheet("seq", "sequence")
