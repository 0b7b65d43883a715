"""Draws states and the transitions between them as SVG, for docs/states.py.

A state is a box; each of its rows names what arrives and leads from its right edge to the next state. All lines
into one state share a lane right of the boxes, so no line crosses a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from toolkit.report.svg import element, line, path, text
from toolkit.report.theme import in_both_schemes

_NAME_PX = 7.3
"""Width of a character of a state's name."""
_WORD_PX = 6.7
"""Width of a character of an arrow's label, and of the label of the first state."""
_HEAD, _ROW, _GAP = 26, 19, 16
_PAD, _EDGE, _LANE, _BEND = 12, 14, 14, 6
_TIP = 7
_COLOURS = (
    ("#6a55d8", "#a795ff"),
    ("#0f7b6c", "#4fd1bd"),
    ("#b8580a", "#f0a35e"),
    ("#2563c9", "#7fb0ff"),
    ("#b3266b", "#f28fc0"),
    ("#5d7318", "#b7d063"),
)
_CSS = """
.states { background: light-dark(#fff, #161a21); font-family: ui-monospace, SFMono-Regular, Menlo, Consolas,
 "DejaVu Sans Mono", monospace; font-size: 11px; }
.states text { fill: light-dark(#1d2330, #e3e7ee); }
.states .name { font-size: 12px; font-weight: 650; }
.states .box { fill: light-dark(#f6f7f9, #1d222b); stroke: light-dark(#b6bdc9, #4c5768); }
.states .start { fill: light-dark(#667085, #98a4b8); stroke: light-dark(#667085, #98a4b8); }
.states .wire { fill: none; stroke-width: 1.5; }
"""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A transition: a state, the event, and the next state."""

    source: str
    words: str
    target: str


@dataclass(frozen=True, slots=True)
class States:
    """The picture of the states of one table."""

    title: str
    starts: Sequence[tuple[str, str]]
    """First events (may be empty), each with the state that follows."""
    arrows: Sequence[Arrow]

    @property
    def names(self) -> list[str]:
        """Return the states in the order of the arrows."""
        ends = chain.from_iterable((arrow.source, arrow.target) for arrow in self.arrows)
        return list(dict.fromkeys(chain((state for _, state in self.starts), ends)))

    def rows(self, state: str) -> list[Arrow]:
        """Return the arrows that begin at a state."""
        return [arrow for arrow in self.arrows if arrow.source == state]

    def svg(self) -> str:
        """Return the picture as SVG."""
        left = _EDGE + max(_WORD_PX * len(words) for words, _ in self.starts) + 36
        names = max(_NAME_PX * len(name) for name in self.names)
        right = left + max(names, *(_WORD_PX * len(arrow.words) for arrow in self.arrows)) + 2 * _PAD
        heads, height = self._heads()
        lanes = self._lanes(heads)
        width = right + (max(lanes.values()) + 1) * _LANE + _TIP + _EDGE
        parts = [self._box(name, y, left, right) for name, y in heads.items()]
        for number, (target, lane) in enumerate(lanes.items()):
            parts.append(
                self._bus(target, heads, right, right + _TIP + (lane + 1) * _LANE, number % len(_COLOURS))
            )
        parts += [_start(words, heads[state] + _HEAD / 2, left) for words, state in self.starts]
        head = element("title", self.title) + element("style", in_both_schemes(_CSS + _wires(), "states"))
        size = {"width": round(width), "height": height, "viewBox": f"0 0 {round(width)} {height}"}
        return (
            element("svg", head + "\n".join(parts), class_="states", xmlns="http://www.w3.org/2000/svg", **size)
            + "\n"
        )

    def _heads(self) -> tuple[dict[str, float], int]:
        """Return the upper edge of each box, and the total height."""
        heads, y = {}, float(_EDGE)
        for name in self.names:
            heads[name] = y
            y += _HEAD + _ROW * len(self.rows(name)) + _GAP
        return heads, round(y - _GAP + _EDGE)

    def _ports(self, target: str, heads: dict[str, float]) -> list[float]:
        """Return the points where lines to a state begin."""
        return [
            heads[name] + _HEAD + _ROW * (number + 0.4)
            for name in heads
            for number, arrow in enumerate(self.rows(name))
            if arrow.target == target
        ]

    def _lanes(self, heads: dict[str, float]) -> dict[str, int]:
        """Return the lane of each state that lines lead to; short lines are near the boxes."""
        spans = {}
        for target, y in heads.items():
            if ports := self._ports(target, heads):
                ends = [*ports, y + _HEAD / 2]
                spans[target] = (min(ends) - _BEND, max(ends) + _BEND)
        lanes: dict[str, int] = {}
        for target, (top, bottom) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
            taken = {lanes[other] for other in lanes if spans[other][0] < bottom and top < spans[other][1]}
            lanes[target] = next(lane for lane in range(len(spans)) if lane not in taken)
        return {target: lanes[target] for target in spans}

    def _box(self, name: str, y: float, left: float, right: float) -> str:
        rows = self.rows(name)
        height = _HEAD + _ROW * len(rows)
        parts = [element("rect", x=left, y=y, width=right - left, height=height, rx=6, class_="box")]
        parts.append(text(left + _PAD, y + 17, name, "name"))
        parts += [
            text(left + _PAD, y + _HEAD + _ROW * number + 11, arrow.words, "word")
            for number, arrow in enumerate(rows)
        ]
        return "".join(parts)

    def _bus(self, target: str, heads: dict[str, float], right: float, lane: float, colour: int) -> str:
        end = heads[target] + _HEAD / 2
        parts = []
        for port in self._ports(target, heads):
            bend = _BEND if end > port else -_BEND
            parts.append(
                f"M{right:.1f} {port:.1f}H{lane - _BEND:.1f}Q{lane:.1f} {port:.1f} {lane:.1f} {port + bend:.1f}"
                f"V{end - bend:.1f}Q{lane:.1f} {end:.1f} {lane - _BEND:.1f} {end:.1f}H{right + _TIP:.1f}"
            )
        tip = f"M{right:.1f} {end:.1f}l{_TIP} -4v8z"
        return path("".join(parts), f"wire w{colour}") + path(tip, f"t{colour}")


def _start(words: str, y: float, left: float) -> str:
    """Return a dot, and an arrow to the box of the first state."""
    parts = [element("circle", cx=_EDGE, cy=y, r=5, class_="start"), line(_EDGE, y, left - _TIP, y, "start")]
    parts.append(path(f"M{left:.1f} {y:.1f}l-{_TIP} -4v8z", "start"))
    return "".join([*parts, text(_EDGE + 10, y - 5, words, "word")]) if words else "".join(parts)


def _wires() -> str:
    return "".join(
        f".states .w{number} {{ stroke: light-dark({light}, {dark}); }}\n"
        f".states .t{number} {{ fill: light-dark({light}, {dark}); }}\n"
        for number, (light, dark) in enumerate(_COLOURS)
    )
