"""The lifelines of a sequence chart: when a process ran, and when it had a READY session."""

from collections.abc import Iterator, Sequence

from toolkit.report import svg
from toolkit.report.layout import HEAD_HEIGHT, Layout
from toolkit.report.rows import Chip, Marks, Row
from toolkit.report.text import fit, width

_READY_WIDTH = 6.0
_NAME_SIZE = 13.0
_ROW_MIDDLE = 13.0


def draw_lifelines(
    layout: Layout, names: Sequence[str], outside: Sequence[str], rows: Sequence[Row]
) -> Iterator[str]:
    """Yield lines, bars and, at both ends, the names."""
    for name in names:
        if name in outside:
            x = layout.x(name)
            yield svg.line(x, layout.top, x, layout.bottom, "outside")
        else:
            yield from _life(layout, name, rows)
        yield _head(layout, name, layout.top - HEAD_HEIGHT)
        yield _head(layout, name, layout.bottom)


def _head(layout: Layout, name: str, top: float) -> str:
    shown = fit(name, _NAME_SIZE, layout.pitch - 50)
    wide = max(64.0, width(shown, _NAME_SIZE) * 1.05 + 28)
    x = layout.x(name)
    parts = [
        svg.box(x - wide / 2, top, wide, HEAD_HEIGHT, "head", 7),
        svg.text(x, top + 20, shown, "name", "middle"),
    ]
    return svg.group(parts, name)


def _life(layout: Layout, name: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the line, dotted while there is no process, and bars over it while a session is READY."""
    x = layout.x(name)
    marks = [
        (top + _ROW_MIDDLE, chip)
        for row, top in zip(rows, layout.tops, strict=True)
        if isinstance(row, Marks) and row.node == name
        for chip in row.chips
    ]
    first = next((chip.style for _, chip in marks if chip.style in {"started", "ended"}), "")
    look, since = "dead" if first == "started" else "life", layout.top
    for y, chip in marks:
        if chip.style in {"started", "ended"}:
            yield svg.line(x, since, x, y, look)
            look, since = "life" if chip.style == "started" else "dead", y
    yield svg.line(x, since, x, layout.bottom, look)
    for begin, end in _ready(marks, layout.bottom):
        yield svg.box(x - _READY_WIDTH / 2, begin, _READY_WIDTH, end - begin, "ready", _READY_WIDTH / 2)


def _ready(marks: Sequence[tuple[float, Chip]], bottom: float) -> Iterator[tuple[float, float]]:
    """Yield the spans in which at least one session was READY."""
    ready: set[int] = set()
    since = 0.0
    for y, chip in marks:
        before = bool(ready)
        if chip.style == "ended":
            ready.clear()
        elif chip.session is not None:
            (ready.add if chip.style == "ready" else ready.discard)(chip.session)
        if ready and not before:
            since = y
        elif before and not ready:
            yield since, y
    if ready:
        yield since, bottom
