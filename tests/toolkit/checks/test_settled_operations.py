"""Operations of a long run that were judged leave its history, and the verdict on the rest stays the same."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operations import Op, history_of, life
from toolkit.checks import linearizable
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import find
from toolkit.checks.long_run import LongRun
from toolkit.checks.records import Record
from toolkit.checks.result import CheckResult, Outcome
from toolkit.checks.settled_records import foldable


def folded(records: Iterable[Record], until_s: float) -> list[Record]:
    """The records that are left when those up to a moment are settled."""
    history = History(records)
    changes = foldable(Index(history), until_s)
    kept = [changes.get(place, record) for place, record in enumerate(history.records)]
    return [record for record in kept if record is not None]


def folded_step_by_step(history: History, every_s: float) -> tuple[list[Record], int]:
    """What is left when a history is folded every so many seconds as it comes in; and the most at a time."""
    kept: list[Record] = []
    most, until_s = 0, every_s
    for record in history:
        if record.time_s > until_s:
            kept = folded(kept, until_s - every_s)
            until_s += every_s
        kept.append(record)
        most = max(most, len(kept))
    return kept, most


def judged(records: Iterable[Record]) -> CheckResult:
    """The verdict on a history, which is written and read again."""
    return find("linearizable")(History.parse(History(records).dump()))


def drawn(seed: int) -> list[Op]:
    """A drawn life of an object, in which each operation has an answer or none for good."""
    return [op if op.action else replace(op, action="unknown") for op in life(seed)]


@given(st.integers(0, 1 << 32), st.floats(0.5, 5.0))
def test_valid_histories_hold_at_any_folding_interval(seed: int, every_s: float) -> None:
    history = history_of(*drawn(seed))
    kept, _ = folded_step_by_step(history, every_s)
    result = judged(kept)
    assert (result.outcome, result.note) == (Outcome.HOLDS, "")


@given(st.integers(0, 1 << 32), st.floats(0.5, 5.0), st.integers(0, 1000))
def test_folded_and_whole_histories_get_the_same_verdict(seed: int, every_s: float, which: int) -> None:
    ops = drawn(seed)
    reads = [place for place, op in enumerate(ops) if op.verb == "read" and op.action == "ok"]
    if reads:
        place = reads[which % len(reads)]
        ops[place] = replace(ops[place], answer=f"{which % len(ops)};")
    history = history_of(*ops)
    growing = History()
    run = LongRun(growing, lambda changes: fold(growing, changes), 10, every_s)
    for record in history:
        growing.records.append(record)
        run.look()
    (result,) = run.completed([judged(growing)], [record.time_s for record in growing])
    assert result.ok is judged(history).ok


def fold(history: History, changes: Mapping[int, Record | None]) -> None:
    kept = [changes.get(id(record), record) for record in history.records]
    history.records[:] = [record for record in kept if record is not None]


def test_memory_stays_small_and_a_late_violation_is_found() -> None:
    ops = [
        op
        for at in range(0, 6000, 3)
        for op in (
            Op("a", "write", at, at + 1, f"{at};"),
            Op("b", "append", at + 0.5, at + 1.5, "b;", action="unknown" if at % 1500 == 0 else "ok"),
            Op("a", "remove", at + 2, at + 2.5),
        )
    ]
    history = history_of(*ops, Op("c", "read", 6001, 6002, answer="3;"))
    kept, most = folded_step_by_step(history, 30.0)
    assert most < 300 < len(history) / 30
    result = judged(kept)
    (violation,) = result.violations
    assert "register0: read 1.6000 of c is answered with '3;' at 6002.000 s" in violation.text


def test_folding_keeps_an_operation_that_may_still_be_answered() -> None:
    first = Op("a", "write", 0, 1, "a;")
    open_ = Op("b", "append", 2, 3, "b;", action="")
    read = Op("c", "read", 4, 5, answer="a;b;")
    records = history_of(first, open_, read).records
    assert [record["action"] for record in folded(records, 100.0)] == ["settled", "invoke", "invoke", "ok"]
    late = [*folded(records, 100.0), Record(200.0, "b", "operation", {**records[2].fields, "action": "ok"})]
    assert judged(late).ok
    ended = [*records, Record(50.0, "b", "process", {"action": "kill", "incarnation": 1})]
    assert [record["action"] for record in folded(ended, 100.0)] == ["invoke", "settled", "kill"]


def test_folding_applies_an_operation_pending_at_the_cut_exactly_once() -> None:
    first, lost = Op("a", "write", 0, 1, "a;"), Op("b", "append", 2, 3, "b;", action="unknown")
    done = folded(history_of(first, lost, Op("c", "read", 4, 5, answer="a;b;")), 100.0)
    for seen, ok in (("a;b;", True), ("a;", False), ("a;b;b;", False)):
        later = history_of(Op("d", "read", 6, 7, answer=seen))
        assert judged([*done, *later]).ok is ok


def test_object_is_not_judged_after_its_state_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizable, "MOST_TRIALS", 2000)
    many = [Op(f"c{number}", "append", 0, 1, f"{number};", action="unknown") for number in range(9)]
    records = folded(history_of(*many, Op("a", "read", 2, 3, answer="9;")), 100.0)
    assert records[-1].fields["points"] == []
    result = judged([*records, *history_of(Op("d", "read", 6, 7, answer="x;"))])
    assert (result.outcome, result.violations) == (Outcome.NOT_JUDGED, [])
    assert "objects/register0 was not judged from 3.000 s on: its state was not known" in result.note


@pytest.mark.parametrize("points", [[1], [{}], [{"exists": True, "data": "", "omap": 3, "done": []}], [{"x": []}]])
def test_invalid_points_of_a_settled_record_are_not_judged(points: list[object]) -> None:
    records = folded(history_of(Op("a", "write", 0, 1, "a;")), 100.0)
    records[-1].fields["points"] = points
    assert judged(records).outcome is Outcome.NOT_JUDGED
