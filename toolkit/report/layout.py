"""Positions in a sequence chart, in pixels."""

from collections.abc import Sequence
from itertools import takewhile
from textwrap import wrap

from toolkit.report.rows import Arrow, Cut, Gap, Marks, Row, Steps
from toolkit.report.text import width

LABEL_SIZE = 11.0
CHIP_SIZE = 10.0
STEP_SIZE = 10.0
CHIP_HEIGHT = 18.0
CHIP_PADDING = 7.0
CHIP_SPACE = 5.0
HEAD_HEIGHT = 30.0
STEP_LINE = 14.0
_GUTTER = 74.0
_SIDE = 150.0
"""Space beside the outer lifelines for their chips."""
_NARROW_GUTTER = 52.0
_NARROW_SIDE = 40.0
_NARROW_PITCH = 168.0
"""Two lifelines at this distance fit on a telephone of 360 pixels; chips may extend beyond their side."""
_MARGIN = 14.0
_MOST_STEP_LINES = 3
_MONO_EM = 0.61
"""Width in em of every character of a step."""
_HEIGHTS = {Arrow: 31.0, Marks: 27.0, Cut: 38.0, Gap: 32.0}


def _pitch(lifelines: int) -> float:
    """Distance between lifelines: larger if there are few."""
    return {1: 420.0, 2: 420.0, 3: 330.0}.get(lifelines, 300.0)


class Layout:
    """Positions of the lifelines and rows; ``narrow`` for screens of telephones."""

    def __init__(self, lifelines: Sequence[str], rows: Sequence[Row], *, narrow: bool = False) -> None:
        gutter, side = (_NARROW_GUTTER, _NARROW_SIDE) if narrow else (_GUTTER, _SIDE)
        self.pitch = _NARROW_PITCH if narrow else _pitch(len(lifelines))
        self._x = {name: gutter + side + place * self.pitch for place, name in enumerate(lifelines)}
        self.width = gutter + 2 * side + self.pitch * max(0, len(lifelines) - 1) + _MARGIN
        self.top = _MARGIN + HEAD_HEIGHT
        self.time_x = gutter - (4 if narrow else 12)
        self.left = gutter
        y = self.top + 10
        self.tops: list[float] = []
        for place, row in enumerate(rows):
            if _shares_row(rows, place):
                self.tops.append(self.tops[-1])
            else:
                self.tops.append(y)
                y += self.row_height(row)
        self.bottom = y + 6
        self.height = self.bottom + HEAD_HEIGHT + _MARGIN

    def x(self, name: str) -> float:
        """Return the position of a node's lifeline."""
        return self._x[name]

    def label_place(self, source: str, target: str) -> tuple[float, float]:
        """Return middle and width of an arrow's label: near the middle, between two lifelines, never on one."""
        x1, x2 = self.x(source), self.x(target)
        spans = max(1, round(abs(x2 - x1) / self.pitch))
        before = (spans - 1) // 2 + 0.5  # columns from the source to the label
        return x1 + before * (x2 - x1) / spans, abs(x2 - x1) / spans - 2 * _MARGIN

    def chips_begin(self, name: str, wide: float) -> float:
        """Return the left edge of chips on a lifeline: centred, but inside the sheet."""
        return max(self.left, min(self._x[name] - wide / 2, self.width - _MARGIN / 2 - wide))

    def right_of_all(self, name: str) -> bool:
        """True if this is the last lifeline, whose notes are on its left."""
        return len(self._x) > 1 and self._x[name] == max(self._x.values())

    def row_height(self, row: Row) -> float:
        """Return the height of a row."""
        if isinstance(row, Steps):
            return STEP_LINE * len(self.step_lines(row)) + 12
        return _HEIGHTS[type(row)]

    def step_lines(self, row: Steps) -> list[str]:
        """Return the script's lines, wrapped to the width."""
        room = self.width - self.left - 3 * _MARGIN
        most = int(room / (_MONO_EM * STEP_SIZE))
        return wrap(" · ".join(row.lines), most, max_lines=_MOST_STEP_LINES, placeholder=" …")


def _shares_row(rows: Sequence[Row], place: int) -> bool:
    """True if chips fit beside those of the row before: of another node, at the same moment, without a note."""
    row = rows[place]
    if not isinstance(row, Marks) or row.note:
        return False
    before = list(takewhile(lambda other: _beside(row, other), reversed(rows[:place])))
    return bool(before) and row.node not in {other.node for other in before if isinstance(other, Marks)}


def _beside(row: Row, other: Row) -> bool:
    return isinstance(other, Marks) and other.time_s == row.time_s and not other.note


def chip_width(text: str) -> float:
    """Return the width of a chip around its text."""
    return width(text, CHIP_SIZE) * 1.06 + 2 * CHIP_PADDING
