"""When something was broken, from the records of a history."""

from typing import Any

from toolkit.checks.history import NETWORK, History
from toolkit.report.disturbances import Disturbances

Entry = tuple[float, str, str, dict[str, Any]]


def _bands(*entries: Entry) -> list[tuple[str, float, float | None]]:
    history = History()
    for time_s, node, kind, fields in entries:
        history.append(time_s, node, kind, **fields)
    found = Disturbances()
    for record in history:
        found.take(record)
    return [(band.text, band.begin_s, band.end_s) for band in found.bands]


def _path(time_s: float, fault: str, a: str = "", b: str = "", detail: str = "") -> Entry:
    return time_s, NETWORK, "path", {"fault": fault, "a": a, "b": b, "detail": detail}


def _process(time_s: float, node: str, action: str) -> Entry:
    return time_s, node, "process", {"action": action, "incarnation": 1}


def test_a_partition_of_both_directions_is_one_band_until_it_is_healed() -> None:
    entries = [_path(1, "partition", "a", "b"), _path(1, "partition", "b", "a"), _path(3, "heal")]
    assert _bands(*entries) == [("partition a b", 1, 3)]


def test_healing_one_way_leaves_the_others() -> None:
    entries = [_path(1, "link", "a", "b"), _path(2, "link", "a", "c"), _path(3, "heal", "a", "b")]
    assert _bands(*entries) == [("link a b", 1, 3), ("link a c", 2, None)]


def test_a_refusal_ends_with_its_own_record() -> None:
    entries = [_path(1, "refuse", "a", "b", "refused=1"), _path(2, "refuse", "a", "b", "refused=0")]
    assert _bands(*entries) == [("refuse a b", 1, 2)]


def test_killed_and_frozen_processes_have_bands() -> None:
    entries = [_process(0, "b", "start"), _process(1, "b", "freeze"), _process(2, "b", "thaw")]
    entries += [
        _process(3, "b", "kill"),
        _process(5, "b", "start"),
        _process(6, "b", "freeze"),
        _process(7, "b", "kill"),
    ]
    assert _bands(*entries) == [("b frozen", 1, 2), ("b killed", 3, 5), ("b frozen", 6, 7), ("b killed", 7, None)]


def test_a_cut_is_a_moment() -> None:
    cut = 4.0, NETWORK, "cut", {"a": "a", "b": "b", "at": {}, "detail": ""}
    assert _bands(cut, _path(5, "half_open", "a", "b")) == [("cut a b", 4, 4), ("half_open a b", 5, 5)]
