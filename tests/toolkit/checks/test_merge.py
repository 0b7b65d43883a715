"""Histories of several processes become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.checks.history import History
from toolkit.checks.merge import clocks_ahead_s, in_order, merged
from toolkit.checks.records import Record


def history_of(node: str, *moments: tuple[float, str, dict[str, object]]) -> History:
    return History(Record(time_s, node, kind, fields) for time_s, kind, fields in moments)


def message(kind: str, peer: str, tid: int) -> tuple[str, dict[str, object]]:
    return kind, {"session": 1, "peer": peer, "tid": tid, "seq": tid, "digest": f"{tid}", "size": 1}


def both_ways(ahead_s: float, latency_s: float = 0.001) -> dict[str, History]:
    """a and b send each other two messages each; b's clock is ahead."""
    a, b = [], []
    for tid, jitter_s in ((1, 0.0), (2, 0.3)):
        a.append((tid * 1.0, *message("send", "b", tid)))
        b.append((tid * 1.0 + latency_s + jitter_s + ahead_s, *message("deliver", "a", tid)))
        b.append((tid * 1.0 + 0.5 + ahead_s, *message("send", "a", tid + 10)))
        a.append((tid * 1.0 + 0.5 + latency_s + jitter_s, *message("deliver", "b", tid + 10)))
    return {"a": history_of("a", *a), "b": history_of("b", *b)}


@pytest.mark.parametrize("ahead_s", [0.0, 5.0, -3600.0])
def test_messages_determine_clock_differences(ahead_s: float) -> None:
    histories = both_ways(ahead_s)
    found = clocks_ahead_s(histories)
    assert found["a"] == 0.0
    assert found["b"] == pytest.approx(ahead_s, abs=1e-6)
    kinds = [(record.node, record.kind) for record in merged(histories)]
    assert kinds[:4] == [("a", "send"), ("b", "deliver"), ("b", "send"), ("a", "deliver")]


def test_one_way_messages_move_a_clock_by_the_least_needed() -> None:
    late = {
        "a": history_of("a", (1.0, *message("send", "b", 1))),
        "b": history_of("b", (9.0, *message("deliver", "a", 1))),
    }
    assert clocks_ahead_s(late) == {"a": 0.0, "b": 0.0}
    early = {
        "a": history_of("a", (9.0, *message("send", "b", 1))),
        "b": history_of("b", (1.0, *message("deliver", "a", 1))),
    }
    assert clocks_ahead_s(early) == {"a": 0.0, "b": -8.0}
    assert [record.kind for record in merged(early)] == ["send", "deliver"]


def test_clocks_are_known_over_a_third_and_not_at_all_without_messages() -> None:
    histories = both_ways(5.0)
    histories["c"] = history_of("c", (8.5, *message("deliver", "b", 77)))
    histories["b"].records.append(Record(8.0, "b", *message("send", "c", 77)))
    histories["d"] = history_of("d", (1.0, *message("send", "nobody", 1)))
    found = clocks_ahead_s(histories)
    assert found["c"] == pytest.approx(5.0, abs=1e-6)
    assert found["d"] == 0.0


def test_a_known_difference_is_taken() -> None:
    histories = {
        "a": history_of("a", (1.0, "clock", {"step_s": 1})),
        "b": history_of("b", (5.5, "clock", {"step_s": 2})),
    }
    assert [record.time_s for record in merged(histories, {"b": 5.0})] == [0.5, 1.0]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 10), st.sampled_from(("frame", "process")))))
def test_in_order_keeps_the_order_of_each_node(drawn: list[tuple[str, float, str]]) -> None:
    records = [Record(time_s, node, kind, {}) for node, time_s, kind in drawn]
    ordered = in_order(records)
    assert sorted(map(id, ordered)) == sorted(map(id, records))
    for node in "abc":
        own = [record for record in records if record.node == node and record.kind == "frame"]
        assert [record for record in ordered if record.node == node and record.kind == "frame"] == own


def test_in_order_sorts_process_records_by_time() -> None:
    """What a killed node had written before comes in behind the record of its end."""
    kill = Record(2.0, "a", "process", {"action": "kill", "incarnation": 1})
    last = Record(1.9, "a", "frame", {})
    assert in_order([kill, last]) == [last, kill]
