"""linearizable: valid histories of operations on objects pass, and each damage to one is found."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.operations import Op, history_of, life
from toolkit.checks import linearizable
from toolkit.checks.history import History
from toolkit.checks.invariants import find
from toolkit.checks.result import CheckResult, Outcome


def judged(*operations: Op) -> CheckResult:
    """The verdict on a history of these operations."""
    return find("linearizable")(History.parse(history_of(*operations).dump()))


def one_by_one(*steps: tuple[str, Any, Any]) -> list[Op]:
    """Operations of one client, each after the other: verb, what it writes, what is read or the error."""
    found = []
    for number, (verb, value, answer) in enumerate(steps):
        error = answer if answer in ("ENOENT", "EEXIST") else ""
        action = "fail" if error else "ok"
        found.append(Op("a", verb, number, number + 0.5, value, action, None if error else answer, error))
    return found


def test_sequential_operations_are_linearizable() -> None:
    steps = one_by_one(
        ("read", None, "ENOENT"),
        ("create", None, None),
        ("create", None, "EEXIST"),
        ("read", None, ""),
        ("append", "a;", None),
        ("append", "b;", None),
        ("read", None, "a;b;"),
        ("omap_set", {"k": "1"}, None),
        ("omap_set", {"l": "2"}, None),
        ("omap_get", None, {"k": "1", "l": "2"}),
        ("write", "c;", None),
        ("read", None, "c;"),
        ("omap_get", None, {"k": "1", "l": "2"}),
        ("remove", None, None),
        ("remove", None, "ENOENT"),
        ("omap_get", None, "ENOENT"),
        ("append", "d;", None),
        ("omap_get", None, {}),
        ("read", None, "d;"),
    )
    result = judged(*steps)
    assert (result.outcome, result.note, result.violations) == (Outcome.HOLDS, "", [])


WRONG = {
    "a lost write": [("write", "a;", None), ("write", "b;", None), ("read", None, "a;")],
    "a lost object": [("write", "a;", None), ("read", None, "ENOENT")],
    "an append done twice": [("append", "a;", None), ("read", None, "a;a;")],
    "a lost append": [("append", "a;", None), ("append", "b;", None), ("read", None, "b;")],
    "appends in another order": [("append", "a;", None), ("append", "b;", None), ("read", None, "b;a;")],
    "a second exclusive create": [("create", None, None), ("create", None, None)],
    "a create refused for nothing": [("create", None, "EEXIST")],
    "an object that was removed": [("write", "a;", None), ("remove", None, None), ("read", None, "a;")],
    "a lost omap value": [("omap_set", {"k": "1"}, None), ("omap_get", None, {})],
    "an omap value that nobody set": [("omap_set", {"k": "1"}, None), ("omap_get", None, {"k": "2"})],
    "an omap that outlives its object": [
        ("omap_set", {"k": "1"}, None),
        ("remove", None, None),
        ("create", None, None),
        ("omap_get", None, {"k": "1"}),
    ],
}


@pytest.mark.parametrize("what", WRONG)
def test_violation_is_reported_at_the_answer_that_no_order_explains(what: str) -> None:
    steps = WRONG[what]
    result = judged(*one_by_one(*steps))
    assert [violation.record for violation in result.violations] == [2 * len(steps) - 1]
    assert judged(*one_by_one(*steps[:-1])).ok


def test_violation_lists_possible_values() -> None:
    (violation,) = judged(*one_by_one(*WRONG["a lost write"])).violations
    text = "objects/register0: read 1.2 of a is answered with 'a;' at 2.500 s, but there can only have been 'b;'"
    assert violation.text == text
    (violation,) = judged(*one_by_one(*WRONG["a second exclusive create"])).violations
    text = "create 1.1 of a is acknowledged at 1.500 s, but there can only have been an object"
    assert violation.text == f"objects/register0: {text}"


def test_concurrent_operations_have_any_order() -> None:
    writes = [Op("a", "write", 0, 10, "a;"), Op("b", "write", 1, 9, "b;")]
    for first, second, ok in (("a;", "b;", True), ("b;", "a;", True), ("b;", "b;", True)):
        reads = [Op("c", "read", 2, 3, answer=first), Op("c", "read", 4, 5, answer=second)]
        assert judged(*writes, *reads).ok is ok
    there_and_back = [Op("c", "read", at, at + 0.5, answer=seen) for at, seen in ((2, "a;"), (4, "b;"), (6, "a;"))]
    assert not judged(*writes, *there_and_back).ok
    assert not judged(*writes, Op("c", "read", 11, 12, answer="b;"), Op("c", "read", 13, 14, answer="a;")).ok


def test_of_concurrent_creates_one_succeeds() -> None:
    one, other = Op("a", "create", 0, 10), Op("b", "create", 1, 9)
    assert not judged(one, other).ok
    assert judged(one, replace(other, action="fail", error="EEXIST")).ok
    assert not judged(
        replace(one, action="fail", error="EEXIST"), replace(other, action="fail", error="EEXIST")
    ).ok


@pytest.mark.parametrize("action", ["", "unknown"])
def test_unanswered_operation_may_apply_late_or_never_but_not_twice(action: str) -> None:
    first, lost = Op("a", "write", 0, 1, "a;"), Op("b", "append", 2, 3, "b;", action=action)

    def reads(*seen: str) -> Iterator[Op]:
        return (Op("c", "read", 4 + at, 4.5 + at, answer=text) for at, text in enumerate(seen))

    for seen in (("a;", "a;"), ("a;b;", "a;b;"), ("a;", "a;b;")):
        assert judged(first, lost, *reads(*seen)).ok
    for seen in (("a;b;", "a;"), ("a;b;b;",), ("a;", "a;b;", "a;b;b;")):
        assert not judged(first, lost, *reads(*seen)).ok


def test_refused_operation_has_no_effect() -> None:
    refused = Op("a", "append", 0, 1, "a;", action="fail", error="ENOSPC")
    assert judged(refused, Op("a", "read", 2, 3, action="fail", error="ENOENT")).ok
    assert not judged(refused, Op("a", "read", 2, 3, answer="a;")).ok


def test_objects_are_judged_apart() -> None:
    wrong = one_by_one(*WRONG["a lost write"])
    other = [replace(op, object="objects/other") for op in one_by_one(("write", "x;", None), ("read", None, "x;"))]
    assert len(judged(*wrong, *other).violations) == 1
    assert len(judged(*wrong, *(replace(op, object="more/register0") for op in wrong)).violations) == 2


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizable, "MOST_TRIALS", 2000)
    many = [Op(f"c{number}", "append", 0, 1, f"{number};", action="") for number in range(9)]
    result = judged(*many, Op("a", "read", 2, 3, answer="9;"))
    assert (result.outcome, result.violations) == (Outcome.NOT_JUDGED, [])
    assert "objects/register0 was not judged: 10 operations are concurrent" in result.note
    held = judged(*many, Op("a", "read", 2, 3, answer="9;"), Op("a", "create", 2, 3, object="objects/other"))
    assert held.outcome is Outcome.HOLDS
    assert "register0 was not judged" in held.note


def test_unanswered_writes_of_a_long_run_do_not_add_up() -> None:
    run = []
    for at in range(0, 75, 3):
        run += [Op("a", "write", at, at + 1, f"{at};", action=""), Op("b", "write", at + 1, at + 2, f"b{at};")]
        run.append(Op("b", "read", at + 2, at + 2.5, answer=f"b{at};"))
    assert judged(*run).outcome is Outcome.HOLDS


# ---- drawn histories


SEEDS = st.integers(0, 1 << 32)


@given(SEEDS)
def test_true_histories_hold(seed: int) -> None:
    result = judged(*life(seed))
    assert (result.outcome, result.note) == (Outcome.HOLDS, "")


def unanswered_removes(ops: list[Op]) -> bool:
    """True if there are removes that may be done yet, which explains much."""
    return any(op.verb == "remove" and op.action in {"", "unknown"} for op in ops)


@given(SEEDS)
def test_a_lost_acknowledged_write_is_found(seed: int) -> None:
    ops, end_s = life(seed), max(op.end_s for op in life(seed))
    write = Op("c0", "write", end_s + 1, end_s + 2, "last;")
    read = Op("c1", "read", end_s + 3, end_s + 4, answer="last;")
    assert judged(*ops, write, read).ok
    assert not judged(*ops, write, replace(read, answer="before;")).ok
    if not unanswered_removes(ops):
        assert not judged(*ops, write, replace(read, action="fail", answer=None, error="ENOENT")).ok


@given(SEEDS)
def test_a_stale_read_is_found(seed: int) -> None:
    ops = life(seed)
    end_s = max(op.end_s for op in ops)
    stale = [op for op in ops if op.verb == "read" and op.action == "ok" and op.answer]
    assume(stale)
    writes = [Op("c0", "write", end_s + at, end_s + at + 0.5, f"new{at};") for at in (1, 2)]
    assert judged(*ops, *writes, Op("c1", "read", end_s + 3, end_s + 4, answer="new2;")).ok
    for seen in ("new1;", stale[-1].answer):
        assert not judged(*ops, *writes, Op("c1", "read", end_s + 3, end_s + 4, answer=seen)).ok


@given(SEEDS, st.data())
def test_a_doubled_append_is_found(seed: int, data: st.DataObject) -> None:
    ops = life(seed)
    reads = [place for place, op in enumerate(ops) if op.verb == "read" and op.action == "ok" and op.answer]
    assume(reads)
    place = data.draw(st.sampled_from(reads))
    tokens = ops[place].answer.split(";")[:-1]
    twice = data.draw(st.integers(0, len(tokens) - 1))
    doubled = "".join(f"{token};" for token in (*tokens[: twice + 1], *tokens[twice:]))
    assert not judged(*ops[:place], replace(ops[place], answer=doubled), *ops[place + 1 :]).ok


@given(SEEDS)
def test_two_exclusive_creates_are_found(seed: int) -> None:
    ops = life(seed)
    end_s = max(op.end_s for op in ops) + 1
    removed = Op("c0", "remove", end_s, end_s + 1)
    sure = Op("c0", "write", end_s - 0.9, end_s - 0.1, "x;")
    one, other = Op("c1", "create", end_s + 2, end_s + 5), Op("c2", "create", end_s + 3, end_s + 4)
    assume(not unanswered_removes(ops))
    assert judged(*ops, sure, removed, one, replace(other, action="fail", error="EEXIST")).ok
    assert not judged(*ops, sure, removed, one, other).ok
