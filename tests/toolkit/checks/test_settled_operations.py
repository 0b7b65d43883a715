"""Operations of a long run that were judged leave its history, and the verdict on the rest stays the same."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.folding import long_run, remaining
from tests.support.operations import Op, damaged, history_of, is_linearizable, life
from toolkit.checks import linearizable
from toolkit.checks.history import History
from toolkit.checks.invariants import find
from toolkit.checks.records import Record
from toolkit.checks.result import CheckResult, Outcome


def folded_step_by_step(history: History, every_s: float) -> tuple[list[Record], int]:
    """Fold a history every so many seconds as it grows; returns the result, and the most records in memory."""
    kept: list[Record] = []
    most, until_s = 0, every_s
    for record in history:
        if record.time_s > until_s:
            kept = remaining(kept, until_s - every_s)
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


@given(
    st.integers(0, 1 << 32), st.sampled_from([0.3, 0.7]), st.sampled_from([0.0, 20.0]), st.sampled_from([2, 99])
)
def test_verdict_after_any_folds_is_that_of_the_definition(
    seed: int, lost: float, late_s: float, values: int
) -> None:
    random = Random(seed)
    ops = damaged(life(seed, count=8, lost=lost, late_s=late_s, values=values), random)
    kept: list[Record] = []
    ok = True
    for record in history_of(*(op if op.action else replace(op, action="unknown") for op in ops)):
        kept.append(record)
        if random.random() < 0.5:
            ok = ok and judged(kept).ok  # what was found before stays
            kept = remaining(kept, record.time_s - random.choice((0.0, 0.5, 2.0)))
    assert (ok and judged(kept).ok) is is_linearizable(ops)


WRONG_ENDS = {
    "a lost write": [
        Op("c0", "write", 1, 2, "x;"),
        Op("c0", "write", 3, 4, "y;"),
        Op("c1", "read", 5, 6, answer="x;"),
    ],
    "a value that appears twice": [Op("c0", "append", 1, 2, "x;"), Op("c1", "read", 3, 4, answer="x;x;")],
    "a stale read": [
        Op("c0", "write", 1, 2, "x;"),
        Op("c0", "write", 3, 4, "y;"),
        Op("c1", "read", 5, 6, answer="y;"),
        Op("c1", "read", 7, 8, answer="x;"),
    ],
}


@pytest.mark.parametrize("wrong", WRONG_ENDS.values(), ids=WRONG_ENDS)
def test_violation_after_a_hundred_unanswered_operations_is_found(wrong: list[Op]) -> None:
    ops = [
        op if op.action else replace(op, action="unknown") for op in life(7, count=1500, lost=0.1, late_s=100.0)
    ]
    end_s = max(op.end_s for op in ops)
    assert sum(op.action == "unknown" for op in ops) > 90
    last = [replace(op, begin_s=op.begin_s + end_s, end_s=op.end_s + end_s) for op in wrong]
    kept, most = folded_step_by_step(history_of(*ops, *last), 30.0)
    assert most < len(ops) / 2
    result = judged(kept)
    assert [violation.record for violation in result.violations] == [len(kept) - 1]
    kept, _ = folded_step_by_step(history_of(*ops, *last[:-1]), 30.0)
    assert (judged(kept).outcome, judged(kept).note) == (Outcome.HOLDS, "")


@given(st.integers(0, 1 << 32), st.floats(0.5, 5.0), st.integers(0, 1000))
def test_folded_and_whole_histories_get_the_same_verdict(seed: int, every_s: float, which: int) -> None:
    ops = drawn(seed)
    reads = [place for place, op in enumerate(ops) if op.verb == "read" and op.action == "ok"]
    if reads:
        place = reads[which % len(reads)]
        ops[place] = replace(ops[place], answer=f"{which % len(ops)};")
    history = history_of(*ops)
    growing = History()
    run = long_run(growing, 10, every_s)
    for record in history:
        growing.records.append(record)
        run.look()
    (result,) = run.completed([judged(growing)], [record.time_s for record in growing])
    assert result.ok is judged(history).ok


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
    assert [record["action"] for record in remaining(records, 100.0)] == ["settled", "invoke", "invoke", "ok"]
    late = [*remaining(records, 100.0), Record(200.0, "b", "operation", {**records[2].fields, "action": "ok"})]
    assert judged(late).ok
    ended = [*records, Record(50.0, "b", "process", {"action": "kill", "incarnation": 1})]
    assert [record["action"] for record in remaining(ended, 100.0)] == ["settled", "kill"]


def test_folding_keeps_an_unanswered_operation_until_it_is_read() -> None:
    first, lost = Op("a", "write", 0, 1, "a;"), Op("b", "append", 2, 3, "b;", action="unknown")
    reads = [Op("c", "read", at, at + 1, answer=seen) for at, seen in ((4, "a;"), (6, "a;"), (8, "a;b;"))]
    records = history_of(first, lost, *reads).records
    kept = remaining(records[:-2], 100.0)
    assert [record["action"] for record in kept] == ["invoke", "unknown", "settled", "invoke", "ok"]
    assert [record["action"] for record in remaining([*kept, *records[-2:]], 100.0)] == ["settled"]


def test_folding_keeps_removes_until_they_are_met() -> None:
    removes = [Op("b", "remove", 2, 3, action="unknown"), Op("b", "remove", 3, 4, action="unknown")]
    meets = Op("c", "read", 6, 7, action="fail", error="ENOENT"), Op("c", "read", 8, 9, answer="a;")
    whole = history_of(Op("a", "write", 0, 1, "a;"), *removes, meets[0])
    kept = remaining(whole, 100.0)
    assert [record["action"] for record in kept] == ["invoke", "unknown", "settled"]
    assert not judged([*kept, *history_of(replace(meets[1], client="d"))]).ok
    again = Op("d", "write", 8, 9, "b;"), replace(meets[0], client="d", begin_s=10, end_s=11)
    assert judged([*kept, *history_of(*again)]).ok
    once_more = [replace(op, begin_s=op.begin_s + 5, end_s=op.end_s + 5) for op in again]
    assert not judged([*kept, *history_of(*again, *once_more)]).ok


@pytest.mark.parametrize(("verb", "other"), [("append", "append"), ("write", "append")])
def test_folding_waits_for_a_read_after_an_unanswered_operation(verb: str, other: str) -> None:
    lost = Op("b", verb, 2, 3, "b;", action="unknown")
    records = history_of(Op("a", "write", 0, 1, "a;"), lost, Op("a", other, 4, 5, "c;"))
    start = "a;" if verb == "append" else ""
    for seen, ok in ((f"{start}b;c;", True), ("a;c;", True), ("c;", False), (f"{start}b;", verb == "write")):
        later = [Op("d", "read", 6, 7, answer=seen), Op("d", "read", 8, 9, answer=seen)]
        assert judged([*remaining(records, 100.0), *history_of(*later)]).ok is ok


def test_value_that_created_an_object_unread_is_not_read_later() -> None:
    lost = Op("b", "append", 0, 1, "b;", action="unknown")
    meets = Op("a", "create", 2, 3, action="fail", error="EEXIST"), Op("a", "remove", 4, 5)
    hides = Op("a", "write", 6, 7, "x;"), Op("a", "read", 8, 9, answer="x;")
    kept = remaining(history_of(lost, *meets, *hides), 100.0)
    assert len(kept) < len(history_of(lost, *meets, *hides))
    assert judged(kept).ok
    assert not judged([*kept, *history_of(Op("d", "read", 10, 11, answer="x;b;"))]).ok
    other = Op("c", "append", 0, 1, "c;", action="unknown")
    kept = remaining(history_of(lost, other, *meets, *hides), 100.0)
    assert judged([*kept, *history_of(Op("d", "read", 10, 11, answer="x;b;"))]).ok
    assert not judged([*kept, *history_of(Op("d", "read", 10, 11, answer="x;b;c;"))]).ok


def test_folding_applies_an_operation_pending_at_the_cut_exactly_once() -> None:
    first, lost = Op("a", "write", 0, 1, "a;"), Op("b", "append", 2, 3, "b;", action="unknown")
    done = remaining(history_of(first, lost, Op("c", "read", 4, 5, answer="a;b;")), 100.0)
    for seen, ok in (("a;b;", True), ("a;", False), ("a;b;b;", False)):
        later = history_of(Op("d", "read", 6, 7, answer=seen))
        assert judged([*done, *later]).ok is ok


def test_object_is_not_judged_after_its_state_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizable, "MOST_TRIALS", 2000)
    many = [Op(f"c{number}", "append", 0, 1, f"{number};", action="unknown") for number in range(9)]
    records = remaining(history_of(*many, Op("a", "read", 2, 3, answer="876543210;9;8;7;6;5;4;3;2;1;0;")), 100.0)
    assert records[-1].fields["points"] == []
    result = judged([*records, *history_of(Op("d", "read", 6, 7, answer="x;"))])
    assert (result.outcome, result.violations) == (Outcome.NOT_JUDGED, [])
    assert "objects/register0 was not judged from 3.000 s on: its state was not known" in result.note


@pytest.mark.parametrize("points", [[1], [{}], [{"exists": True, "data": "", "omap": 3, "done": []}], [{"x": []}]])
def test_invalid_points_of_a_settled_record_are_not_judged(points: list[object]) -> None:
    records = remaining(history_of(Op("a", "write", 0, 1, "a;")), 100.0)
    records[-1].fields["points"] = points
    assert judged(records).outcome is Outcome.NOT_JUDGED
