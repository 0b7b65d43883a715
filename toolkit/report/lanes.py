"""Timelines: when each link was open, and how much traffic it carried, one lane per link."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolkit.report import svg
from toolkit.report.text import duration, fit, width
from toolkit.report.theme import sheet

_LANE_HEIGHT = 34.0
_HEAD_HEIGHT = 36.0
_LABEL_SIZE = 12.0
_PLOT_WIDTH = 760.0
_MOST_LANES = 500
_MOST_LABEL = 300.0
_TICKS = 6
_COLUMN_WIDTH = 3.0
_NANO = 1e9


@dataclass(frozen=True, slots=True)
class ChartLane:
    """One link."""

    label: str
    group: str
    """Lanes of one group are drawn together under its name."""
    began_ns: int
    ended_ns: int
    ready_ns: int | None
    """End of its handshake; None if that did not finish."""
    sent: Iterable[tuple[int, int]]
    """Time and bytes of what one side sent, drawn upwards; iterated more than once."""
    received: Iterable[tuple[int, int]]
    """Time and bytes of what the other side sent, drawn downwards."""
    tip: str


class LaneChart:
    """Links over time. Displays itself in a notebook.

    Args:
        lanes: the lanes in the order of display, those of a group next to each other; the first 500 are drawn.
        began_ns: time at the left edge.
        ended_ns: time at the right edge.
    """

    def __init__(self, lanes: Sequence[ChartLane], began_ns: int, ended_ns: int) -> None:
        self._left_out = max(len(lanes) - _MOST_LANES, 0)
        self._lanes = lanes = lanes[:_MOST_LANES]
        self._began_ns = began_ns
        self._span_ns = max(ended_ns - began_ns, 1)
        words = [lane.label for lane in lanes] + [lane.group for lane in lanes]
        self._left = 24 + min(_MOST_LABEL, max((width(word, _LABEL_SIZE) for word in words), default=0))
        groups = len(dict.fromkeys(lane.group for lane in lanes))
        self._height = _HEAD_HEIGHT + len(lanes) * _LANE_HEIGHT + groups * 22 + 22 * bool(self._left_out) + 12
        volumes = [volume for lane in lanes for volume in self._columns(lane.sent) + self._columns(lane.received)]
        self._most = max((size for _, size in volumes), default=1)

    def svg(self) -> str:
        """Return the chart as a self-contained SVG file."""
        css = sheet("lanes", "lanes")
        wide = self._left + _PLOT_WIDTH + 24
        parts = [
            svg.element("title", "Links over time"),
            svg.element("style", css),
            svg.box(0, 0, wide, self._height, "sheet", 8),
            *self._axis(),
            *self._drawn_lanes(),
        ]
        return svg.element(
            "svg",
            "".join(parts),
            class_="lanes",
            viewBox=f"0 0 {wide:g} {self._height:g}",
            role="img",
            width=wide,
            height=self._height,
            xmlns="http://www.w3.org/2000/svg",
        )

    def __repr__(self) -> str:
        return f"<LaneChart {len(self._lanes)} links over {duration(self._span_ns / _NANO)}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'

    def _x(self, time_ns: int) -> float:
        return self._left + (time_ns - self._began_ns) / self._span_ns * _PLOT_WIDTH

    def _axis(self) -> list[str]:
        drawn = []
        for number in range(_TICKS + 1):
            x = self._left + _PLOT_WIDTH * number / _TICKS
            drawn.append(svg.line(x, _HEAD_HEIGHT - 8, x, self._height - 8, "tick"))
            label = duration(self._span_ns / _NANO * number / _TICKS) if number else "0"
            drawn.append(svg.text(x, _HEAD_HEIGHT - 14, label, "time", "middle"))
        return drawn

    def _drawn_lanes(self) -> list[str]:
        drawn, top, group = [], _HEAD_HEIGHT, None
        for lane in self._lanes:
            if lane.group != group:
                group = lane.group
                drawn.append(svg.text(12, top + 15, fit(group, _LABEL_SIZE, self._left + _PLOT_WIDTH), "group"))
                top += 22
            drawn.append(self._lane(lane, top))
            top += _LANE_HEIGHT
        if self._left_out:
            drawn.append(svg.text(12, top + 15, f"{self._left_out:,} more links", "group"))
        return drawn

    def _lane(self, lane: ChartLane, top: float) -> str:
        middle = top + _LANE_HEIGHT / 2
        left, right = self._x(lane.began_ns), max(self._x(lane.ended_ns), self._x(lane.began_ns) + 2)
        ready = right if lane.ready_ns is None else max(self._x(lane.ready_ns), left + 1)
        parts = [
            svg.text(12, middle + 4, fit(lane.label, _LABEL_SIZE, self._left - 20), "label"),
            svg.box(left, middle - 2, ready - left, 4, "handshake", 2),
            svg.box(ready, middle - 1, max(right - ready, 0), 2, "open"),
        ]
        for passed, sign, look in ((lane.sent, -1, "sent"), (lane.received, 1, "received")):
            for x, size in self._columns(passed):
                tall = 1 + (_LANE_HEIGHT / 2 - 4) * size / self._most
                parts.append(svg.box(x, middle - tall if sign < 0 else middle, _COLUMN_WIDTH - 0.5, tall, look))
        return svg.group(parts, lane.tip)

    def _columns(self, passed: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
        """Sum the bytes by columns of pixels."""
        found: dict[int, int] = {}
        for time_ns, size in passed:
            column = int((self._x(time_ns) - self._left) / _COLUMN_WIDTH)
            found[column] = found.get(column, 0) + size
        return [(self._left + column * _COLUMN_WIDTH, size) for column, size in sorted(found.items())]
