"""A sequence chart and its events as JSON values, which the scripts of a page draw."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from toolkit.checks.describe import describe
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import KINDS, Record
from toolkit.report.folds import cap, mark_silences
from toolkit.report.rows import Arrow, Chip, Cut, Gap, Marks, Row, Steps
from toolkit.report.sequence import frame_family, time_digits
from toolkit.report.text import printable
from toolkit.report.timeline import Timeline

MOST_ROWS = 60_000
"""Maximum number of rows in a chart; the middle of longer charts is omitted."""
_MOST_EVENTS = 60_000
_LAST_EVENTS = 20_000
_SILENCE_S = 0.1


def chart_values(history: History, nodes: Sequence[str] = (), index: Index | None = None) -> dict[str, Any]:
    """Return the rows of a chart as JSON values.

    Args:
        history: the history to show.
        nodes: order of the lanes; those not named follow in order of appearance.
        index: index of the history, if there is one already.
    """
    timeline = Timeline(history, index)
    lanes = list(dict.fromkeys([*nodes, *timeline.lifelines()]))
    places = {name: place for place, name in enumerate(lanes)}
    rows = cap(mark_silences(timeline.rows, _SILENCE_S), MOST_ROWS)
    known = frozenset(timeline.nodes)
    return {
        "lanes": [printable(name) for name in lanes],
        "outside": [places[name] for name in lanes if name not in known],
        "digits": time_digits([row.time_s for row in rows]),
        "rows": [_row(row, places) for row in rows],
    }


def _row(row: Row, places: dict[str, int]) -> dict[str, Any]:
    match row:
        case Arrow():
            values = {
                "kind": "frame",
                "from": places[row.source],
                "to": places[row.target],
                "tag": row.tag,
                "family": frame_family(row.tag),
                "text": row.detail,
                "fate": row.fate,
                "tip": row.tip,
            }
            if row.frame is not None:
                values["frame"] = row.frame
        case Marks():
            chips = [_chip(chip) for chip in row.chips]
            values = {"kind": "marks", "lane": places[row.node], "chips": chips, "text": row.note}
        case Cut():
            values = {"kind": "cut", "from": places[row.a], "to": places[row.b], "text": row.text}
        case Steps():
            values = {"kind": "step", "lines": row.lines}
        case Gap():
            values = {"kind": "gap", "text": row.text}
    return {"time": row.time_s, **values}


def _chip(chip: Chip) -> dict[str, Any]:
    values: dict[str, Any] = {"look": chip.style, "text": chip.text, "tip": chip.tip}
    return values if chip.session is None else {**values, "session": chip.session}


def event_values(history: History, wrong: Iterable[int] = ()) -> dict[str, Any]:
    """Return the records as lines of a table.

    Args:
        history: the history to show; the middle of a very long one is left out.
        wrong: positions of records that violations refer to, which are always included.
    """
    records = history.records
    marked = {place for place in wrong if place < len(records)}
    places = sorted(_shown(len(records), marked))
    omitted = [] if history.omitted is None else [history.omitted.place]
    used = {record.kind for record in records}
    return {
        "kinds": [kind for kind in KINDS if kind in used],
        "wrong": sorted(marked),
        "rows": [_event(place, records[place]) for place in places],
        "gaps": omitted + [later for earlier, later in pairwise([-1, *places]) if later > earlier + 1],
    }


def _shown(count: int, marked: set[int]) -> set[int]:
    if count <= _MOST_EVENTS:
        return {*range(count)}
    return {*range(_MOST_EVENTS - _LAST_EVENTS), *range(count - _LAST_EVENTS, count), *marked}


def _event(place: int, record: Record) -> list[Any]:
    return [place, record.time_s, record.node, record.kind, describe(record)]


def as_script(values: object) -> str:
    """Return JSON for a script element, escaped so that no text in it can end the element."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
