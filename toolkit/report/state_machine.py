"""The states of a session as a diagram, drawn from the messenger's transition table."""

from collections.abc import Mapping, Sequence
from math import cos, hypot, pi, sin

from messenger.session.states import TRANSITIONS, Change, SessionState
from toolkit.report import svg
from toolkit.report.text import fit

WIDTH, HEIGHT = 360, 332
"""Size in pixels, which fits a telephone without scaling."""
_BOX = 106, 38
_CENTRE = 180.0, 141.0
_RADII = 123.0, 117.0
_NAMES_SIZE = 10
_BEND = 0.16
"""Bend of an arrow to its left, relative to its length, so that two arrows between the same boxes do not meet."""
_HEAD = 7.0

Point = tuple[float, float]


def arrows() -> dict[tuple[SessionState, SessionState], tuple[Change, ...]]:
    """Return the changes between states, without CLOSE, which every state has."""
    found: dict[tuple[SessionState, SessionState], list[Change]] = {}
    for (state, change), target in TRANSITIONS.items():
        if change is not Change.CLOSE:
            found.setdefault((state, target), []).append(change)
    return {ends: tuple(changes) for ends, changes in found.items()}


def draw_machine(
    inside: Mapping[str, Sequence[str]], chosen: str = "", last: tuple[str, str] | None = None
) -> str:
    """Return the diagram as SVG.

    Args:
        inside: names of the sessions in each state, by name of the state.
        chosen: name of the state whose outgoing arrows are highlighted.
        last: names of the two states of the last change, which is highlighted most.
    """
    places = _places()
    drawn = [
        _arrow(places[source], places[target], _look(source, target, chosen, last), ", ".join(changes))
        for (source, target), changes in sorted(
            arrows().items(), key=lambda item: (item[0] == last, item[0][0] == chosen)
        )
        if source is not target
    ]
    drawn += [_box(state, place, inside.get(state, ()), chosen) for state, place in places.items()]
    drawn.append(svg.text(WIDTH - 8, HEIGHT - 16, "every state may end in CLOSED", "note", "end"))
    title = svg.element("title", "States of a session")
    names = "; ".join(f"{state}: {', '.join(names)}" for state, names in inside.items() if names)
    about = svg.element("desc", svg.escape(names or "no session"))
    return svg.element(
        "svg", title + about + "".join(drawn), class_="machine", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img"
    )


def _places() -> dict[SessionState, Point]:
    """Return the centre of each state's box: on an ellipse, in the order of the states, CLOSED outside."""
    circle = [state for state in SessionState if state is not SessionState.CLOSED]
    angles = [2 * pi * number / len(circle) - pi / 2 for number in range(len(circle))]
    places: dict[SessionState, Point] = {
        state: (_CENTRE[0] + _RADII[0] * cos(angle), _CENTRE[1] + _RADII[1] * sin(angle))
        for state, angle in zip(circle, angles, strict=True)
    }
    return {**places, SessionState.CLOSED: (_BOX[0] / 2 + 4, HEIGHT - _BOX[1] / 2 - 2)}


def _look(source: str, target: str, chosen: str, last: tuple[str, str] | None) -> str:
    if last == (source, target):
        return "arrow last"
    return "arrow out" if source == chosen else "arrow"


def _arrow(begin: Point, end: Point, look: str, tip: str) -> str:
    middle = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
    bend = middle[0] + (end[1] - begin[1]) * _BEND, middle[1] - (end[0] - begin[0]) * _BEND
    x1, y1 = _edge(begin, bend)
    x2, y2 = _edge(end, bend)
    away = hypot(x2 - bend[0], y2 - bend[1]) or 1.0
    across, along = (x2 - bend[0]) / away, (y2 - bend[1]) / away
    back = x2 - across * _HEAD, y2 - along * _HEAD
    side = along * _HEAD / 2, across * _HEAD / 2
    head = (
        f"M{x2:.1f} {y2:.1f}L{back[0] + side[0]:.1f} {back[1] - side[1]:.1f}"
        f"L{back[0] - side[0]:.1f} {back[1] + side[1]:.1f}z"
    )
    shaft = f"M{x1:.1f} {y1:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {back[0]:.1f} {back[1]:.1f}"
    return svg.group([svg.path(shaft, "shaft"), svg.path(head, "tip")], tip, look)


def _edge(centre: Point, towards: Point) -> Point:
    """Point where a line from the middle of a box leaves the box."""
    across, along = towards[0] - centre[0], towards[1] - centre[1]
    part = min(
        _BOX[0] / 2 / abs(across) if across else float("inf"), _BOX[1] / 2 / abs(along) if along else float("inf")
    )
    return centre[0] + across * part, centre[1] + along * part


def _box(state: SessionState, centre: Point, names: Sequence[str], chosen: str) -> str:
    x, y = centre[0] - _BOX[0] / 2, centre[1] - _BOX[1] / 2
    look = " ".join(["state", *["lit"] * bool(names), *["chosen"] * (state == chosen)])
    label = fit(", ".join(names), _NAMES_SIZE, _BOX[0] - 10)
    above = 5 if names else -4
    parts = [
        svg.box(x, y, *_BOX, "", 8),
        svg.text(centre[0], centre[1] - above, f"● {state}" if names else state, "name", "middle"),
        *[svg.text(centre[0], centre[1] + 12, label, "names", "middle")] * bool(names),
    ]
    return svg.group(parts, f"{state}: {', '.join(names)}" if names else "", look)
