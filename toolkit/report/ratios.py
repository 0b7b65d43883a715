"""Ratios of two alternating measurements: one row each, with median and range, around 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.report import svg
from toolkit.report.text import fit, width
from toolkit.report.theme import sheet

_ROW_HEIGHT = 22.0
_HEAD_HEIGHT = 58.0
_TITLE_SIZE = 14.0
_LABEL_SIZE = 12.0
_MOST_LABEL = 320.0
_PLOT_WIDTH = 480.0
_MARGIN = 16.0
_LEAST_SPAN = 2.0
"""The axis extends at least from 1/2 to 2."""
_MOST_SPAN = 1024.0
_DOT = 8.0
_RANGE_HEIGHT = 4.0


@dataclass(frozen=True, slots=True)
class RatioRow:
    """One measured ratio."""

    label: str
    median: float
    least: float
    greatest: float
    note: str
    """Text at the right: the two values, with their unit."""


class RatioChart:
    """Ratios on an axis of powers of two. Displays itself in a notebook.

    Args:
        title: which value is divided by which.
        rows: rows in the order of display.
        wanted: the better side of 1, ``less`` or ``more``; rows on that side have the colour of good values.
    """

    def __init__(self, title: str, rows: Sequence[RatioRow], wanted: str) -> None:
        self._title = title
        self._rows = rows
        self._wanted = wanted
        extremes = [max(value, 1 / value) for row in rows for value in (row.least, row.greatest) if value > 0]
        self._doublings = math.ceil(math.log2(min(max([_LEAST_SPAN, *extremes]), _MOST_SPAN)))
        self._left = 2 * _MARGIN + min(_MOST_LABEL, _widest([row.label for row in rows]))
        self._right = 2 * _MARGIN + _widest([row.note for row in rows])
        self._height = _HEAD_HEIGHT + len(rows) * _ROW_HEIGHT + _MARGIN

    def svg(self) -> str:
        """Return the chart as a self-contained SVG file."""
        wide = self._left + _PLOT_WIDTH + self._right
        parts = [
            svg.element("title", svg.escape(self._title)),
            svg.element("style", sheet("ratios", "ratios")),
            svg.box(0, 0, wide, self._height, "sheet", 8),
            svg.text(_MARGIN, 24, fit(self._title, _TITLE_SIZE, wide - 2 * _MARGIN), "heading"),
            *self._axis(),
            *(self._row(row, _HEAD_HEIGHT + place * _ROW_HEIGHT) for place, row in enumerate(self._rows)),
        ]
        return svg.element(
            "svg",
            "".join(parts),
            class_="ratios",
            viewBox=f"0 0 {wide:g} {self._height:g}",
            role="img",
            width=wide,
            height=self._height,
            xmlns="http://www.w3.org/2000/svg",
        )

    def __repr__(self) -> str:
        return f"<RatioChart {self._title!r}, {len(self._rows)} rows>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def _x(self, ratio: float) -> float:
        doublings = math.log2(max(ratio, 2.0**-self._doublings))
        return self._left + _PLOT_WIDTH * (min(doublings, self._doublings) / self._doublings + 1) / 2

    def _axis(self) -> list[str]:
        drawn = []
        for power in range(-self._doublings, self._doublings + 1):
            ratio = 2.0**power
            x = self._x(ratio)
            look = "tick" if power else "one"
            drawn.append(svg.line(x, _HEAD_HEIGHT - 6, x, self._height - _MARGIN, look))
            label = f"{ratio:g}" if power >= 0 else f"1/{2**-power}"
            drawn.append(svg.text(x, _HEAD_HEIGHT - 12, label, "axis", "middle"))
        return drawn

    def _row(self, row: RatioRow, top: float) -> str:
        middle = top + _ROW_HEIGHT / 2
        left, right, dot = self._x(row.least), self._x(row.greatest), self._x(row.median)
        is_good = row.median <= 1 if self._wanted == "less" else row.median >= 1
        look = "good" if is_good else "other"
        parts = [
            svg.text(_MARGIN, middle + 4, fit(row.label, _LABEL_SIZE, self._left - 2 * _MARGIN), "label"),
            svg.box(left, middle - _RANGE_HEIGHT / 2, max(right - left, 1.0), _RANGE_HEIGHT, f"range {look}", 2),
            svg.box(dot - _DOT / 2, middle - _DOT / 2, _DOT, _DOT, look, _DOT / 2),
            svg.text(self._left + _PLOT_WIDTH + _MARGIN, middle + 4, row.note, "note"),
        ]
        tip = f"{row.label}: {row.median:.2f} ({row.least:.2f} to {row.greatest:.2f})"
        return svg.group(parts, tip)


def _widest(words: Sequence[str]) -> float:
    return max((width(word, _LABEL_SIZE) for word in words), default=0.0)
