"""Rates: messages and bytes per second and delivery latencies over time, with bands for faults."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import median
from typing import NamedTuple

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import MESSAGE_TAGS
from toolkit.report import svg
from toolkit.report.disturbances import Band, Disturbances
from toolkit.report.text import duration, fit, width
from toolkit.report.theme import sheet

_PLOT_HEIGHT = 92.0
_PLOT_SPACE = 30.0
_LABEL_SIZE = 10.5
_LABEL_LINE = 15.0
_MOST_LABEL_LINES = 4
_LEFT, _RIGHT, _FOOT = 66.0, 18.0, 26.0
_COLUMNS = 120
_NARROW = 480.0
"""Narrower plots have half as many columns."""
_TICKS = 6
_LEAST_LATENCY_S = 1e-6
LEAST_DELIVERIES = 8
"""Minimum number of deliveries for a chart: with fewer a rate means nothing."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


_Draw = Callable[[float], list[str]]
"""Draws a plot below a height."""


class Delivered(NamedTuple):
    """A delivered message."""

    time_s: float
    size_bytes: int
    latency_s: float | None
    """Seconds since its application sent it; None if that was not recorded."""


@dataclass(frozen=True, slots=True)
class _Column:
    """The deliveries of one span of time."""

    messages_per_s: float
    bytes_per_s: float
    latencies: tuple[float, float] | None
    """Median and maximum, in seconds."""


def deliveries_of(index: Index) -> list[Delivered]:
    """Return the deliveries of a history; of a capture, which has none, its messages."""
    records = index.history.records
    found = []
    for delivery in index.streams.deliveries:
        record, sent = records[delivery.position], delivery.sent
        latency_s = None if sent is None else max(0.0, record.time_s - sent.record.time_s)
        found.append(Delivered(record.time_s, record["size"], latency_s))
    if found:
        return sorted(found, key=lambda each: each.time_s)
    return [
        Delivered(record.time_s, record["length"], None)
        for record in records
        if record.kind == "frame" and record["direction"] == "rx" and record["tag"] in MESSAGE_TAGS
    ]


class RateChart:
    """Messages per second, bytes per second and delivery latency over time. Displays itself in a notebook.

    A latency is the time from the send of an application to the delivery at its peer. In each column the dot is
    the median, and the line extends to the maximum. The scale is logarithmic.

    Args:
        deliveries: deliveries in order of time.
        bands: periods with faults.
        began_s: time at the left edge.
        ended_s: time at the right edge; None: that of the last delivery.
        wide: width of the plots in pixels.
    """

    def __init__(
        self,
        deliveries: Sequence[Delivered],
        bands: Iterable[Band] = (),
        began_s: float = 0.0,
        ended_s: float | None = None,
        *,
        wide: float = 760.0,
    ) -> None:
        last_s = deliveries[-1].time_s if deliveries else began_s
        self._began_s = began_s
        self._span_s = max((last_s if ended_s is None else ended_s) - began_s, 1e-6)
        self._wide = wide
        self._bands = [band for band in bands if began_s <= (band.end_s or self._ended_s) and self._starts(band)]
        self._count = _COLUMNS if wide >= _NARROW else _COLUMNS // 2
        self._has_latency = any(one.latency_s is not None for one in deliveries)
        self.columns = self._sorted(deliveries)
        self._labels, lines = self._placed()
        self._top = 16 + _LABEL_LINE * lines + _PLOT_SPACE - 8

    @classmethod
    def of(
        cls,
        history: History,
        *,
        between: tuple[float, float] | None = None,
        deliveries: Sequence[Delivered] | None = None,
        wide: float = 760.0,
    ) -> "RateChart":
        """Return the chart of a history.

        Args:
            history: history of a run, a cluster or a capture.
            between: begin and end in seconds since the run began; everything unless given.
            deliveries: deliveries of the history, if they are known already.
            wide: width of the plots in pixels.
        """
        found = Disturbances()
        for record in history:
            found.take(record)
        last_s = history.records[-1].time_s if len(history) else 0.0
        begin_s, end_s = between or (0.0, last_s)
        end_s = min(end_s, last_s)
        known = deliveries_of(Index(history)) if deliveries is None else deliveries
        inside = [one for one in known if begin_s <= one.time_s <= end_s]
        return cls(inside, found.bands, begin_s, end_s, wide=wide)

    def svg(self) -> str:
        """Return the chart as a self-contained SVG file."""
        return self._svg(xmlns="http://www.w3.org/2000/svg")

    def inline(self) -> str:
        """Return the chart as SVG for an HTML page."""
        return self._svg()

    def drawing(self) -> str:
        """Return the chart without style and size, for a page that has ``rates.css``."""
        return self._svg(styled=False)

    def _svg(self, *, styled: bool = True, **attributes: object) -> str:
        wide, height = _LEFT + self._wide + _RIGHT, self._top + len(self._plots) * (_PLOT_HEIGHT + _PLOT_SPACE)
        height += _FOOT - _PLOT_SPACE
        parts = [
            svg.element("title", "Rates over time"),
            svg.element("desc", svg.escape(repr(self).strip("<>"))),
            svg.element("style", sheet("rates", "rates")) if styled else "",
            svg.box(0, 0, wide, height, "sheet", 8),
            *self._drawn_bands(height),
            *self._axis(height),
        ]
        for number, (title, draw) in enumerate(self._plots):
            top = self._top + number * (_PLOT_HEIGHT + _PLOT_SPACE)
            parts += [svg.text(_LEFT, top - 8, title, "label"), *draw(top)]
        size = {"width": wide, "height": height} if styled else {}
        view = f"0 0 {wide:g} {height:g}"
        return svg.element("svg", "".join(parts), class_="rates", viewBox=view, role="img", **size, **attributes)

    def __repr__(self) -> str:
        most = max((column.messages_per_s for column in self.columns), default=0.0)
        bands = "".join(f"; {self._words(band)}" for band in self._bands)
        return f"<RateChart over {duration(self._span_s)}, up to {_amount(most)} messages/s{bands}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'

    # ---- values

    @property
    def _ended_s(self) -> float:
        return self._began_s + self._span_s

    def _starts(self, band: Band) -> bool:
        """True if a band begins inside the chart, and not at its end, where all processes stop."""
        return band.begin_s < self._ended_s

    def _sorted(self, deliveries: Sequence[Delivered]) -> list[_Column]:
        """Group the deliveries by column."""
        inside: list[list[Delivered]] = [[] for _ in range(self._count)]
        for one in deliveries:
            place = int((one.time_s - self._began_s) / self._span_s * self._count)
            if 0 <= place <= self._count:
                inside[min(place, self._count - 1)].append(one)
        each_s = self._span_s / self._count
        return [_column(found, each_s) for found in inside]

    # ---- drawing

    @property
    def _plots(self) -> list[tuple[str, _Draw]]:
        plots: list[tuple[str, _Draw]] = [
            ("messages/s", lambda top: self._bars([one.messages_per_s for one in self.columns], top)),
            ("bytes/s", lambda top: self._bars([one.bytes_per_s for one in self.columns], top)),
        ]
        return [*plots, ("delivery latency", self._latencies)] if self._has_latency else plots

    def _x(self, time_s: float) -> float:
        share = (time_s - self._began_s) / self._span_s
        return _LEFT + self._wide * min(max(share, 0.0), 1.0)

    def _axis(self, height: float) -> list[str]:
        count = _TICKS if self._wide >= _NARROW else _TICKS // 2
        drawn = []
        for number in range(count + 1):
            x = _LEFT + self._wide * number / count
            time_s = self._began_s + self._span_s * number / count
            drawn.append(svg.line(x, self._top, x, height - _FOOT, "tick"))
            label = duration(time_s) if time_s else "0"
            anchor = "end" if number == count else "middle" if number else "start"
            drawn.append(svg.text(x, height - 10, label, "time", anchor))
        return drawn

    def _placed(self) -> tuple[list[tuple[Band, str, float, int]], int]:
        """Text, position and line of each band's label; bands without room for one only have a tooltip."""
        ends = [0.0] * _MOST_LABEL_LINES
        placed = []
        for band in self._bands:
            text = fit(band.text, _LABEL_SIZE, 220)
            size = width(text, _LABEL_SIZE)
            x = min(self._x(band.begin_s), _LEFT + self._wide - size)
            free = next((line for line, end in enumerate(ends) if end <= x), None)
            if free is not None:
                ends[free] = x + size + 8
                placed.append((band, text, x, free))
        return placed, max((line + 1 for *_, line in placed), default=0)

    def _drawn_bands(self, height: float) -> list[str]:
        top, bottom = self._top, height - _FOOT
        drawn = []
        for band in self._bands:
            left = self._x(band.begin_s)
            if band.end_s == band.begin_s:
                mark = svg.line(left, top, left, bottom, "moment")
            else:
                right = self._x(self._ended_s if band.end_s is None else band.end_s)
                mark = svg.box(left, top, max(right - left, 1.5), bottom - top, "broken")
            drawn.append(svg.group([mark], self._words(band)))
        for band, text, x, line in self._labels:
            y = 20 + line * _LABEL_LINE
            drawn.append(svg.line(self._x(band.begin_s), y + 3, self._x(band.begin_s), top, "leader"))
            drawn.append(svg.text(x, y, text, "what"))
        return drawn

    def _words(self, band: Band) -> str:
        if band.end_s == band.begin_s:
            return f"{band.text} at {band.begin_s:.3f} s"
        until = "on" if band.end_s is None else f"to {band.end_s:.3f} s"
        return f"{band.text} from {band.begin_s:.3f} s {until}"

    def _bars(self, values: Sequence[float], top: float) -> list[str]:
        most = max(values, default=0.0) or 1.0
        bottom, each = top + _PLOT_HEIGHT, self._wide / self._count
        drawn = [*self._level(_amount(most), top), *self._level("0", bottom)]
        bars = []
        for number, value in enumerate(values):
            if value:
                tall, side = max(_PLOT_HEIGHT * value / most, 1.0), max(each - 0.6, 0.6)
                bars.append(f"M{_LEFT + number * each:.1f} {bottom:g}v{-tall:.1f}h{side:.1f}v{tall:.1f}z")
        return [*drawn, svg.path("".join(bars), "bar")]

    def _latencies(self, top: float) -> list[str]:
        found = [each for column in self.columns if column.latencies for each in column.latencies]
        low = floor(log10(max(min(found), _LEAST_LATENCY_S)))
        high = max(ceil(log10(max(*found, _LEAST_LATENCY_S))), low + 1)

        def place(seconds: float) -> float:
            return top + _PLOT_HEIGHT * (high - log10(max(seconds, _LEAST_LATENCY_S))) / (high - low)

        decades = range(low, high + 1, ceil((high - low) / 4))
        drawn = [part for power in decades for part in self._level(duration(10.0**power), place(10.0**power))]
        each = self._wide / self._count
        reaches, dots = [], []
        for number, column in enumerate(self.columns):
            if column.latencies:
                middle, longest = map(place, column.latencies)
                x = _LEFT + (number + 0.5) * each
                reaches.append(f"M{x:.1f} {middle:.1f}V{longest:.1f}")
                dots.append(f"M{x:.1f} {middle:.1f}h0")
        return [*drawn, svg.path("".join(reaches), "reach"), svg.path("".join(dots), "dot")]

    def _level(self, text: str, y: float) -> list[str]:
        return [
            svg.line(_LEFT, y, _LEFT + self._wide, y, "tick"),
            svg.text(_LEFT - 8, y + 4, text, "time", "end"),
        ]


def _column(found: Sequence[Delivered], each_s: float) -> _Column:
    latencies = [one.latency_s for one in found if one.latency_s is not None]
    spread = (median(latencies), max(latencies)) if latencies else None
    return _Column(len(found) / each_s, sum(one.size_bytes for one in found) / each_s, spread)


def _amount(value: float) -> str:
    """Format a rate with three digits: ``1.25 M``.

    >>> _amount(1_250_000)
    '1.25 M'
    """
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"
