"""A live view of sessions: rates, requests, faults and verdicts of each, in bounded memory (docs/top.md)."""

from toolkit.dissect.top.model import Limits, Top
from toolkit.dissect.top.row import COLUMNS, Event, Row
from toolkit.dissect.top.snapshot import ORDERS, SORTED_BY, Snapshot
from toolkit.dissect.top.sources import CaptureTop, Live, LiveTop, is_capture_file, open_top

__all__ = [
    "COLUMNS",
    "ORDERS",
    "SORTED_BY",
    "CaptureTop",
    "Event",
    "Limits",
    "Live",
    "LiveTop",
    "Row",
    "Snapshot",
    "Top",
    "is_capture_file",
    "open_top",
]
